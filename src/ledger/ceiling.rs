//! Ceilings: the minimum of a limit along the path, and the cgroup that sets it.

use super::{Index, limit, text};
use crate::record::{LedgerEntry, LedgerSnapshot, Role};

/// The files whose minimum along the path is what counts.
pub const CEILINGS: [&str; 3] = ["memory.max", "memory.high", "memory.swap.max"];

/// What really limits a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ceiling {
    /// The limited cgroup.
    pub role: Role,
    /// The file.
    pub file: &'static str,
    /// The smallest value along the path; `u64::MAX` stands for "max" at every level.
    pub value: u64,
    /// The cgroup that sets it, the highest one when several agree; none when nothing limits.
    pub set_by: Option<Role>,
}

/// The ceilings of every cgroup of a snapshot. Files the kernel does not have give none.
#[must_use]
pub fn ceilings(snapshot: &LedgerSnapshot) -> Vec<Ceiling> {
    let index = Index::new(snapshot);
    let each = |entry| CEILINGS.iter().map(move |file| (entry, *file));
    snapshot.entries.iter().flat_map(each).filter_map(|(entry, file)| ceiling(&index, entry, file)).collect()
}

/// The ceiling of one file of a cgroup.
#[must_use]
pub fn ceiling(index: &Index<'_>, entry: &LedgerEntry, file: &'static str) -> Option<Ceiling> {
    text(entry, file)?;
    let limits = index.line(&entry.path).filter_map(|e| Some((limit(text(e, file)?)?, e)));
    let (value, setter) = limits.min_by_key(|(value, e)| (*value, e.path.len()))?;
    Some(Ceiling { role: entry.role.clone(), file, value, set_by: (value != u64::MAX).then(|| setter.role.clone()) })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::snapshot;
    use super::*;

    #[test]
    fn the_smallest_limit_on_the_path_counts() {
        let found = ceilings(&snapshot("4096", "8192"));
        let of = |file, role: &Role| found.iter().find(|c| c.file == file && c.role == *role).unwrap();
        let container = Role::Container { pod: "p".into(), container: "c".into() };
        assert_eq!(of("memory.max", &container).value, 4096);
        assert_eq!(of("memory.max", &container).set_by, Some(Role::Pod { pod: "p".into() }));
        assert_eq!(of("memory.swap.max", &container).set_by, Some(container.clone()));
        assert_eq!(of("memory.swap.max", &Role::Kubepods).set_by, None);
        assert!(!found.iter().any(|c| c.file == "memory.high"), "the snapshot has no such file");
    }
}
