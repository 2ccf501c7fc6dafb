//! How long the vCPU was busy, exactly.

use super::GuestError;
use super::error::system;
use rustix::thread::{Timespec, nanosleep};

const FILE: &str = "/proc/schedstat";

/// Nanoseconds that tasks other than the idle task have run since boot: workloads, kernel threads and this program, and interrupts while
/// one of them ran; not interrupts that hit the idle task.
///
/// /proc/schedstat's `rq_cpu_time` is summed at every task switch with the scheduler's own clock, unlike /proc/stat, which counts ticks.
/// It needs CONFIG_SCHEDSTATS, not the `kernel.sched_schedstats` switch.
///
/// # Errors
/// The file is missing or of another form.
pub fn busy_ns() -> Result<u64, GuestError> {
    // The caller's own time is added when it leaves the CPU, so leave it.
    let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: 1 });
    let text = std::fs::read_to_string(FILE).map_err(system(format!("read {FILE}")))?;
    parse(&text).ok_or_else(|| GuestError::Input { what: FILE, reason: "there is no line cpu0 with nine numbers".to_owned() })
}

// cpuN: yields, 0, schedules, idle schedules, wake-ups, local wake-ups, TIME RUN, time waited, slices.
fn parse(text: &str) -> Option<u64> {
    let mut cpus = text.lines().filter(|line| line.starts_with("cpu"));
    cpus.try_fold(None, |sum: Option<u64>, line| {
        let run: u64 = line.split_whitespace().nth(7)?.parse().ok()?;
        Some(Some(sum.unwrap_or(0) + run))
    })?
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_seventh_number_is_the_time_run() {
        let text = "version 15\ntimestamp 4294893055\ncpu0 0 0 0 0 0 0 1612345678 23456 789\ndomain0 1 0 0\n";
        assert_eq!(parse(text), Some(1_612_345_678));
        assert_eq!(parse("version 15\ncpu0 0 0 0 0\n"), None);
        assert_eq!(parse("version 15\n"), None);
    }
}
