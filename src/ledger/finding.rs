//! One file's verdict with everything that explains it: planned and found, ceiling, effective protection, the cgroup that binds, and
//! the known defect where the pattern is one.

use super::protected::{Protected, Protection};
use super::{CEILINGS, CONTROLS, Defect, Index, ceiling, text};
use crate::record::{FileValue, LedgerEntry, LedgerSnapshot, Plan, PlannedCgroup, Role, Rule};
use crate::units::floor_to_page;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;

/// The verdict on a file or on a whole snapshot.
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

/// What a snapshot proves about one file, or about the place of a cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The cgroup.
    pub role: Role,
    /// Its path: where it was found, else where it was planned.
    pub path: String,
    /// The file; [`CGROUP`] speaks of the cgroup itself.
    pub file: String,
    /// The verdict.
    pub verdict: Verdict,
    /// What the plan says, after the kernel floored it to a page.
    pub planned: Option<String>,
    /// What the snapshot says.
    pub found: Option<String>,
    /// Why the verdict is this one, in a sentence fragment.
    pub reason: String,
    /// Why the value was planned; none for a file that nobody should have written.
    pub rule: Option<Rule>,
    /// For a limit: the smallest value along the path and who sets it, where that is another cgroup. "max" is absent.
    pub ceiling: Option<Bound>,
    /// For memory.min and memory.low.
    pub protection: Option<Protection>,
    /// The known pattern.
    pub defect: Option<Defect>,
}

/// A value and the cgroup that sets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bound {
    /// Bytes.
    pub value: u64,
    /// The cgroup.
    pub set_by: Role,
}

/// The file name of findings about a cgroup as such.
pub const CGROUP: &str = "(cgroup)";

/// What is known about the moment of a snapshot besides its files.
pub struct Moment<'a> {
    /// Which roles should have a cgroup: a pod that was not started and an init container that has ended have none.
    pub alive: &'a dyn Fn(&Role) -> bool,
    /// Bytes of memory a cgroup uses, by path.
    pub usage: &'a dyn Fn(&str) -> Option<u64>,
    /// Whether the hierarchy is mounted with memory_recursiveprot.
    pub recursive: bool,
}

impl fmt::Debug for Moment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moment").field("recursive", &self.recursive).finish_non_exhaustive()
    }
}

impl<'a> Moment<'a> {
    /// Nothing is known about usage.
    #[must_use]
    pub fn of(alive: &'a dyn Fn(&Role) -> bool) -> Moment<'a> {
        Moment { alive, usage: &|_| None, recursive: true }
    }
}

/// Every planned file of every cgroup that should be there, in the plan's order.
#[must_use]
pub fn findings(plan: &Plan, snapshot: &LedgerSnapshot, moment: &Moment<'_>) -> Vec<Finding> {
    let index = Index::new(snapshot);
    let protected = Protected::new(&index, moment, plan.page_size);
    // A file that this cgroup lacks and another has is no matter of the kernel.
    let texts = |e: &'_ LedgerEntry| {
        CONTROLS.iter().filter(|(file, _)| text(e, file).is_some()).map(|(file, _)| *file).collect::<Vec<_>>()
    };
    let kernel: HashSet<&str> = snapshot.entries.iter().flat_map(texts).collect();
    let mut found = Vec::new();
    for planned in plan.cgroups.iter().filter(|c| (moment.alive)(&c.role)) {
        match index.of(&planned.role) {
            Some(entry) => found.extend(files(plan, planned, entry, &index, &protected, &kernel)),
            None => found.push(Finding {
                verdict: Verdict::InsufficientEvidence,
                ..Finding::of_cgroup(&planned.role, &planned.path, "it should be there, and is not in the snapshot".to_owned())
            }),
        }
    }
    found
}

fn files<'a>(
    plan: &'a Plan,
    planned: &'a PlannedCgroup,
    entry: &'a LedgerEntry,
    index: &'a Index<'a>,
    protected: &'a Protected<'a>,
    kernel: &'a HashSet<&str>,
) -> impl Iterator<Item = Finding> + 'a {
    let score = planned.oom_score_adj.map(|v| ("oom_score_adj", v.to_string(), None));
    let controls = CONTROLS.iter().map(|(file, default)| {
        let written = planned.written(file);
        (*file, written.map_or((*default).to_owned(), |f| f.value.clone()), written.map(|f| f.rule.clone()))
    });
    controls.chain(score).filter_map(move |(file, value, rule)| {
        let want = floored(file, &value, plan.page_size);
        let found = text(entry, file);
        let (verdict, reason) = match found {
            Some(found) if found == want && rule.is_none() => (Verdict::Fulfilled, "the kernel's default".to_owned()),
            Some(found) if found == want => (Verdict::Fulfilled, "as planned".to_owned()),
            Some(_) if rule.is_none() && file != "oom_score_adj" => {
                (Verdict::Drifted, "this kubelet would not have written it".to_owned())
            }
            Some(_) => (Verdict::Drifted, "it says something else".to_owned()),
            // What nobody writes and the kernel does not have is nothing to prove.
            None if rule.is_none() && file != "oom_score_adj" && !kernel.contains(file) => return None,
            None if entry.files.get(file) == Some(&FileValue::Absent) => {
                (Verdict::InsufficientEvidence, "the file is not there or could not be read".to_owned())
            }
            None => (Verdict::InsufficientEvidence, "the snapshot does not have it".to_owned()),
        };
        let ceiling = CEILINGS.iter().find(|f| **f == file).and_then(|file| ceiling(index, entry, file));
        let ceiling = ceiling.and_then(|c| {
            let set_by = c.set_by.filter(|role| *role != entry.role)?;
            Some(Bound { value: c.value, set_by })
        });
        let mut finding = Finding {
            role: planned.role.clone(),
            path: entry.path.clone(),
            file: file.to_owned(),
            verdict,
            planned: Some(want),
            found: found.map(str::to_owned),
            reason,
            rule,
            ceiling,
            protection: protected.of(entry, file),
            defect: None,
        };
        finding.defect = Defect::of(plan, &finding);
        Some(finding)
    })
}

