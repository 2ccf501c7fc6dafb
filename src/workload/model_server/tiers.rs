//! Steps by the lowest tier that served them: the device's memory, the tier on the host, or that tier's pages in the kernel's swap.

use super::super::latency::Latency;
use super::super::report::Line;
use std::time::Duration;

/// Where the cache blocks of a step were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// All in the device.
    Device,
    /// Some came from the host, or had to make room there.
    Host,
    /// Some of those lay in swap: moving them took major faults.
    Swap,
}

impl Tier {
    /// From the blocks that a step moved and the major faults that moving them took.
    pub fn of(moved: usize, faults: u64) -> Tier {
        match (moved, faults) {
            (0, _) => Tier::Device,
            (_, 0) => Tier::Host,
            _ => Tier::Swap,
        }
    }
}

/// How long steps took, transfers and kernel together, by tier.
#[derive(Debug)]
pub struct Steps {
    all: Latency,
    tiers: [(Tier, &'static str, Latency); 3],
}

impl Steps {
    /// None yet.
    pub fn new() -> Steps {
        let tier = |tier, name| (tier, name, Latency::new());
        let tiers = [tier(Tier::Device, "device_step"), tier(Tier::Host, "host_step"), tier(Tier::Swap, "swapped_step")];
        Steps { all: Latency::new(), tiers }
    }

    /// Counts a step.
    pub fn record(&mut self, tier: Tier, took: Duration) {
        self.all.record(took);
        for (own, _, latency) in &mut self.tiers {
            if *own == tier {
                latency.record(took);
            }
        }
    }

    /// Adds `steps`, `device_steps`, `host_steps` and `swapped_steps` with their latencies.
    pub fn add_to(&self, line: Line) -> Line {
        let line = self.all.add_to(line, "step");
        self.tiers.iter().fold(line, |line, (_, name, latency)| latency.add_to(line, name))
    }
}

/// Major faults of the calling thread since it began.
pub fn major_faults() -> u64 {
    // SAFETY: zeroes are a valid rusage, which the call fills.
    let usage = unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let libc::rusage { ru_majflt, .. } = usage;
    ru_majflt.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_counts_for_the_lowest_tier_it_needed() {
        let mut steps = Steps::new();
        for (moved, faults, ms) in [(0, 0, 1), (0, 9, 1), (3, 0, 2), (3, 1, 30)] {
            steps.record(Tier::of(moved, faults), Duration::from_millis(ms));
        }
        let text = steps.add_to(Line::new(Duration::ZERO)).into_text();
        for part in [" steps=4 ", " device_steps=2 ", " host_steps=1 ", " swapped_steps=1 swapped_step_max_us=30"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn faults_only_grow() {
        let before = major_faults();
        assert!(major_faults() >= before);
    }
}
