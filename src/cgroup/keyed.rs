//! Flat keyed files (`KEY VALUE` lines: memory.stat, memory.events, cpu.stat, /proc/vmstat) and nested keyed ones (io.stat).

use super::parse_number;

/// The pairs of a flat keyed file. Also reads /proc/meminfo (`Key:   value kB`): the colon is dropped, the unit ignored. Lines that
/// are neither are skipped.
pub fn flat(text: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    text.split(|&b| b == b'\n').filter_map(|line| {
        let space = line.iter().position(|&b| b == b' ')?;
        let (key, rest) = (&line[..space], line[space..].trim_ascii_start());
        let digits = rest.split(|&b| b == b' ').next()?;
        let key = key.strip_suffix(b":").unwrap_or(key);
        if key.is_empty() { None } else { Some((key, parse_number(digits)?)) }
    })
}

/// The value of one key of a flat keyed file.
pub fn flat_value(text: &[u8], key: &str) -> Option<u64> {
    flat(text).find(|(k, _)| *k == key.as_bytes()).map(|(_, value)| value)
}

/// The triples (line's name, key, number) of a nested keyed file; values that are not whole numbers are skipped.
pub fn nested(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8], u64)> {
    text.split(|&b| b == b'\n').flat_map(|line| {
        let mut words = line.split(|&b| b == b' ').filter(|word| !word.is_empty());
        let name = words.next().unwrap_or_default();
        words.filter_map(move |word| {
            let equals = word.iter().position(|&b| b == b'=')?;
            Some((name, &word[..equals], parse_number(&word[equals + 1..])?))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn kernel_files() {
        let events = b"low 0\nhigh 3\nmax 225\noom 1\noom_kill 1\noom_group_kill 0\n";
        assert_eq!(flat_value(events, "oom_kill"), Some(1));
        assert_eq!(flat_value(events, "oom_killer"), None, "absent is absent");
        let meminfo = b"MemTotal:        2014344 kB\nMemFree:           12 kB\nHugePages_Total:       0\n";
        assert_eq!(flat_value(meminfo, "MemTotal"), Some(2_014_344));
        assert_eq!(flat_value(meminfo, "HugePages_Total"), Some(0));
        let io = b"254:0 rbytes=4096 wbytes=0 rios=1\n8:16 rbytes=7\n";
        let triples: Vec<_> = nested(io).collect();
        assert_eq!(triples[0], (&b"254:0"[..], &b"rbytes"[..], 4096));
        assert_eq!(triples.len(), 4);
    }

    proptest! {
        #[test]
        fn pairs_come_back(pairs in proptest::collection::vec(("[a-z_]{1,12}", any::<u64>()), 0..20)) {
            let text: String = pairs.iter().map(|(k, v)| format!("{k} {v}\n")).collect();
            let read: Vec<_> = flat(text.as_bytes()).map(|(k, v)| (String::from_utf8(k.to_vec()).unwrap(), v)).collect();
            prop_assert_eq!(read, pairs);
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            flat(&bytes).for_each(drop);
            nested(&bytes).for_each(drop);
        }
    }
}
