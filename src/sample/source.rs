//! One watched file and the metrics it holds.

use crate::cgroup::{parse_number, parse_pressure};
use crate::record::Metric;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How a file is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// One number.
    Number(Metric),
    /// Flat keyed: key, metric and the unit its numbers are in.
    Flat(&'static [(&'static str, Metric)], u64),
    /// Flat keyed, but handed out by the kernel in pieces of up to a page, so that only a read of nothing is its end (/proc/vmstat).
    Pieces(&'static [(&'static str, Metric)]),
    /// Pressure totals: some and full.
    Pressure(Metric, Option<Metric>),
}

/// The file is written anew at every reading; its metrics keep their last value here.
#[derive(Debug)]
pub(super) struct Source {
    file: File,
    kind: Kind,
    learned: Vec<Key>,
    last: [u64; 2],
}

#[derive(Debug)]
struct Key {
    line: usize,
    index: usize,
    last: u64,
}

/// A reading failed on a file that was there.
#[derive(Debug, thiserror::Error)]
#[error("cannot read a sampled file: {0}")]
pub(super) struct ReadFailed(#[from] io::Error);

/// Metric and difference, handed to the caller of a reading.
pub(super) type Emit<'a> = &'a mut dyn FnMut(Metric, i64);

impl Kind {
    pub(super) fn metrics(self) -> Vec<Metric> {
        match self {
            Kind::Number(metric) => vec![metric],
            Kind::Flat(keys, _) | Kind::Pieces(keys) => keys.iter().map(|(_, metric)| *metric).collect(),
            Kind::Pressure(some, full) => [Some(some), full].into_iter().flatten().collect(),
        }
    }
}

impl Source {
    /// Opens a file and lists the metrics it turns out not to have; None when there is no such file or the kernel refuses to give it.
    pub(super) fn open(path: &Path, kind: Kind, buffer: &mut Vec<u8>) -> Option<(Source, Vec<Metric>)> {
        let file = File::open(path).ok()?;
        let mut source = Source { file, kind, learned: Vec::new(), last: [0; 2] };
        let text = source.text(buffer).ok()?;
        let missing = match kind {
            Kind::Number(metric) => parse_number(text).is_none().then_some(metric).into_iter().collect(),
            Kind::Pressure(some, full) => {
                let totals = parse_pressure(text);
                let missing = [(totals.some_us, Some(some)), (totals.full_us, full)];
                missing.into_iter().filter(|(total, _)| total.is_none()).filter_map(|(_, metric)| metric).collect()
            }
            Kind::Flat(keys, _) | Kind::Pieces(keys) => {
                source.learned = learn(text, keys);
                let has = |index| source.learned.iter().any(|key| key.index == index);
                keys.iter().enumerate().filter(|(index, _)| !has(*index)).map(|(_, (_, metric))| *metric).collect()
            }
        };
        Some((source, missing))
    }

    fn text<'b>(&self, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
        let mut len = 0;
        loop {
            if len == buffer.len() {
                buffer.resize((len * 2).max(8 << 10), 0);
            }
            match self.file.read_at(&mut buffer[len..], len as u64)? {
                0 => return Ok(&buffer[..len]),
                n => len += n,
            }
            // A short read of the other files is their end: the kernel renders one at once as long as the buffer has room.
            if len < buffer.len() && !matches!(self.kind, Kind::Pieces(_)) {
                return Ok(&buffer[..len]);
            }
        }
    }

    /// Reads the file and emits what changed.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>, emit: Emit<'_>) -> Result<(), ReadFailed> {
        let text = self.text(buffer)?;
        match self.kind {
            Kind::Number(metric) => change(&mut self.last[0], parse_number(text), metric, emit),
            Kind::Pressure(some, full) => {
                let totals = parse_pressure(text);
                change(&mut self.last[0], totals.some_us, some, emit);
                if let Some(full) = full {
                    change(&mut self.last[1], totals.full_us, full, emit);
                }
            }
            Kind::Flat(keys, unit) => read_keys(text, keys, unit, &mut self.learned, emit),
            Kind::Pieces(keys) => read_keys(text, keys, 1, &mut self.learned, emit),
        }
        Ok(())
    }
}

