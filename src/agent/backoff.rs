//! CrashLoopBackOff: how long a container that exited waits before it is started again.

use super::SECOND;

/// The back-off of one container (`flowcontrol.Backoff` as `newCrashLoopBackOff` configures it: 10 s, doubled up to 300 s; forgotten
/// when an exit comes more than 600 s after the last start).
#[derive(Debug, Clone, Default)]
pub struct BackOff {
    entry: Option<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    delay_ns: u64,
    updated_ns: u64,
}

impl BackOff {
    /// The first delay.
    pub const INITIAL_NS: u64 = 10 * SECOND;
    /// The longest delay (`v1beta1.MaxContainerBackOff`).
    pub const MAX_NS: u64 = 300 * SECOND;
    /// A container that ran longer than this before it exited starts anew.
    pub const FORGET_NS: u64 = 600 * SECOND;

    /// The delay that still binds a container which exited at `exit_ns`, counted from the exit; None when it may start at once
    /// (`IsInBackOffSince`).
    pub fn binding(&self, exit_ns: u64, now_ns: u64) -> Option<u64> {
        let entry = self.entry.filter(|entry| !expired(*entry, exit_ns))?;
        (now_ns < exit_ns.saturating_add(entry.delay_ns)).then_some(entry.delay_ns)
    }

    /// Records a start after an exit, which makes the next delay longer (`Next`).
    pub fn advance(&mut self, exit_ns: u64, now_ns: u64) {
        let delay_ns = match self.entry {
            Some(entry) if !expired(entry, exit_ns) => (entry.delay_ns * 2).min(Self::MAX_NS),
            _ => Self::INITIAL_NS,
        };
        self.entry = Some(Entry { delay_ns, updated_ns: now_ns });
    }
}

fn expired(entry: Entry, exit_ns: u64) -> bool {
    exit_ns.saturating_sub(entry.updated_ns) > BackOff::FORGET_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_restart_is_immediate_and_then_delays_double_to_five_minutes() {
        let mut backoff = BackOff::default();
        let mut now = SECOND;
        let mut delays = Vec::new();
        for _ in 0..8 {
            let delay = backoff.binding(now, now).unwrap_or(0);
            delays.push(delay / SECOND);
            let start = now + delay;
            assert_eq!(backoff.binding(now, start), None, "the delay is over exactly at its end");
            backoff.advance(now, start);
            now = start + SECOND;
        }
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn ten_minutes_of_running_forget() {
        let mut backoff = BackOff::default();
        backoff.advance(0, 0);
        backoff.advance(1, 10 * SECOND);
        let start = 10 * SECOND;
        assert_eq!(
            backoff.binding(start + BackOff::FORGET_NS, start + BackOff::FORGET_NS),
            Some(20 * SECOND),
            "exactly 600 s is not more"
        );
        let exit = start + BackOff::FORGET_NS + 1;
        assert_eq!(backoff.binding(exit, exit), None);
        backoff.advance(exit, exit);
        assert_eq!(backoff.binding(exit + 5, exit + 5), Some(BackOff::INITIAL_NS));
    }
}
