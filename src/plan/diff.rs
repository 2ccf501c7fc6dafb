//! Two plans side by side: what changes, the most dangerous first.

use crate::record::{Plan, PlannedCgroup};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a change may do, from the worst to the harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Risk {
    /// A limit is new or lower, or swap is taken away: processes may be killed that were not before.
    Kill,
    /// memory.high is new or lower: processes may stall.
    Throttle,
    /// Protection is lower or gone.
    Unprotect,
    /// A share of swap: memory may become slower.
    Swap,
    /// The order in which the OOM killer chooses.
    Rank,
    /// CPU weight or quota.
    Cpu,
    /// Higher limits, more protection, or something to know.
    Note,
    /// What is written is what the kernel's default does anyway.
    Same,
}

impl Risk {
    /// One word.
    pub const fn name(self) -> &'static str {
        match self {
            Risk::Kill => "kill",
            Risk::Throttle => "throttle",
            Risk::Unprotect => "unprotect",
            Risk::Swap => "swap",
            Risk::Rank => "rank",
            Risk::Cpu => "cpu",
            Risk::Note => "note",
            Risk::Same => "same",
        }
    }
}

/// One file that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// What it may do.
    pub risk: Risk,
    /// The cgroup's role.
    pub cgroup: String,
    /// The file.
    pub file: String,
    /// What was written; None for nothing.
    pub before: Option<String>,
    /// What will be written; None for nothing.
    pub after: Option<String>,
}

/// What changes between two plans for the same pods. Cgroups are matched by role, so renamed paths are no change.
pub fn diff(before: &Plan, after: &Plan) -> Vec<Change> {
    let (old, new) = (by_role(before), by_role(after));
    let mut roles: Vec<&String> = old.keys().chain(new.keys()).collect();
    roles.sort();
    roles.dedup();
    let mut changes = Vec::new();
    for role in roles {
        let (old, new) = (old.get(role), new.get(role));
        let mut files: Vec<&String> = old.into_iter().chain(new).flat_map(|files| files.keys()).collect();
        files.sort();
        files.dedup();
        for file in files {
            let value = |files: Option<&BTreeMap<String, String>>| files.and_then(|files| files.get(file)).cloned();
            let (before, after) = (value(old), value(new));
            if before != after {
                let risk = risk(file, before.as_deref(), after.as_deref());
                changes.push(Change { risk, cgroup: role.clone(), file: file.clone(), before, after });
            }
        }
    }
    changes.sort_by_key(|change| change.risk);
    changes
}

fn by_role(plan: &Plan) -> BTreeMap<String, BTreeMap<String, String>> {
    let files = |cgroup: &PlannedCgroup| {
        let score = cgroup.oom_score_adj.map(|score| ("oom_score_adj".to_owned(), score.to_string()));
        cgroup.files.iter().map(|file| (file.file.clone(), file.value.clone())).chain(score).collect()
    };
    plan.cgroups.iter().map(|cgroup| (cgroup.role.to_string(), files(cgroup))).collect()
}

/// Compares what the values do, with the kernel's default where nothing is written.
fn risk(file: &str, before: Option<&str>, after: Option<&str>) -> Risk {
    let amount = |value: Option<&str>, default: u128| match value {
        None => default,
        Some("max") => u128::MAX,
        Some(text) => text.parse().unwrap_or(default),
    };
    let limit = |value| amount(value, u128::MAX);
    let falls = |default: u128| amount(after, default) < amount(before, default);
    let same = |default: u128| amount(after, default) == amount(before, default);
    match file {
        "memory.min" | "memory.low" | "memory.oom.group" if same(0) => Risk::Same,
        "memory.max" | "memory.high" | "memory.swap.max" if same(u128::MAX) => Risk::Same,
        "memory.max" if limit(after) < limit(before) => Risk::Kill,
        "memory.high" if limit(after) < limit(before) => Risk::Throttle,
        "memory.min" | "memory.low" if falls(0) => Risk::Unprotect,
        "memory.swap.max" if limit(after) < limit(before) => Risk::Kill,
        "memory.swap.max" if limit(after) > limit(before) => Risk::Swap,
        "oom_score_adj" => Risk::Rank,
        _ if file.starts_with("cpu.") => Risk::Cpu,
        _ => Risk::Note,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_risk_follows_what_a_value_does() {
        for (file, before, after, expected) in [
            ("memory.max", None, Some("4096"), Risk::Kill),
            ("memory.max", Some("4096"), Some("8192"), Risk::Note),
            ("memory.high", None, Some("4096"), Risk::Throttle),
            ("memory.high", None, Some("max"), Risk::Same),
            ("memory.high", Some("4096"), Some("max"), Risk::Note),
            ("memory.low", None, Some("0"), Risk::Same),
            ("memory.low", Some("4096"), None, Risk::Unprotect),
            ("memory.min", Some("4096"), Some("8192"), Risk::Note),
            ("memory.swap.max", Some("max"), Some("0"), Risk::Kill),
            ("memory.swap.max", Some("0"), Some("4096"), Risk::Swap),
            ("oom_score_adj", Some("3"), Some("999"), Risk::Rank),
            ("cpu.weight", Some("39"), Some("100"), Risk::Cpu),
        ] {
            assert_eq!(risk(file, before, after), expected, "{file} {before:?} {after:?}");
        }
    }
}
