//! What the control files say, level by level.

use super::node::Context;
use super::pods::PodRun;
use crate::record::{FileValue, LedgerEntry, LedgerSnapshot, Role};
use std::collections::BTreeMap;

/// The control files of a ledger.
pub const FILES: [&str; 8] =
    ["memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max", "memory.oom.group", "cpu.weight", "cpu.max"];

/// Reads every level: the cgroups above the pods, then each pod with its pause process and running containers.
pub fn snapshot(context: &Context, levels: &[(Role, String)], pods: &[PodRun], phase: &str) -> LedgerSnapshot {
    let mut entries = Vec::new();
    for (role, path) in levels {
        entries.push(entry(context, role.clone(), path));
    }
    for (role, path) in pods.iter().flat_map(PodRun::cgroups) {
        entries.push(entry(context, role, &path));
    }
    LedgerSnapshot { at_ns: context.recorder.now(), phase: phase.to_owned(), entries }
}

fn entry(context: &Context, role: Role, path: &str) -> LedgerEntry {
    let mut files = BTreeMap::new();
    for file in FILES {
        // What cannot be read is as absent to a reader as what is not there.
        files.insert(file.to_owned(), context.tree.read(path, file).unwrap_or(FileValue::Absent));
    }
    if matches!(role, Role::Container { .. } | Role::Sandbox { .. })
        && let Some(score) = agreed_score(context, path)
    {
        files.insert("oom_score_adj".to_owned(), FileValue::Text(score));
    }
    LedgerEntry { role, path: path.to_owned(), files }
}

fn agreed_score(context: &Context, path: &str) -> Option<String> {
    let processes = context.tree.processes(path).ok()?;
    let mut scores = processes.iter().filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).ok());
    let first = scores.next()?.trim().to_owned();
    scores.all(|score| score.trim() == first).then_some(first)
}
