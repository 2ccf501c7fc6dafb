//! A snapshot as text: one cgroup, then its files, in a form that a line-by-line diff reads well. Goldens are kept in it.

use crate::record::{FileValue, LedgerSnapshot};
use std::fmt::Write;

/// Writes a snapshot as text. The moment it was taken is left out: it is an outcome.
#[must_use]
pub fn render(snapshot: &LedgerSnapshot) -> String {
    let mut out = String::new();
    for entry in &snapshot.entries {
        let _ = writeln!(out, "{} {}", entry.role, entry.path);
        for (file, value) in &entry.files {
            let _ = match value {
                FileValue::Text(text) => writeln!(out, "  {file} {text}"),
                FileValue::Absent => writeln!(out, "  {file} (absent)"),
            };
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::fixture::snapshot;

    #[test]
    fn a_snapshot_reads_as_lines() {
        let text = super::render(&snapshot("1", "2"));
        assert!(text.ends_with("pod/p/c /kubepods/p/c\n  memory.max 2\n  memory.swap.max 0\n"), "{text}");
    }
}
