//! What the control files say, level by level.

use crate::cgroup::Tree;
use crate::record::{FileValue, LedgerEntry, LedgerSnapshot, Role};
use std::collections::BTreeMap;

/// The control files of a ledger.
pub const FILES: [&str; 8] =
    ["memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max", "memory.oom.group", "cpu.weight", "cpu.max"];

/// Reads every level: the cgroups above the pods, then each pod with its pause process and running containers.
pub fn snapshot(tree: &Tree, at_ns: u64, cgroups: impl Iterator<Item = (Role, String)>, phase: &str) -> LedgerSnapshot {
    LedgerSnapshot { at_ns, phase: phase.to_owned(), entries: cgroups.map(|(role, path)| entry(tree, role, &path)).collect() }
}

fn entry(tree: &Tree, role: Role, path: &str) -> LedgerEntry {
    let mut files = BTreeMap::new();
    for file in FILES {
        // What cannot be read is as absent to a reader as what is not there.
        files.insert(file.to_owned(), tree.read(path, file).unwrap_or(FileValue::Absent));
    }
    if matches!(role, Role::Container { .. } | Role::Sandbox { .. })
        && let Some(score) = agreed_score(tree, path)
    {
        files.insert("oom_score_adj".to_owned(), FileValue::Text(score));
    }
    LedgerEntry { role, path: path.to_owned(), files }
}

fn agreed_score(tree: &Tree, path: &str) -> Option<String> {
    let processes = tree.processes(path).ok()?;
    let mut scores = processes.iter().filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).ok());
    let first = scores.next()?.trim().to_owned();
    scores.all(|score| score.trim() == first).then_some(first)
}
