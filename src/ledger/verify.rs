//! The verdict on a snapshot in short: what was compared, what differs, what is missing.

use super::finding::{CGROUP, findings, overall};
use super::{Moment, Verdict};
use crate::record::{LedgerSnapshot, Plan, Role, Rule};
use serde::{Deserialize, Serialize};

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
    let found = findings(plan, snapshot, &Moment::of(&alive));
    let verdict = overall(&found);
    let (mut compared, mut drifts, mut missing) = (0, Vec::new(), Vec::new());
    for finding in found {
        match (finding.planned, finding.found) {
            (Some(planned), Some(found)) => {
                compared += 1;
                if finding.verdict == Verdict::Drifted {
                    drifts.push(Drift {
                        role: finding.role,
                        path: finding.path,
                        file: finding.file,
                        planned,
                        found,
                        rule: finding.rule,
                    });
                }
            }
            _ => missing.push((finding.role, Some(finding.file).filter(|file| file != CGROUP))),
        }
    }
    Evidence { verdict, compared, drifts, missing }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{plan, snapshot};
    use super::*;
    use crate::record::FileValue;

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
        let nobody = verify(&plan("8192"), &found, |_| false);
        assert_eq!((nobody.compared, nobody.verdict), (0, Verdict::InsufficientEvidence));
    }
}
