//! The cgroup tree at every phase boundary: what each file says, what it comes to and which ancestor binds it, and why it was written.

use super::{ArmRecords, Subject};
use crate::lab::{Switch, Unit};
use crate::ledger::{CONTROLS, Defect, Finding, Index, Moment, Verdict, findings, parent, text};
use crate::record::{LedgerEntry, LedgerSnapshot, Metric, Plan, Role};
use crate::study::{PhaseResult, say};
use std::collections::{BTreeSet, HashMap};

/// The trees of an arm.
#[derive(Debug, Clone)]
pub struct ArmTrees {
    /// The arm.
    pub arm: String,
    /// One for each boundary at which something was different.
    pub trees: Vec<Tree>,
    /// Documents and functions that the rules come from.
    pub sources: Vec<String>,
    /// Known defects that were seen: name and what it means.
    pub defects: Vec<(&'static str, &'static str)>,
}

/// The tree at the ends of one or more phases.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The phases at whose end it stood so.
    pub phases: String,
    /// The verdict on the last of them.
    pub verdict: String,
    /// Heads of the file columns.
    pub files: Vec<&'static str>,
    /// The cgroups, each followed by those below it.
    pub nodes: Vec<Node>,
}

/// A cgroup.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its role.
    pub role: String,
    /// Its path.
    pub path: String,
    /// How deep it lies.
    pub depth: usize,
    /// Whether cgroups lie below it.
    pub parent: bool,
    /// How many cgroups end with this one, itself included.
    pub ends: usize,
    /// One per file column.
    pub cells: Vec<Cell>,
    /// Every file that was written or says something else than the kernel's default.
    pub rows: Vec<Row>,
}

/// A value at a glance.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cell {
    /// As a reader wants it.
    pub short: String,
    /// Set by the plan, so not the kernel's default.
    pub written: bool,
    /// Not what was planned.
    pub drifted: bool,
    /// What binds it from above.
    pub bound: Option<String>,
}

/// A file in full.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The file.
    pub file: String,
    /// Every byte.
    pub value: String,
    /// What it really comes to.
    pub effect: String,
    /// Formula, inputs and planned value, or that nobody wrote it.
    pub why: String,
    /// Not what was planned.
    pub drifted: bool,
}

/// The trees of every arm.
#[must_use]
pub fn trees(subject: &Subject<'_>) -> Vec<ArmTrees> {
    let arm = |ArmRecords { name, plan, ledgers, .. }: &ArmRecords| {
        let result = subject.result.arms.iter().find(|a| a.name == *name)?;
        let recursive = subject.lab.arm(name)?.node.kernel.memory_recursive_prot != Some(Switch::Off);
        let (mut trees, mut defects) = (Vec::<Tree>::new(), BTreeSet::new());
        for snapshot in ledgers {
            let phase = result.phase(Some(&snapshot.phase))?;
            let mut tree = tree(&plan.at(&snapshot.phase), snapshot, phase, recursive, &mut defects);
            match trees.last_mut() {
                Some(before) if before.nodes == tree.nodes => {
                    tree.phases = format!("{}, {}", before.phases, tree.phases);
                    *before = tree;
                }
                _ => trees.push(tree),
            }
        }
        let files = plan.cgroups.iter().flat_map(|c| &c.files);
        let sources: BTreeSet<_> = files.map(|f| format!("{}: {}", f.file, f.rule.source)).collect();
        let defects = defects.into_iter().map(|d: Defect| (d.name(), d.says())).collect();
        Some(ArmTrees { arm: name.clone(), trees, sources: sources.into_iter().collect(), defects })
    };
    subject.arms.iter().filter_map(arm).filter(|arm| !arm.trees.is_empty()).collect()
}

fn tree(plan: &Plan, snapshot: &LedgerSnapshot, phase: &PhaseResult, recursive: bool, defects: &mut BTreeSet<Defect>) -> Tree {
    let used = |entry: &LedgerEntry| Some((entry.path.clone(), *phase.cgroup(&entry.role)?.last.get(&Metric::MemoryCurrent)?));
    let used: HashMap<String, u64> = snapshot.entries.iter().filter_map(used).collect();
    let moment = Moment { alive: &|_| true, usage: &|path| used.get(path).copied(), recursive };
    let mut found: HashMap<Role, Vec<Finding>> = HashMap::new();
    for finding in findings(plan, snapshot, &moment) {
        defects.extend(finding.defect);
        found.entry(finding.role.clone()).or_default().push(finding);
    }
    let files: Vec<_> = CONTROLS.iter().map(|(f, _)| *f).chain(["oom_score_adj"]).filter(|f| tells(snapshot, f)).collect();
    let index = Index::new(snapshot);
    let mut nodes = Vec::new();
    let within = |entry: &LedgerEntry| parent(&entry.path).and_then(|p| index.at(p)).is_some_and(|e| e.role != Role::Node);
    for entry in snapshot.entries.iter().filter(|e| e.role != Role::Node && !within(e)) {
        walk(&index, entry, 0, &files, &found, &mut nodes);
    }
    let verdict = phase.ledger.as_ref().map(|l| &l.evidence);
    let verdict = verdict.map(|e| format!("{}, {} files compared", e.verdict.to_string().to_lowercase(), e.compared));
    Tree { phases: snapshot.phase.clone(), verdict: verdict.unwrap_or_default(), files, nodes }
}

