//! The control ledger: what the files of a cgroup tree say, compared with a plan or another ledger.

mod ceiling;
mod compare;
mod life;
mod protection;
mod render;
mod verify;

pub use ceiling::{CEILINGS, Ceiling, ceilings};
pub use compare::{Moved, diff};
pub use life::{Action, Life, Step, misplaced};
pub use protection::{Claim, effective_protection};
pub use render::render;
pub use verify::{Drift, Evidence, Verdict, verify};

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

/// Whether one path lies below another.
fn below(path: &str, ancestor: &str) -> bool {
    ancestor == "/" && path != "/" || path.strip_prefix(ancestor).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
pub(crate) mod fixture {
    use crate::record::{FileValue, LedgerEntry, LedgerSnapshot, Role};

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