fn change(last: &mut u64, new: Option<u64>, metric: Metric, emit: Emit<'_>) {
    if let Some(new) = new.filter(|new| new != last) {
        emit(metric, new.wrapping_sub(*last).cast_signed());
        *last = new;
    }
}

// `KEY VALUE` or `KEY:   VALUE kB`.
fn value_of(line: &[u8], key: &str) -> Option<u64> {
    let rest = line.strip_prefix(key.as_bytes())?;
    let rest = rest.strip_prefix(b":").unwrap_or(rest);
    let digits = rest.strip_prefix(b" ")?.trim_ascii_start();
    parse_number(digits.split(|&b| b == b' ').next()?)
}

fn learn(text: &[u8], keys: &[(&'static str, Metric)]) -> Vec<Key> {
    let lines = text.split(|&b| b == b'\n').enumerate();
    lines
        .filter_map(|(line, content)| {
            let index = keys.iter().position(|(key, _)| value_of(content, key).is_some())?;
            Some(Key { line, index, last: 0 })
        })
        .collect()
}

// False when the file's lines are not where they were.
fn read_learned(text: &[u8], keys: &[(&'static str, Metric)], unit: u64, learned: &mut [Key], emit: Emit<'_>) -> bool {
    let mut lines = text.split(|&b| b == b'\n');
    let mut at = 0;
    for key in learned {
        let Some(line) = lines.nth(key.line - at) else { return false };
        at = key.line + 1;
        let (name, metric) = keys[key.index];
        let Some(value) = value_of(line, name) else { return false };
        change(&mut key.last, Some(value * unit), metric, emit);
    }
    true
}

fn read_keys(text: &[u8], keys: &[(&'static str, Metric)], unit: u64, learned: &mut Vec<Key>, emit: Emit<'_>) {
    if !read_learned(text, keys, unit, learned, emit) {
        relearn(text, keys, unit, learned, emit);
    }
}

// A line came or went (some appear with a controller): learn again, keep the values.
fn relearn(text: &[u8], keys: &[(&'static str, Metric)], unit: u64, learned: &mut Vec<Key>, emit: Emit<'_>) {
    let mut fresh = learn(text, keys);
    for key in &mut fresh {
        key.last = learned.iter().find(|old| old.index == key.index).map_or(0, |old| old.last);
    }
    *learned = fresh;
    read_learned(text, keys, unit, learned, emit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::flat_value;
    use proptest::prelude::*;

    const KEYS: &[(&str, Metric)] = &[
        ("anon", Metric::StatAnon),
        ("file", Metric::StatFile),
        ("pgmajfault", Metric::StatPgmajfault),
        ("pswpin", Metric::StatPswpin),
    ];

    proptest! {
        // Whatever lines come, go and change: the sum of the differences is what the plain parser reads.
        #[test]
        fn differences_add_up(files in proptest::collection::vec(
            (any::<u32>(), any::<u32>(), any::<u32>(), any::<bool>()), 1..8)
        ) {
            let mut learned = Vec::new();
            let mut sums = std::collections::HashMap::new();
            for (anon, file, faults, extra) in files {
                let extra = if extra { "anon_thp 7\n" } else { "" };
                let text = format!("anon {anon}\nfile_mapped 3\nfile {file}\n{extra}pgmajfault {faults}\n");
                let mut emit = |metric, delta| { *sums.entry(metric).or_insert(0i64) += delta; };
                if learned.is_empty() {
                    learned = learn(text.as_bytes(), KEYS);
                }
                read_keys(text.as_bytes(), KEYS, 1, &mut learned, &mut emit);
                for (key, metric) in KEYS {
                    let plain = flat_value(text.as_bytes(), key);
                    prop_assert_eq!(sums.get(metric).copied().unwrap_or(0), plain.map_or(0, u64::cast_signed));
                }
            }
        }
    }

    #[test]
    fn kilobytes_of_meminfo() {
        let text = b"MemTotal:       16 kB\nMemFree:         3 kB\n";
        let keys: &[(&str, Metric)] = &[("MemFree", Metric::MemFree)];
        let mut learned = learn(text, keys);
        let mut seen = Vec::new();
        assert!(read_learned(text, keys, 1024, &mut learned, &mut |m, d| seen.push((m, d))));
        assert_eq!(seen, [(Metric::MemFree, 3072)]);
    }
}
