//! The protection that cgroups of a snapshot really have: exact where usage is known, else how much their ancestors can pass on.

use super::{Claim, Index, Moment, effective_protection, limit, parent, text};
use crate::record::{LedgerEntry, Role};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::HashMap;

/// How much a memory.min or memory.low is worth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Protection {
    /// Bytes that were protected at that moment by the kernel's formula; none where usage or an ancestor is not in the snapshot.
    pub effective: Option<u64>,
    /// Bytes of its own setting that its ancestors can pass on at most.
    pub passed_on: u64,
    /// The ancestor that binds: the one with the smallest setting, where that is below its own; the highest one when several agree.
    pub bound_by: Option<Role>,
}

/// The two protections of every cgroup of a snapshot, computed from the top on demand.
pub struct Protected<'a> {
    index: &'a Index<'a>,
    moment: &'a Moment<'a>,
    page: u64,
    known: RefCell<HashMap<(&'a str, &'static str), Option<u64>>>,
}

impl<'a> Protected<'a> {
    pub(super) fn new(index: &'a Index<'a>, moment: &'a Moment<'a>, page: u64) -> Protected<'a> {
        Protected { index, moment, page: page.max(1), known: RefCell::default() }
    }

    pub(super) fn of(&self, entry: &'a LedgerEntry, file: &str) -> Option<Protection> {
        let file = ["memory.min", "memory.low"].into_iter().find(|name| *name == file)?;
        let own = limit(text(entry, file)?)?;
        let above = self.index.line(&entry.path).skip(1);
        // The real root has no such file and protects everything; a root of a cgroup namespace has one.
        let settings = above.filter_map(|e| Some((limit(text(e, file)?)?, e)));
        let lowest = settings.min_by_key(|(value, e)| (*value, e.path.len())).filter(|(value, _)| *value < own);
        Some(Protection {
            effective: self.effective(&entry.path, file).map(|pages| pages.saturating_mul(self.page)),
            passed_on: lowest.map_or(own, |(value, _)| value),
            bound_by: lowest.map(|(_, e)| e.role.clone()),
        })
    }

    /// In pages. The root of the hierarchy affords whatever its children ask for.
    fn effective(&self, path: &str, file: &'static str) -> Option<u64> {
        let (entry, above) = (self.index.at(path)?, parent(path)?);
        if let Some(known) = self.known.borrow().get(&(entry.path.as_str(), file)) {
            return *known;
        }
        let siblings = self.index.below(above);
        let claims: Option<Vec<Claim>> = siblings.iter().map(|sibling| self.claim(sibling, file)).collect();
        let of_parent = match above {
            "/" => Some(None),
            _ => self.usage(above).zip(self.effective(above, file)).map(Some),
        };
        let shares = claims.zip(of_parent).map(|(claims, parent)| effective_protection(parent, &claims, self.moment.recursive));
        let mut known = self.known.borrow_mut();
        for (at, sibling) in siblings.iter().enumerate() {
            known.insert((sibling.path.as_str(), file), shares.as_ref().map(|shares| shares[at]));
        }
        shares.and_then(|shares| shares.get(siblings.iter().position(|s| s.path == entry.path)?).copied())
    }

    fn claim(&self, entry: &LedgerEntry, file: &str) -> Option<Claim> {
        let setting = limit(text(entry, file)?)? / self.page;
        Some(Claim { usage: self.usage(&entry.path)?, setting })
    }

    fn usage(&self, path: &str) -> Option<u64> {
        Some((self.moment.usage)(path)? / self.page)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::entry;
    use super::*;
    use crate::record::LedgerSnapshot;

    fn snapshot(root_low: &str) -> LedgerSnapshot {
        let pod = |name: &str, low| entry(Role::Pod { pod: name.into() }, &format!("/kubepods/{name}"), &[("memory.low", low)]);
        let entries = vec![entry(Role::Kubepods, "/kubepods", &[("memory.low", root_low)]), pod("a", "40960"), pod("b", "40960")];
        LedgerSnapshot { at_ns: 0, phase: String::new(), entries }
    }

    fn protection(root_low: &str, usage: &dyn Fn(&str) -> Option<u64>) -> Protection {
        let snapshot = snapshot(root_low);
        let index = Index::new(&snapshot);
        let moment = Moment { alive: &|_| true, usage, recursive: true };
        Protected::new(&index, &moment, 4096).of(&snapshot.entries[1], "memory.low").unwrap()
    }

    #[test]
    fn an_ancestor_without_protection_binds_even_where_usage_is_unknown() {
        let found = protection("0", &|_| None);
        assert_eq!(found, Protection { effective: None, passed_on: 0, bound_by: Some(Role::Kubepods) });
        assert_eq!(protection("81920", &|_| None).bound_by, None);
    }

    #[test]
    fn siblings_share_what_the_parent_affords() {
        let usage = |path: &str| Some(if path == "/kubepods" { 81920 } else { 40960 });
        assert_eq!(protection("40960", &usage).effective, Some(20480));
        assert_eq!(protection("81920", &usage).effective, Some(40960));
        assert_eq!(protection("0", &usage).effective, Some(0));
    }
}
