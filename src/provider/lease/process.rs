//! Processes by pid, start time and boot, so that a pid used again is another process.

use serde::{Deserialize, Serialize};
use std::fs;

/// A process that can be recognised later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Identity {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot, field 22 of /proc/PID/stat.
    pub started: u64,
    /// /proc/sys/kernel/random/boot_id.
    pub boot: String,
}

impl Identity {
    /// The process that has this pid now, if any.
    pub fn of(pid: u32) -> Option<Identity> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(Identity { pid, started: started(&stat)?, boot: Identity::boot() })
    }

    /// This boot's id, empty where the kernel does not say.
    pub fn boot() -> String {
        fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
    }

    /// True while this very process runs (a zombie does not).
    pub fn runs(&self) -> bool {
        let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", self.pid)) else { return false };
        let zombie = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']));
        !zombie && started(&stat) == Some(self.started) && Identity::boot() == self.boot
    }

    /// The processes that carry a token in their environment.
    pub(super) fn with_token(token: &str) -> Vec<Identity> {
        let entry = format!("{}={token}", super::ENV_TOKEN);
        let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
        processes
            .filter_map(|process| process.ok()?.file_name().to_str()?.parse().ok())
            .filter(|pid| {
                let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environment.split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes())
            })
            .filter_map(Identity::of)
            .filter(Identity::runs)
            .collect()
    }
}

/// Field 22; the second field is a name in parentheses that may itself hold spaces and parentheses.
fn started(stat: &str) -> Option<u64> {
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let fields: Vec<_> = (3..=52).map(|n| n.to_string()).collect();
        assert_eq!(started(&format!("7 (a) S (b)) {}", fields.join(" "))), Some(22));
        assert_eq!(started("7 (short) S 1"), None);
    }

    #[test]
    fn this_process_runs_and_its_predecessor_does_not() {
        let own = Identity::of(std::process::id()).unwrap();
        assert!(own.runs());
        assert!(!Identity { started: own.started - 1, ..own.clone() }.runs());
        assert!(!Identity { boot: "another".into(), ..own }.runs());
    }
}