impl Finding {
    fn of_cgroup(role: &Role, path: &str, reason: String) -> Finding {
        Finding {
            role: role.clone(),
            path: path.to_owned(),
            file: CGROUP.to_owned(),
            verdict: Verdict::Drifted,
            planned: None,
            found: None,
            reason,
            rule: None,
            ceiling: None,
            protection: None,
            defect: None,
        }
    }
}

/// Cgroups that are not where they were planned, and those below kubepods that nobody planned. The last part of a container's path is
/// the runtime's own id. `above` stands before every planned path, for a node that is itself a container.
#[must_use]
pub fn places(plan: &Plan, entries: &[LedgerEntry], above: &str) -> Vec<Finding> {
    let planned: std::collections::HashMap<_, _> = plan.cgroups.iter().map(|c| (&c.role, c)).collect();
    let mut seen = HashSet::new();
    let wrong = |entry: &LedgerEntry| {
        let unplanned = |reason: &str| Finding {
            verdict: Verdict::InsufficientEvidence,
            ..Finding::of_cgroup(&entry.role, &entry.path, reason.to_owned())
        };
        let Some(planned) = planned.get(&entry.role) else {
            let aside = matches!(entry.role, Role::Node | Role::System { .. });
            return (!aside).then(|| unplanned("it exists and is not planned"));
        };
        if !seen.insert(&planned.role) {
            return Some(unplanned("a second cgroup of the same role"));
        }
        let place = |path: &str| match planned.role {
            Role::Container { .. } | Role::Sandbox { .. } => super::parent(path).unwrap_or_default().to_owned(),
            _ => path.to_owned(),
        };
        let (want, found) = (format!("{above}{}", place(&planned.path)), place(&entry.path));
        (want != found).then(|| {
            let reason = format!("planned at {above}{}, found at {}", planned.path, entry.path);
            Finding { planned: Some(want), found: Some(found), ..Finding::of_cgroup(&entry.role, &entry.path, reason) }
        })
    };
    entries.iter().filter_map(wrong).collect()
}

/// The verdict on all of it: any drift makes it DRIFTED, and only a snapshot in which everything was compared is FULFILLED.
#[must_use]
pub fn overall(findings: &[Finding]) -> Verdict {
    findings.iter().map(|f| f.verdict).max().unwrap_or(Verdict::InsufficientEvidence)
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
    use super::super::fixture::{entry, plan, snapshot};
    use super::*;

    #[test]
    fn the_kernel_calls_what_is_beyond_counting_max() {
        assert_eq!(floored("memory.max", "9223372036854771712", 4096), "max");
        assert_eq!(floored("memory.max", "9223372036854767616", 4096), "9223372036854767616");
        assert_eq!(floored("cpu.weight", "5", 4096), "5");
    }

    #[test]
    fn a_file_carries_its_ceiling_and_who_sets_it() {
        let found = findings(&plan("8192"), &snapshot("4096", "8192"), &Moment::of(&|_| true));
        assert_eq!(overall(&found), Verdict::Fulfilled);
        let max = found.iter().find(|f| f.file == "memory.max").unwrap();
        assert_eq!(max.ceiling, Some(Bound { value: 4096, set_by: Role::Pod { pod: "p".into() } }));
    }

    #[test]
    fn a_cgroup_elsewhere_and_one_that_nobody_planned_are_told() {
        let mut snapshot = snapshot("4096", "8192");
        let stranger = Role::Container { pod: "q".into(), container: "c".into() };
        snapshot.entries.push(entry(stranger, "/kubepods/q/c", &[("memory.max", "max")]));
        snapshot.entries.push(entry(Role::System { name: "docker".into() }, "/docker", &[]));
        let found = places(&plan("8192"), &snapshot.entries, "");
        let shown: Vec<_> = found.iter().map(|f| format!("{} {}: {}", f.verdict, f.role, f.reason)).collect();
        assert_eq!(
            shown,
            [
                "INSUFFICIENT EVIDENCE kubepods: it exists and is not planned",
                "INSUFFICIENT EVIDENCE pod/p: it exists and is not planned",
                "DRIFTED pod/p/c: planned at /x/y/z, found at /kubepods/p/c",
                "INSUFFICIENT EVIDENCE pod/q/c: it exists and is not planned",
            ]
        );
    }

    #[test]
    fn no_findings_are_no_proof() {
        assert_eq!(overall(&[]), Verdict::InsufficientEvidence);
    }
}
