//! Plans as text: the table, the tree, explanations, differences, findings, the budget.

use crate::kubelet::{Finding, Refusal, Stale, StaleUntil};
use crate::plan::{Budget, Change, Explanation, Risk, Trap};
use crate::record::{Plan, PlannedCgroup, Role, Rule};
use crate::units::Quantity;
use comfy_table::{CellAlignment, Table, presets};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The files that have a column of their own.
const COLUMNS: [&str; 7] =
    ["memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max", "memory.oom.group", "cpu.weight"];

pub(super) fn table(plan: &Plan) -> String {
    let mut table = Table::new();
    let header = ["CGROUP"].into_iter().chain(COLUMNS).chain(["cpu.max", "oom_score_adj"]);
    table.load_style(presets::NOTHING).set_header(header);
    for cgroup in &plan.cgroups {
        let value = |file: &str| cgroup.value(file).unwrap_or("-").to_owned();
        let score = cgroup.oom_score_adj.map_or("-".to_owned(), |score| score.to_string());
        let row =
            [format!("{}{}", indent(cgroup), cgroup.role)].into_iter().chain(COLUMNS.map(value)).chain([value("cpu.max"), score]);
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut out = headline(plan);
    out.push_str(&lines(table.trim_fmt()));
    out
}

pub(super) fn tree(plan: &Plan) -> String {
    let mut out = headline(plan);
    for cgroup in &plan.cgroups {
        let indent = indent(cgroup);
        let last = cgroup.path.rsplit('/').next().unwrap_or_default();
        let _ = writeln!(out, "{indent}{}  {last}", cgroup.role);
        for file in &cgroup.files {
            let _ = writeln!(out, "{indent}  {} = {}  ({})", file.file, file.value, rule(&file.rule));
        }
        if let Some(score) = cgroup.oom_score_adj {
            let _ = writeln!(out, "{indent}  oom_score_adj = {score}");
        }
    }
    out
}

fn headline(plan: &Plan) -> String {
    format!(
        "Kubernetes {}, memory {}, swap {}, allocatable {} bytes. Values in bytes as written; the kernel floors them to {} bytes.\n\n",
        plan.kubernetes,
        Quantity::bytes(plan.node_memory),
        Quantity::bytes(plan.node_swap),
        plan.allocatable,
        plan.page_size,
    )
}

fn indent(cgroup: &PlannedCgroup) -> &'static str {
    match cgroup.role {
        Role::Node | Role::Kubepods | Role::System { .. } => "",
        Role::Qos { .. } => "  ",
        Role::Pod { .. } => "    ",
        Role::Sandbox { .. } | Role::Container { .. } => "      ",
    }
}

fn rule(rule: &Rule) -> String {
    let inputs: Vec<String> = rule.inputs.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if inputs.is_empty() { rule.formula.clone() } else { format!("{}; {}", rule.formula, inputs.join(", ")) }
}

pub(super) fn explanation(explanation: &Explanation) -> String {
    let Explanation { role, path, file, value, rule } = explanation;
    let mut out = format!("{role}/{file}\n  {path}\n");
    let _ = match value {
        Some(value) => writeln!(out, "  value    {value}"),
        None => writeln!(out, "  value    not written: the kernel's default, or what was there before"),
    };
    let _ = writeln!(out, "  formula  {}", rule.formula);
    for (name, value) in &rule.inputs {
        let _ = writeln!(out, "  input    {name} = {value}");
    }
    let _ = writeln!(out, "  source   {}", rule.source);
    out
}

pub(super) fn traps(traps: &[Trap]) -> String {
    let mut same: BTreeMap<(usize, &str, &str), Vec<&str>> = BTreeMap::new();
    for (index, trap) in traps.iter().enumerate() {
        let first = traps.iter().position(|other| (other.name, &other.says) == (trap.name, &trap.says)).unwrap_or(index);
        same.entry((first, trap.name, &trap.says)).or_default().push(&trap.cgroup);
    }
    let mut out = String::new();
    for ((first, name, says), cgroups) in same {
        let cgroups: Vec<&str> = cgroups.into_iter().filter(|cgroup| !cgroup.is_empty()).collect();
        let (shown, more) = (cgroups.iter().take(3).copied().collect::<Vec<_>>().join(", "), cgroups.len().saturating_sub(3));
        let whose = match (cgroups.is_empty(), more) {
            (true, _) => String::new(),
            (false, 0) => format!(" ({shown})"),
            (false, more) => format!(" ({shown} and {more} more)"),
        };
        let _ = writeln!(out, "{}  {name}{whose}: {says}", traps[first].risk.name());
    }
    out
}

