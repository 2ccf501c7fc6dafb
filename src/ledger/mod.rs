//! The control ledger: what the files of a cgroup tree say, compared with a plan or another ledger.

mod ceiling;
mod compare;
mod defect;
mod finding;
mod index;
mod life;
mod protected;
mod protection;
mod render;
mod replay;
mod runbook;
// A node plays its order and knows no lab.
#[cfg(feature = "cli")]
mod step;
mod verify;

pub use ceiling::{CEILINGS, Ceiling, ceiling, ceilings};
pub use compare::{Moved, diff};
pub use defect::Defect;
pub use finding::{Bound, CGROUP, Finding, Moment, Verdict, findings, overall, places};
pub use index::{Index, parent};
pub use life::{Action, Life, Step, misplaced};
pub use protected::Protection;
pub use protection::{Claim, effective_protection};
pub use render::render;
pub use replay::Replay;
pub use runbook::{Change, Left, Runbook, RunbookStep, WrongOrder, runbook};
pub use verify::{Drift, Evidence, verify};

use crate::record::{FileValue, LedgerEntry};

/// The files the kubelet and the runtime control, and what a new cgroup has in them.
pub const CONTROLS: [(&str, &str); 8] = [
    ("memory.min", "0"),
    ("memory.low", "0"),
    ("memory.high", "max"),
    ("memory.max", "max"),
    ("memory.swap.max", "max"),
    ("memory.oom.group", "0"),
    ("cpu.weight", "100"),
    ("cpu.max", "max 100000"),
];

/// The text of a control file, if the snapshot has it and the kernel too.
#[must_use]
pub fn text<'a>(entry: &'a LedgerEntry, file: &str) -> Option<&'a str> {
    match entry.files.get(file)? {
        FileValue::Text(text) => Some(text),
        FileValue::Absent => None,
    }
}

/// A limit as a number; "max" is above every number.
fn limit(text: &str) -> Option<u64> {
    if text == "max" { Some(u64::MAX) } else { text.parse().ok() }
}

#[cfg(test)]
pub(crate) mod fixture {
    use crate::record::{FileValue, LedgerEntry, LedgerSnapshot, Plan, PlannedCgroup, PlannedFile, Role, Rule, SCHEMA};

    /// A plan of one container, at /x/y/z.
    pub fn plan(max: &str) -> Plan {
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
            cgroups: vec![PlannedCgroup { role, path: "/x/y/z".into(), files, oom_score_adj: None }],
            warnings: vec![],
            stepped: Default::default(),
            fresh: Default::default(),
            refused: Default::default(),
        }
    }

    /// An entry from `file value` pairs.
    pub fn entry(role: Role, path: &str, files: &[(&str, &str)]) -> LedgerEntry {
        let files = files.iter().map(|(f, v)| ((*f).to_owned(), FileValue::Text((*v).to_owned()))).collect();
        LedgerEntry { role, path: path.to_owned(), files }
    }

    /// kubepods, a pod and its container.
    pub fn snapshot(pod_max: &str, container_max: &str) -> LedgerSnapshot {
        let container = Role::Container { pod: "p".into(), container: "c".into() };
        LedgerSnapshot {
            at_ns: 1,
            phase: "run".into(),
            entries: vec![
                entry(Role::Kubepods, "/kubepods", &[("memory.max", "1073741824"), ("memory.swap.max", "max")]),
                entry(Role::Pod { pod: "p".into() }, "/kubepods/p", &[("memory.max", pod_max), ("memory.swap.max", "max")]),
                entry(container, "/kubepods/p/c", &[("memory.max", container_max), ("memory.swap.max", "0")]),
            ],
        }
    }
}
