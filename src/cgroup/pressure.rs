//! Pressure stall information: only the cumulative totals, because the kernel's averages lag by seconds.

use super::parse_number;

/// Stalled time since boot (or since the cgroup's creation) in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PressureTotals {
    /// At least one task waited.
    pub some_us: Option<u64>,
    /// All tasks waited. Absent for the cpu file of kernels before 5.13.
    pub full_us: Option<u64>,
}

/// Reads `some avg10=… total=N` and `full … total=N`.
pub fn parse_pressure(text: &[u8]) -> PressureTotals {
    let mut totals = PressureTotals::default();
    for line in text.split(|&b| b == b'\n') {
        let Some(at) = line.windows(7).rposition(|w| w == b" total=") else { continue };
        let total = parse_number(&line[at + 7..]);
        if line.starts_with(b"some ") {
            totals.some_us = total;
        } else if line.starts_with(b"full ") {
            totals.full_us = total;
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn totals_are_read_and_absence_stays() {
        let both = b"some avg10=0.12 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=99\n";
        assert_eq!(parse_pressure(both), PressureTotals { some_us: Some(1234), full_us: Some(99) });
        let old_cpu = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(parse_pressure(old_cpu), PressureTotals { some_us: Some(7), full_us: None });
        assert_eq!(parse_pressure(b"some total=\n full total=3"), PressureTotals::default());
    }

    proptest! {
        #[test]
        fn totals_come_back(some in any::<u64>(), full in any::<u64>(), avg in 0u32..10000) {
            let text = format!("some avg10=0.{avg} avg60=1.00 avg300=0.00 total={some}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={full}\n");
            prop_assert_eq!(parse_pressure(text.as_bytes()), PressureTotals { some_us: Some(some), full_us: Some(full) });
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse_pressure(&bytes);
        }
    }
}