/// `roles` names the cgroups by path.
pub(super) fn changes(changes: &[Change], stale: &[Stale], roles: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let (same, changes): (Vec<&Change>, Vec<&Change>) = changes.iter().partition(|change| change.risk == Risk::Same);
    if changes.is_empty() {
        out.push_str("Nothing changes for pods made anew.\n");
    } else {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(["RISK", "CGROUP", "FILE", "BEFORE", "AFTER"]);
        for change in changes {
            let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "not written".to_owned());
            table.add_row([
                change.risk.name().to_owned(),
                change.cgroup.clone(),
                change.file.clone(),
                text(&change.before),
                text(&change.after),
            ]);
        }
        out.push_str(&lines(table.trim_fmt()));
    }
    if !same.is_empty() {
        let _ = writeln!(out, "{} files more change only between \"not written\" and the kernel's default.", same.len());
    }
    if !stale.is_empty() {
        out.push_str("\nPods that keep running while the kubelet changes keep these values:\n");
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(["CGROUP", "FILE", "HOLDS", "WOULD HOLD", "UNTIL"]);
        for stale in stale {
            let text = |value: Option<crate::kubelet::Limit>| value.map_or("default".to_owned(), |value| value.to_string());
            let until = match stale.until {
                StaleUntil::ContainerRestarts => "the container starts again",
                StaleUntil::PodIsRecreated => "the pod is made again",
                StaleUntil::NextUpdate => "the next update, within a minute",
                StaleUntil::WrittenByHand => "somebody writes it by hand",
            };
            table.add_row([
                roles.get(&stale.cgroup).unwrap_or(&stale.cgroup).clone(),
                stale.file.to_owned(),
                text(stale.holds),
                text(stale.would_hold),
                until.to_owned(),
            ]);
        }
        out.push_str(&lines(table.trim_fmt()));
    }
    out
}

pub(in crate::cli) fn refusals(what: &str, reasons: &[Refusal]) -> String {
    let list: String = reasons.iter().map(|reason| format!("\n  {reason}")).collect();
    format!("{what} does not start:{list}")
}

pub(super) fn findings(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "Nothing to say.\n".to_owned();
    }
    let line = |f: &Finding| {
        let severity = format!("{:?}", f.severity).to_lowercase();
        if f.field.is_empty() { format!("{severity}  {}\n", f.says) } else { format!("{severity}  {}: {}\n", f.field, f.says) }
    };
    findings.iter().map(line).collect()
}

pub(super) fn budget(budget: &Budget, claim: Option<Quantity>) -> String {
    let mut out = String::new();
    let mut row = |name: &str, bytes: i64| {
        let _ = writeln!(out, "{name:<28}{bytes:>20}  {}", gib(bytes));
    };
    row("capacity", budget.capacity);
    row("- systemReserved", budget.system_reserved);
    row("- kubeReserved", budget.kube_reserved);
    row("- evictionHard", budget.eviction);
    row("= allocatable", budget.allocatable);
    row(if budget.protected { "- requests (protected)" } else { "- requests (not protected)" }, budget.requested);
    if let (Some(peak), Some(residual)) = (budget.unprotected_peak, budget.residual) {
        row("- unprotected peak", peak);
        row("= residual", residual);
        if residual < 0 {
            out.push_str("There is less than nothing left: the peak does not fit beside the requests.\n");
        }
    }
    out.push_str("An envelope for planning, not a model of what the kernel protects.\n");
    if let Some(claim) = claim {
        let twice = budget.deducted_twice(claim.ceil());
        let agrees = [Some(budget.allocatable), budget.residual].contains(&Some(claim.ceil()));
        let _ = match (twice.is_empty(), agrees) {
            (false, _) => {
                let names: Vec<&str> = twice.iter().map(|reserve| reserve.name()).collect();
                writeln!(out, "{claim} is what is left when {} is deducted twice.", names.join(" and "))
            }
            (true, true) => writeln!(out, "{claim} agrees."),
            (true, false) => writeln!(out, "{claim} agrees with neither figure, and no reserve deducted twice explains it."),
        };
    }
    out
}

fn gib(bytes: i64) -> String {
    format!("{:.2} Gi", bytes as f64 / f64::from(1 << 30))
}

fn lines(text: impl std::fmt::Display) -> String {
    let mut text = text.to_string();
    text.push('\n');
    text
}
