//! The difference of two snapshots: which byte of which file of which cgroup moved.

use super::text;
use crate::record::{FileValue, LedgerEntry, LedgerSnapshot, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// One file that differs, or one cgroup that only one side has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The cgroup's role.
    pub role: Role,
    /// Its path, on the side that has it (the later one if both have).
    pub path: String,
    /// The file, or none when the cgroup itself is only on one side.
    pub file: Option<String>,
    /// What the first snapshot says; none when it does not have it.
    pub before: Option<FileValue>,
    /// What the second says.
    pub after: Option<FileValue>,
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let say = |value: &Option<FileValue>| match value {
            Some(FileValue::Text(text)) => text.clone(),
            Some(FileValue::Absent) => "absent".to_owned(),
            None => "not there".to_owned(),
        };
        match &self.file {
            Some(file) => write!(f, "{}: {}/{file}: {} -> {}", self.role, self.path, say(&self.before), say(&self.after)),
            None if self.after.is_some() => write!(f, "{}: {}: only in the second", self.role, self.path),
            None => write!(f, "{}: {}: only in the first", self.role, self.path),
        }
    }
}

/// Compares by role, since paths differ between drivers and container ids between runs.
#[must_use]
pub fn diff(first: &LedgerSnapshot, second: &LedgerSnapshot) -> Vec<Moved> {
    let (old, new) = (by_role(first), by_role(second));
    let roles: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let mut moved = Vec::new();
    for role in roles {
        match (old.get(role), new.get(role)) {
            (Some(a), Some(b)) => {
                let files: BTreeSet<_> = a.files.keys().chain(b.files.keys()).collect();
                for file in files.into_iter().filter(|f| a.files.get(*f) != b.files.get(*f)) {
                    let (before, after) = (a.files.get(file).cloned(), b.files.get(file).cloned());
                    moved.push(Moved { role: (*role).clone(), path: b.path.clone(), file: Some(file.clone()), before, after });
                }
            }
            (before, after) => {
                let Some(only) = before.or(after) else { continue };
                let mark = |side: Option<&&LedgerEntry>| side.map(|e| FileValue::Text(e.path.clone()));
                let (before, after) = (mark(before), mark(after));
                moved.push(Moved { role: (*role).clone(), path: only.path.clone(), file: None, before, after });
            }
        }
    }
    moved
}

fn by_role(snapshot: &LedgerSnapshot) -> BTreeMap<&Role, &LedgerEntry> {
    // The node itself has no controls; only a snapshot that gives it some can differ there.
    let with_files = |e: &&LedgerEntry| e.role != Role::Node || super::CONTROLS.iter().any(|(file, _)| text(e, file).is_some());
    snapshot.entries.iter().filter(with_files).map(|e| (&e.role, e)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::snapshot;
    use super::*;

    #[test]
    fn the_byte_that_moved_is_named() {
        let moved = diff(&snapshot("4096", "8192"), &snapshot("4096", "max"));
        assert_eq!(moved.len(), 1);
        assert_eq!(moved[0].to_string(), "pod/p/c: /kubepods/p/c/memory.max: 8192 -> max");
        assert_eq!(diff(&snapshot("1", "2"), &snapshot("1", "2")), []);
    }

    #[test]
    fn a_cgroup_on_one_side_only_is_named() {
        let (whole, mut part) = (snapshot("1", "2"), snapshot("1", "2"));
        part.entries.pop();
        assert_eq!(diff(&whole, &part)[0].to_string(), "pod/p/c: /kubepods/p/c: only in the first");
        assert_eq!(diff(&part, &whole)[0].to_string(), "pod/p/c: /kubepods/p/c: only in the second");
    }

    #[test]
    fn absent_is_not_zero() {
        let (a, mut b) = (snapshot("1", "0"), snapshot("1", "0"));
        b.entries[2].files.insert("memory.swap.max".into(), FileValue::Absent);
        assert_eq!(diff(&a, &b)[0].to_string(), "pod/p/c: /kubepods/p/c/memory.swap.max: 0 -> absent");
    }
}
