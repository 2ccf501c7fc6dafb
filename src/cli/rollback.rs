//! `highwater rollback LAB`: the runbook from a lab's Memory QoS policy back to its baseline, with the answer to expect after each step.

use super::plan::show;
use super::{Exit, input, print, print_json};
use crate::kubelet::{KubeletConfiguration, Version};
use crate::lab::{Arm, Lab};
use crate::ledger::{Left, Replay, Runbook, runbook};
use comfy_table::{Table, presets};
use std::fmt::Write;

/// Arguments of `highwater rollback`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A name of the catalogue, a directory, or a file with all documents.
    lab: String,
    /// The arm to come from; by default the one that sets most of Memory QoS.
    #[arg(long)]
    arm: Option<String>,
    /// Turn the MemoryQoS gate off as well.
    #[arg(long)]
    gate_off: bool,
    /// The kubelet's version instead of the lab's.
    #[arg(long, value_name = "VERSION")]
    kubernetes: Option<Version>,
}

/// Prints the runbook.
pub fn run(args: &Args, json: bool) -> anyhow::Result<Exit> {
    let lab = input::lab(&args.lab)?;
    let baseline = lab.known_arm(&lab.baseline).map_err(|unknown| Exit::BadInput.because(unknown))?;
    let mut to = baseline.kubelet.clone();
    if args.gate_off {
        to.feature_gates.insert("MemoryQoS".to_owned(), false);
        (to.memory_reservation_policy, to.memory_throttling_factor) = (None, None);
    }
    let arm = match &args.arm {
        Some(name) => lab.known_arm(name).map_err(|unknown| Exit::BadInput.because(unknown))?,
        None => policy_arm(&lab, &to).unwrap_or(baseline),
    };
    if settings(&arm.kubelet) == settings(&to) {
        let message = format!(
            "{}: there is nothing to roll back from {} to {}: no arm sets memoryReservationPolicy, memoryThrottlingFactor or the gate \
             MemoryQoS otherwise; --gate-off turns the gate off as well",
            lab.name, arm.name, lab.baseline
        );
        return Err(Exit::BadInput.because(message));
    }
    let version = args.kubernetes.map_or_else(|| arm.node.kubernetes.parse().map_err(|e| Exit::BadInput.because(e)), Ok)?;
    let refused = |reasons: Vec<_>| Exit::BadInput.because(show::refusals(&format!("the kubelet {version}"), &reasons));
    let mut from = arm.kubelet.clone();
    if args.gate_off {
        // Versions in which the gate is off by default have it on before the way back begins.
        from.feature_gates.entry("MemoryQoS".to_owned()).or_insert(true);
    }
    let node = Replay::create(version, &from, &arm.facts(), &arm.pods).map_err(refused)?;
    let book = runbook(&node, &to).map_err(refused)?;
    if json {
        return print_json(&serde_json::json!({
            "lab": lab.name, "kubernetes": version.to_string(), "from": arm.name, "to": lab.baseline, "gateOff": args.gate_off,
            "steps": book.steps, "wrongOrders": book.wrong,
        }));
    }
    let gate = if args.gate_off { ", with the gate off" } else { "" };
    let headline = format!("{}: from {} back to {}{gate}, Kubernetes {version}\n", lab.name, arm.name, lab.baseline);
    print(headline + &text(&book))
}

/// The arm with most settings that differ from the target's; the first of several.
fn policy_arm<'a>(lab: &'a Lab, to: &KubeletConfiguration) -> Option<&'a Arm> {
    let differing = |arm: &Arm| {
        let (own, target) = (settings(&arm.kubelet), settings(to));
        own.iter().zip(&target).filter(|(a, b)| a != b).count()
    };
    lab.arms.iter().rev().max_by_key(|arm| differing(arm))
}

fn settings(config: &KubeletConfiguration) -> [Option<String>; 3] {
    [
        config.memory_reservation_policy.clone(),
        config.memory_throttling_factor.map(|factor| factor.to_string()),
        config.feature_gates.get("MemoryQoS").map(ToString::to_string),
    ]
}

fn text(book: &Runbook) -> String {
    let mut out = String::new();
    for (number, step) in book.steps.iter().enumerate() {
        let _ = writeln!(out, "\n{}. {}", number + 1, step.what);
        step.commands.iter().for_each(|command| out.push_str(&format!("     $ {command}\n")));
        if step.changes.is_empty() {
            out.push_str("   No file changes.\n");
        } else {
            out.push_str("   Check that these have changed:\n");
            let mut table = table(["CGROUP", "FILE", "BEFORE", "NOW", "COMMAND"]);
            for change in &step.changes {
                table.add_row([&change.cgroup, change.file, &change.before, &change.after, &change.check]);
            }
            out.push_str(&indented(&table));
        }
        out.push_str(&stale("   Still there from before, as expected:", &step.stale));
    }
    let end = book.steps.last().is_none_or(|step| step.stale.is_empty());
    out.push_str(if end { "\nAfter that nothing is left.\n" } else { "\nThe values named last stay.\n" });
    if !book.wrong.is_empty() {
        out.push_str("\nNot in these orders:\n");
    }
    for order in &book.wrong {
        let _ = writeln!(out, "\n-  {}", order.what);
        order.refused.iter().for_each(|reason| out.push_str(&format!("   refused: {reason}\n")));
        out.push_str(&stale("   Nothing refuses it, and this is left:", &order.stale));
    }
    out
}

fn stale(title: &str, stale: &[Left]) -> String {
    if stale.is_empty() {
        return String::new();
    }
    let mut table = table(["CGROUP", "FILE", "HOLDS", "WOULD HOLD", "UNTIL"]);
    for left in stale {
        table.add_row([&left.cgroup, left.file, &left.holds, &left.would_hold, left.until]);
    }
    format!("{title}\n{}", indented(&table))
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table
}

fn indented(table: &Table) -> String {
    table.trim_fmt().lines().map(|line| format!("     {}\n", line.trim())).collect()
}
