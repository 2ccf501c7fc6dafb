//! `highwater diff RUN RUN`: controls exactly; outcomes exactly within one substrate identity, otherwise side by side.

use super::{Exit, comparable, input, print, print_json};
use crate::ledger::{self, Moved};
use crate::record::{NodeRecord, RunDir};
use crate::study::LabResult;
use camino::Utf8Path;
use serde_json::json;

/// Compares two runs. Ends with 1 when a control moved, or when equal substrates gave different bytes; runs whose
/// labs differ in more than their subject are refused, unless they are compared anyway.
pub fn run(first: &Utf8Path, second: &Utf8Path, anyway: bool, json: bool) -> anyhow::Result<Exit> {
    let (first, second) = (input::one(first)?, input::one(second)?);
    let differing = comparable::labs(&first, &second)?;
    comparable::allow(&differing, anyway)?;
    let controls = controls(&first, &second)?;
    let (one, two): (NodeRecord, NodeRecord) = (first.read_json("node.json")?, second.read_json("node.json")?);
    let (a, b): (LabResult, LabResult) = (first.read_json("result.json")?, second.read_json("result.json")?);
    let same_substrate = one.identity == two.identity;
    let bytes = if same_substrate { differing_files(&first, &second)? } else { Vec::new() };
    let outcomes = outcomes(&a, &b);
    if json {
        let list: Vec<_> = controls.iter().map(|(place, moved)| json!({"place": place, "moved": moved.to_string()})).collect();
        print_json(&json!({
            "anyway": differing, "sameSubstrate": same_substrate, "controls": list, "differingFiles": bytes, "outcomes": outcomes,
        }))?;
    } else {
        let mut lines = Vec::new();
        lines.push(match controls.len() {
            0 => "controls  equal".to_owned(),
            n => format!("controls  {n} moved"),
        });
        lines.extend(controls.iter().map(|(place, moved)| format!("  {place}: {moved}")));
        lines.push(match (same_substrate, bytes.len()) {
            (true, 0) => "outcomes  equal to the byte, on the same substrate".to_owned(),
            (true, n) => format!("outcomes  {n} files differ although the substrate is the same"),
            (false, _) => "outcomes  from different substrates, so figures may differ a little:".to_owned(),
        });
        lines.extend(bytes.iter().map(|file| format!("  {file}")));
        if !same_substrate {
            let named = one.substrate.iter().zip(&two.substrate).filter(|(a, b)| a != b);
            lines.extend(named.map(|((name, _), _)| format!("  {name} differs")));
            lines.extend(outcomes.iter().map(|(figure, a, b)| format!("  {figure}: {a} | {b}")));
        }
        if !differing.is_empty() {
            lines.push(format!("compared although more than the lab's subject differs: {}", differing.join(", ")));
        }
        print(lines.join("\n"))?;
    }
    Ok(if controls.is_empty() && bytes.is_empty() { Exit::AsExpected } else { Exit::Failed })
}

fn controls(first: &RunDir, second: &RunDir) -> anyhow::Result<Vec<(String, Moved)>> {
    let mut found = Vec::new();
    for arm in &input::recorded(first)?.arms {
        for phase in &arm.phases {
            let pair = (first.ledger(&arm.name, &phase.name)?, second.ledger(&arm.name, &phase.name)?);
            if let (Some(a), Some(b)) = pair {
                let place = format!("arm {}, phase {}", arm.name, phase.name);
                found.extend(ledger::diff(&a, &b).into_iter().map(|moved| (place.clone(), moved)));
            }
        }
    }
    Ok(found)
}

/// Files of the records that are not the same; wall times are left out, and what is derived follows from the rest.
fn differing_files(first: &RunDir, second: &RunDir) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for arm in &input::recorded(first)?.arms {
        for name in ["plan/ARM.json", "order/ARM.json", "events/ARM.jsonl", "samples/ARM.bin", "load/ARM.jsonl", "log/ARM.log"] {
            let name = name.replace("ARM", &arm.name);
            let read = |run: &RunDir| fs_err::read(run.file(&name)).ok();
            match (read(first), read(second)) {
                (Some(a), Some(b)) if a != b => found.push(name),
                _ => {}
            }
        }
    }
    Ok(found)
}

/// Measured figures of the expectations, on both sides.
fn outcomes(a: &LabResult, b: &LabResult) -> Vec<(String, String, String)> {
    let pairs = a.expectations.iter().filter_map(|e| Some((e, b.expectations.iter().find(|other| other.id == e.id)?)));
    pairs
        .filter(|(a, b)| a.measured != b.measured)
        .map(|(a, b)| (a.figure.clone(), a.measured.clone(), b.measured.clone()))
        .collect()
}
