//! `highwater snapshot RUN`: the control ledger of a run, as text or JSON.

use super::{Exit, input, print, print_json};
use crate::ledger;
use camino::Utf8Path;

/// Prints what the control files said at the end of each phase, arm by arm.
pub fn run(path: &Utf8Path, json: bool) -> anyhow::Result<Exit> {
    let run = input::one(path)?;
    let lab = input::recorded(&run)?;
    let mut snapshots = Vec::new();
    for arm in &lab.arms {
        for phase in &arm.phases {
            snapshots.extend(run.ledger(&arm.name, &phase.name)?.map(|s| (arm.name.clone(), s)));
        }
    }
    if json {
        let list: Vec<_> = snapshots.iter().map(|(arm, s)| serde_json::json!({"arm": arm, "snapshot": s})).collect();
        return print_json(&list);
    }
    let text = |(arm, snapshot): &(String, _)| {
        let snapshot: &crate::record::LedgerSnapshot = snapshot;
        format!("# arm {arm}, phase {}\n{}", snapshot.phase, ledger::render(snapshot))
    };
    print(snapshots.iter().map(text).collect::<Vec<_>>().join("\n"))
}
