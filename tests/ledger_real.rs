//! What real kubelets wrote, held against the simulator's policy on every run.
//!
//! A fixture is a node's life: steps and, after each, the control ledger of every cgroup as it was read from the node (roles from the
//! runtime and /proc/PID/cgroup). A pod's cgroup path must be the planned one to the byte; a container's ends in an id of the runtime.

#![allow(clippy::print_stdout, reason = "a test says what it compared and measured")]

use highwater::ledger::{Life, Verdict, misplaced};
use highwater::record::{FileValue, LedgerEntry, Plan};
use std::path::Path;

fn lives() -> Vec<(String, Life)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/ledger-real");
    let mut paths: Vec<_> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .collect();
    paths.sort();
    let read =
        |path: &Path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    paths.iter().map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), read(p))).collect()
}

/// Differences between a plan and the ledger, one line each.
fn drifts(life: &Life, plan: &Plan, ledger: &[LedgerEntry]) -> Vec<String> {
    let evidence = life.verify(plan, ledger);
    let mut lines: Vec<_> = evidence.missing.iter().map(|(role, file)| format!("{role} {file:?} is missing")).collect();
    for drift in &evidence.drifts {
        let rule = drift.rule.as_ref().map_or("nobody writes it".to_owned(), |r| format!("{} ({})", r.formula, r.source));
        lines.push(format!("{} {}: planned {}, found {}; rule: {rule}", drift.role, drift.file, drift.planned, drift.found));
    }
    assert_eq!(evidence.verdict == Verdict::Fulfilled, lines.is_empty());
    lines.extend(misplaced(plan, ledger));
    lines
}

/// The first step against the plan, every later one against the model of what stays behind and what is written again.
#[test]
fn real_kubelets_wrote_what_the_simulator_says() {
    let lives = lives();
    assert!(!lives.is_empty());
    let (mut compared, mut steps) = (0, 0);
    for (name, life) in &lives {
        let plans = life.plans().unwrap_or_else(|reasons| panic!("{name}: {reasons:?}"));
        for (number, (step, plan)) in life.steps.iter().zip(&plans).enumerate() {
            let wrong = drifts(life, plan, &step.ledger);
            assert!(wrong.is_empty(), "{name}, step {number} ({:?}):\n{}", step.action, wrong.join("\n"));
            compared += step.ledger.iter().map(|e| e.files.len()).sum::<usize>();
            steps += 1;
        }
    }
    println!("{compared} files in {steps} steps of {} real nodes are as the simulator says", lives.len());
}

#[test]
fn a_changed_byte_of_any_file_is_found() {
    for (name, life) in lives() {
        for (step, plan) in life.steps.iter().zip(life.plans().unwrap()) {
            for (at, entry) in step.ledger.iter().enumerate() {
                for (file, value) in &entry.files {
                    let mut changed = step.ledger.clone();
                    let other = if *value == FileValue::Text("12288".to_owned()) { "8192" } else { "12288" };
                    changed[at].files.insert(file.clone(), FileValue::Text(other.to_owned()));
                    assert_eq!(drifts(&life, &plan, &changed).len(), 1, "{name}: {} {file}", entry.role);
                }
            }
        }
    }
}
