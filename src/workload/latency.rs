//! Latencies of a workload's own work, kept whole in an HDR histogram and reported as cumulative percentiles.

use super::report::Line;
use hdrhistogram::Histogram;
use std::time::Duration;

/// Latencies since the start: three significant digits up to an hour.
#[derive(Debug)]
pub struct Latency(Histogram<u64>);

const LONGEST: u64 = 3_600_000_000_000;

impl Latency {
    /// None yet.
    pub fn new() -> Latency {
        Latency(Histogram::new_with_bounds(1000, LONGEST, 3).expect("the bounds are constants that fit"))
    }

    /// Counts one.
    pub fn record(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(LONGEST));
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Adds `NAMEs`, `NAME_p50_us`, `NAME_p99_us` and `NAME_max_us`. A percentile with fewer than ten latencies beyond it is left out.
    pub fn add_to(&self, line: Line, name: &str) -> Line {
        let mut line = line.count(&format!("{name}s"), self.count());
        for (label, quantile, least) in [("p50", 0.5, 20), ("p99", 0.99, 1000)] {
            if self.count() >= least {
                line = line.micros(&format!("{name}_{label}_us"), self.0.value_at_quantile(quantile));
            }
        }
        if self.count() > 0 {
            line = line.micros(&format!("{name}_max_us"), self.0.max());
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_ten_beyond_it() {
        let mut latency = Latency::new();
        (0..999).for_each(|_| latency.record(Duration::from_micros(500)));
        let text = |latency: &Latency| latency.add_to(Line::new(Duration::ZERO), "commit").into_text();
        assert_eq!(text(&latency), "report elapsed_s=0.000000 commits=999 commit_p50_us=500 commit_max_us=500");
        latency.record(Duration::from_millis(7));
        assert!(text(&latency).contains("commit_p99_us=500"), "{}", text(&latency));
    }
}
