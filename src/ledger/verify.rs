//! The verdict: does the tree say what the kubelet of that version writes?

use super::{CONTROLS, text};
use crate::record::{FileValue, LedgerSnapshot, Plan, Role, Rule};
use crate::units::floor_to_page;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The verdict on a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Verdict {
    /// Every file says what the plan says.
    Fulfilled,
    /// Nothing contradicts the plan, but something that should be there could not be read.
    InsufficientEvidence,
    /// A file says something else.
    Drifted,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Fulfilled => "FULFILLED",
            Verdict::InsufficientEvidence => "INSUFFICIENT EVIDENCE",
            Verdict::Drifted => "DRIFTED",
        })
    }
}

/// A file that does not say what was planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Drift {
    /// The cgroup.
    pub role: Role,
    /// Its path.
    pub path: String,
    /// The file.
    pub file: String,
    /// What the plan says, after the kernel floored it to a page.
    pub planned: String,
    /// What the file says.
    pub found: String,
    /// Why it was planned; none for a file that nobody should have written.
    pub rule: Option<Rule>,
}

/// What a snapshot proves about a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The verdict.
    pub verdict: Verdict,
    /// Files compared.
    pub compared: usize,
    /// Files that differ.
    pub drifts: Vec<Drift>,
    /// Cgroups and files that should be there and are not: role, then file.
    pub missing: Vec<(Role, Option<String>)>,
}

/// Compares a snapshot with the plan. `alive` says which roles should have a cgroup at that moment: a pod that was not started and an
/// init container that has ended have none.
#[must_use]
pub fn verify(plan: &Plan, snapshot: &LedgerSnapshot, alive: impl Fn(&Role) -> bool) -> Evidence {
    let (mut compared, mut drifts, mut missing) = (0, Vec::new(), Vec::new());
    for planned in plan.cgroups.iter().filter(|c| alive(&c.role)) {
        let Some(entry) = snapshot.entries.iter().find(|e| e.role == planned.role) else {
            missing.push((planned.role.clone(), None));
            continue;
        };
        let oom = planned.oom_score_adj.map(|v| ("oom_score_adj", v.to_string(), None));
        let files = CONTROLS.iter().map(|(file, default)| {
            // A file may be written more than once; the last write counts.
            let written = planned.files.iter().rev().find(|f| f.file == *file);
            (*file, written.map_or((*default).to_owned(), |f| f.value.clone()), written.map(|f| f.rule.clone()))
        });
        for (file, value, rule) in files.chain(oom) {
            let want = floored(file, &value, plan.page_size);
            match text(entry, file) {
                Some(found) if found == want => compared += 1,
                Some(found) => {
                    compared += 1;
                    let (role, path) = (planned.role.clone(), entry.path.clone());
                    drifts.push(Drift { role, path, file: file.to_owned(), planned: want, found: found.to_owned(), rule });
                }
                // What nobody writes and the kernel does not have is nothing to prove.
                None if rule.is_none()
                    && entry.files.get(file).is_none_or(|v| *v == FileValue::Absent)
                    && file != "oom_score_adj" => {}
                None => missing.push((planned.role.clone(), Some(file.to_owned()))),
            }
        }
    }
    let verdict = match (drifts.is_empty(), missing.is_empty() && compared > 0) {
        (false, _) => Verdict::Drifted,
        (true, false) => Verdict::InsufficientEvidence,
        (true, true) => Verdict::Fulfilled,
    };
    Evidence { verdict, compared, drifts, missing }
}

/// What the kernel makes of a value: memory limits are floored to a page (`page_counter_memparse`), and what reaches the largest number
/// of pages is "max".
fn floored(file: &str, value: &str, page: u64) -> String {
    let memory = matches!(file, "memory.min" | "memory.low" | "memory.high" | "memory.max" | "memory.swap.max");
    match value.parse::<u64>() {
        Ok(bytes) if memory && bytes / page >= i64::MAX as u64 / page => "max".to_owned(),
        Ok(bytes) if memory => floor_to_page(bytes, page).to_string(),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::snapshot;
    use super::*;
    use crate::record::{PlannedCgroup, PlannedFile, SCHEMA};

    fn plan(max: &str) -> Plan {
        let rule = Rule { formula: "limit".into(), inputs: vec![], source: "test".into() };
        let file = |file: &str, value: &str| PlannedFile { file: file.into(), value: value.into(), rule: rule.clone() };
        let role = Role::Container { pod: "p".into(), container: "c".into() };
        let files = vec![file("memory.max", max), file("memory.swap.max", "100")];
        Plan {
            schema: SCHEMA,
            kubernetes: "1.37".into(),
            cgroup_driver: Default::default(),
            node_memory: 1,
            node_swap: 1,
            page_size: 4096,
            allocatable: 1,
            cgroups: vec![PlannedCgroup { role, path: "/x".into(), files, oom_score_adj: None }],
            warnings: vec![],
        }
    }

    #[test]
    fn values_are_compared_after_flooring() {
        let evidence = verify(&plan("8200"), &snapshot("4096", "8192"), |_| true);
        assert_eq!((evidence.verdict, evidence.compared), (Verdict::Fulfilled, 2));
    }

    #[test]
    fn a_drift_names_the_file_and_the_rule() {
        let evidence = verify(&plan("4096"), &snapshot("4096", "8192"), |_| true);
        assert_eq!(evidence.verdict, Verdict::Drifted);
        let drift = &evidence.drifts[0];
        assert_eq!((drift.file.as_str(), drift.planned.as_str(), drift.found.as_str()), ("memory.max", "4096", "8192"));
        assert_eq!(drift.rule.as_ref().unwrap().formula, "limit");
    }

    #[test]
    fn a_file_nobody_should_have_written_is_a_drift() {
        let mut found = snapshot("4096", "8192");
        found.entries[2].files.insert("memory.high".into(), FileValue::Text("4096".into()));
        let evidence = verify(&plan("8192"), &found, |_| true);
        assert_eq!((evidence.drifts[0].planned.as_str(), evidence.drifts[0].rule.is_none()), ("max", true));
    }

    #[test]
    fn what_cannot_be_read_is_no_proof() {
        let mut found = snapshot("4096", "8192");
        found.entries[2].files.insert("memory.swap.max".into(), FileValue::Absent);
        assert_eq!(verify(&plan("8192"), &found, |_| true).verdict, Verdict::InsufficientEvidence);
        found.entries.pop();
        assert_eq!(verify(&plan("8192"), &found, |_| true).verdict, Verdict::InsufficientEvidence);
        assert_eq!(verify(&plan("8192"), &found, |_| false).compared, 0);
    }

    #[test]
    fn the_kernel_calls_what_is_beyond_counting_max() {
        assert_eq!(floored("memory.max", "9223372036854771712", 4096), "max");
        assert_eq!(floored("memory.max", "9223372036854767616", 4096), "9223372036854767616");
        assert_eq!(floored("cpu.weight", "5", 4096), "5");
    }
}
