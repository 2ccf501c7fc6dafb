//! The ledger of an arm as a table: values, ceilings with the cgroup that sets them, and the rule behind each value.

use super::Subject;
use crate::lab::Unit;
use crate::ledger::{CONTROLS, Ceiling, ceilings, text};
use crate::record::{LedgerSnapshot, Plan, Role};
use crate::study::say;

/// The ledger of an arm at the end of its last phase.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// The arm.
    pub arm: String,
    /// The phase.
    pub phase: String,
    /// The verdict on it.
    pub verdict: String,
    /// Heads of the file columns.
    pub files: Vec<&'static str>,
    /// One per cgroup.
    pub rows: Vec<Row>,
    /// Rules behind the values, each once.
    pub rules: Vec<RuleWords>,
}

/// A cgroup.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its role.
    pub role: String,
    /// Its path.
    pub path: String,
    /// How deep it lies.
    pub depth: usize,
    /// One per file.
    pub cells: Vec<Cell>,
}

/// A file.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// As a reader wants it.
    pub short: String,
    /// Every byte, and where it comes from.
    pub exact: String,
    /// Set by the plan, so not the kernel's default.
    pub written: bool,
    /// Not what was planned.
    pub drifted: bool,
    /// The ceiling, where it is below the value and set by another cgroup.
    pub ceiling: Option<String>,
}

/// A rule in words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleWords {
    /// The file.
    pub file: String,
    /// The formula.
    pub formula: String,
    /// Where it comes from.
    pub source: String,
    /// An example: role, inputs and value.
    pub example: String,
}

/// The ledgers of every arm.
#[must_use]
pub fn ledgers(subject: &Subject<'_>) -> Vec<Ledger> {
    let arm = |(name, snapshots): &(String, Vec<LedgerSnapshot>)| {
        let snapshot = snapshots.last()?;
        let plan = &subject.plans.iter().find(|(n, _)| n == name)?.1;
        let result = subject.result.arms.iter().find(|a| a.name == *name)?;
        let evidence = &result.phase(Some(&snapshot.phase))?.ledger.as_ref()?.evidence;
        let files: Vec<_> = CONTROLS.iter().map(|(f, _)| *f).chain(["oom_score_adj"]).filter(|f| tells(snapshot, f)).collect();
        let ceilings = ceilings(snapshot);
        let rows = snapshot.entries.iter().filter(|e| e.role != Role::Node).map(|entry| {
            let cell = |file: &&'static str| {
                // No processes, no score; a file the kernel does not have is absent.
                let missing = if entry.files.contains_key(*file) { "absent" } else { "" };
                let found = text(entry, file).unwrap_or(missing);
                let planned = plan.cgroup(&entry.role);
                let written = planned.and_then(|c| c.files.iter().rev().find(|f| f.file == *file));
                let drifted = evidence.drifts.iter().any(|d| d.role == entry.role && d.file == *file);
                let why = written.map_or_else(|| "the kernel's default".to_owned(), |f| f.rule.formula.clone());
                Cell {
                    short: short(file, found),
                    exact: format!("{file} {found}: {why}"),
                    written: written.is_some(),
                    drifted,
                    ceiling: ceilings.iter().find(|c| c.role == entry.role && c.file == *file).and_then(|c| ceiling(c, found)),
                }
            };
            Row {
                role: entry.role.to_string(),
                path: entry.path.clone(),
                depth: depth(&entry.role),
                cells: files.iter().map(cell).collect(),
            }
        });
        Some(Ledger {
            arm: name.clone(),
            phase: snapshot.phase.clone(),
            verdict: format!("{}, {} files compared", evidence.verdict.to_string().to_lowercase(), evidence.compared),
            rows: rows.collect(),
            rules: rules(plan),
            files,
        })
    };
    subject.ledgers.iter().filter_map(arm).collect()
}

/// A column in which every cgroup has the kernel's default tells nothing.
fn tells(snapshot: &LedgerSnapshot, file: &str) -> bool {
    let default = CONTROLS.iter().find(|(f, _)| *f == file).map(|(_, d)| *d);
    snapshot.entries.iter().filter_map(|e| text(e, file)).any(|value| Some(value) != default)
}

fn depth(role: &Role) -> usize {
    match role {
        Role::Node | Role::Kubepods | Role::System { .. } => 0,
        Role::Qos { .. } => 1,
        Role::Pod { .. } => 2,
        Role::Sandbox { .. } | Role::Container { .. } => 3,
    }
}

fn short(file: &str, value: &str) -> String {
    let size = file.starts_with("memory.") && file != "memory.oom.group";
    match value.parse::<u64>() {
        Ok(bytes) if size => say(bytes as f64, Unit::Bytes),
        _ => value.to_owned(),
    }
}

fn ceiling(ceiling: &Ceiling, own: &str) -> Option<String> {
    let by = ceiling.set_by.as_ref().filter(|by| **by != ceiling.role)?;
    let lower = own.parse::<u64>().map_or(own == "max", |own| ceiling.value < own);
    lower.then(|| format!("{} by {by}", say(ceiling.value as f64, Unit::Bytes)))
}

fn rules(plan: &Plan) -> Vec<RuleWords> {
    let mut found: Vec<RuleWords> = Vec::new();
    for cgroup in &plan.cgroups {
        for file in &cgroup.files {
            let known = found.iter().any(|r| r.file == file.file && r.formula == file.rule.formula);
            if !known {
                let inputs: Vec<_> = file.rule.inputs.iter().map(|(name, value)| format!("{name} {value}")).collect();
                found.push(RuleWords {
                    file: file.file.clone(),
                    formula: file.rule.formula.clone(),
                    source: file.rule.source.clone(),
                    example: format!("{}: {} = {}", cgroup.role, inputs.join(", "), file.value),
                });
            }
        }
    }
    found.sort();
    found
}