/// A cgroup and all below it.
fn walk(
    index: &Index<'_>,
    entry: &LedgerEntry,
    depth: usize,
    files: &[&'static str],
    found: &HashMap<Role, Vec<Finding>>,
    nodes: &mut Vec<Node>,
) {
    let below: Vec<_> = index.below(&entry.path).to_vec();
    let found_here = found.get(&entry.role).map_or(&[][..], Vec::as_slice);
    nodes.push(Node {
        role: entry.role.to_string(),
        path: entry.path.clone(),
        depth,
        parent: !below.is_empty(),
        ends: usize::from(below.is_empty()),
        cells: files.iter().map(|file| cell(entry, file, found_here)).collect(),
        rows: found_here.iter().filter_map(row).collect(),
    });
    for child in &below {
        walk(index, child, depth + 1, files, found, nodes);
    }
    if let Some(last) = nodes.last_mut().filter(|_| !below.is_empty()) {
        last.ends += 1;
    }
}

fn cell(entry: &LedgerEntry, file: &str, found: &[Finding]) -> Cell {
    // No processes, no score; a file the kernel does not have is absent.
    let missing = if entry.files.contains_key(file) { "absent" } else { "" };
    let short = short(file, text(entry, file).unwrap_or(missing));
    let Some(finding) = found.iter().find(|f| f.file == file) else { return Cell { short, ..Cell::default() } };
    let ceiling = finding.ceiling.as_ref().map(|c| (c.value, &c.set_by));
    let protection = finding.protection.as_ref().and_then(|p| Some((p.passed_on, p.bound_by.as_ref()?)));
    let bound = ceiling.or(protection).map(|(value, by)| format!("≤ {} by {by}", size(value)));
    Cell { short, written: finding.rule.is_some(), drifted: finding.verdict == Verdict::Drifted, bound }
}

/// A file that nobody wrote and that nothing binds says nothing.
fn row(finding: &Finding) -> Option<Row> {
    let drifted = finding.verdict == Verdict::Drifted;
    let value = finding.found.clone()?;
    let effect = effect(finding);
    if finding.rule.is_none() && effect.is_empty() && !drifted && finding.file != "oom_score_adj" {
        return None;
    }
    let mut why = match &finding.rule {
        Some(rule) => {
            let inputs: Vec<_> = rule.inputs.iter().map(|(name, value)| format!("{name} {value}")).collect();
            let inputs = if inputs.is_empty() { String::new() } else { format!(", with {}", inputs.join(", ")) };
            format!("{}{inputs}", rule.formula)
        }
        None if finding.file == "oom_score_adj" => "from the QoS class, and a Burstable container's memory request".to_owned(),
        None => finding.reason.clone(),
    };
    if drifted {
        why += &format!("; planned was {}: {}", finding.planned.as_deref().unwrap_or("nothing"), finding.reason);
    }
    if let Some(defect) = finding.defect {
        why += &format!(" ({})", defect.name());
    }
    Some(Row { file: finding.file.clone(), value, effect, why, drifted })
}

fn effect(finding: &Finding) -> String {
    if let Some(ceiling) = &finding.ceiling {
        return format!("at most {}, bound by {}", size(ceiling.value), ceiling.set_by);
    }
    let own = finding.found.as_deref().and_then(|v| v.parse::<u64>().ok());
    if let Some(protection) = finding.protection.as_ref().filter(|_| own != Some(0)) {
        let now = protection.effective.map(|bytes| format!("{} protected at that moment", size(bytes)));
        let by = protection.bound_by.as_ref().map(|role| format!("at most {}, bound by {role}", size(protection.passed_on)));
        return [by, now].into_iter().flatten().collect::<Vec<_>>().join("; ");
    }
    // A limit that nothing above lowers is its own.
    match (finding.file.as_str(), own) {
        ("memory.max" | "memory.high" | "memory.swap.max", Some(own)) => format!("{}, its own", size(own)),
        _ => String::new(),
    }
}

/// A column in which every cgroup has the kernel's default tells nothing.
fn tells(snapshot: &LedgerSnapshot, file: &str) -> bool {
    let default = CONTROLS.iter().find(|(f, _)| *f == file).map(|(_, d)| *d);
    snapshot.entries.iter().filter_map(|e| text(e, file)).any(|value| Some(value) != default)
}

fn size(bytes: u64) -> String {
    say(bytes as f64, Unit::Bytes)
}

fn short(file: &str, value: &str) -> String {
    let sized = file.starts_with("memory.") && file != "memory.oom.group";
    match value.parse::<u64>() {
        Ok(bytes) if sized => size(bytes),
        _ => value.to_owned(),
    }
}
