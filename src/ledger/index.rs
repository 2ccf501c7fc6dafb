//! A snapshot by path and by role, so that a node of ten thousand containers is read in one walk.

use crate::record::{LedgerEntry, LedgerSnapshot, Role};
use std::collections::HashMap;

/// The entries of a snapshot. Of two that have the same path or role, the first counts.
#[derive(Debug)]
pub struct Index<'a> {
    by_path: HashMap<&'a str, &'a LedgerEntry>,
    by_role: HashMap<&'a Role, &'a LedgerEntry>,
    children: HashMap<&'a str, Vec<&'a LedgerEntry>>,
}

impl<'a> Index<'a> {
    /// Sorts the entries.
    #[must_use]
    pub fn new(snapshot: &'a LedgerSnapshot) -> Index<'a> {
        let (mut by_path, mut by_role, mut children) = (HashMap::new(), HashMap::new(), HashMap::<_, Vec<_>>::new());
        for entry in &snapshot.entries {
            by_path.entry(entry.path.as_str()).or_insert(entry);
            by_role.entry(&entry.role).or_insert(entry);
            if let Some(parent) = parent(&entry.path) {
                children.entry(parent).or_default().push(entry);
            }
        }
        Index { by_path, by_role, children }
    }

    /// The cgroup at a path.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<&'a LedgerEntry> {
        self.by_path.get(path).copied()
    }

    /// The cgroup of a role.
    #[must_use]
    pub fn of(&self, role: &Role) -> Option<&'a LedgerEntry> {
        self.by_role.get(role).copied()
    }

    /// The cgroups right below a path.
    #[must_use]
    pub fn below(&self, path: &str) -> &[&'a LedgerEntry] {
        self.children.get(path).map_or(&[], Vec::as_slice)
    }

    /// The cgroup itself and its ancestors in the snapshot, from the inside out.
    pub fn line<'p>(&self, path: &'p str) -> impl Iterator<Item = &'a LedgerEntry> + use<'_, 'a, 'p> {
        std::iter::successors(Some(path), |path| parent(path)).filter_map(|path| self.at(path))
    }
}

/// The path above another; none above the root.
#[must_use]
pub fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/') {
        _ if path == "/" => None,
        Some(("", _)) => Some("/"),
        Some((parent, _)) => Some(parent),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::snapshot;
    use super::*;

    #[test]
    fn the_line_leads_to_the_root() {
        let snapshot = snapshot("1", "2");
        let index = Index::new(&snapshot);
        let line: Vec<_> = index.line("/kubepods/p/c").map(|e| e.path.as_str()).collect();
        assert_eq!(line, ["/kubepods/p/c", "/kubepods/p", "/kubepods"]);
        assert_eq!(index.below("/kubepods/p").len(), 1);
        assert_eq!((parent("/a"), parent("/"), parent("a")), (Some("/"), None, None));
    }
}
