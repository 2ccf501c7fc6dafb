//! A run directory, studied: reads the records as streams and hands them to `study` and `report`.

use super::Exit;
use crate::lab::Lab;
use crate::record::{DeviceFacts, Event, LedgerSnapshot, Metric, NodeRecord, Plan, Role, RunDir, RunError};
use crate::report;
use crate::study::{self, Conclusion, Curves, LabResult, Records};

/// A studied run with all that its reports show.
#[derive(Debug)]
pub struct Studied {
    lab: Lab,
    node: NodeRecord,
    curves: Vec<(String, Curves)>,
    plans: Vec<(String, Plan)>,
    ledgers: Vec<(String, Vec<LedgerSnapshot>)>,
    /// The figures.
    pub result: LabResult,
}

/// Studies the records of a run. Arms that were not run have none.
pub fn study(run: &RunDir, lab: &Lab) -> anyhow::Result<Studied> {
    let node: NodeRecord = run.read_json("node.json")?;
    let (mut arms, mut curves, mut plans, mut all_ledgers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for arm in lab.arms.iter().filter(|arm| run.file(&format!("samples/{}.bin", arm.name)).is_file()) {
        let name = &arm.name;
        let plan = run.plan(name)?;
        let events: Vec<Event> = run.events(name)?.collect::<Result<_, _>>()?;
        let ledgers = arm.phases.iter().map(|p| run.ledger(name, &p.name)).collect::<Result<Vec<_>, _>>()?;
        let ledgers: Vec<_> = ledgers.into_iter().flatten().collect();
        let (samples, requests) = (run.samples(name)?, run.requests(name)?);
        let reports = run.reports(name)?;
        let swap_device = arm.node.swap.first().and_then(|device| measured(&node, name, &device.name));
        let records =
            Records { plan: &plan, events: &events, samples, requests, reports: &reports, swap_device, ledgers: &ledgers };
        let result = study::study_arm::<RunError>(arm, records)?;
        curves.push((name.clone(), study::curves(run.samples(name)?, result.end_ns, drawn)?));
        arms.push(result);
        plans.push((name.clone(), plan));
        all_ledgers.push((name.clone(), ledgers));
    }
    Ok(Studied { result: study::conclude(lab, arms), lab: lab.clone(), node, curves, plans, ledgers: all_ledgers })
}

/// A device of the node that an arm was forked from.
fn measured(node: &NodeRecord, arm: &str, device: &str) -> Option<DeviceFacts> {
    let booted = node.nodes.iter().find(|n| n.arms.iter().any(|a| a == arm))?;
    booted.facts.devices.iter().find(|d| d.name == device).cloned()
}

/// What the report draws.
fn drawn(role: &Role, metric: Metric) -> bool {
    matches!(
        (role, metric),
        (Role::Pod { .. }, Metric::MemoryCurrent | Metric::MemorySwapCurrent | Metric::PressureFullUs | Metric::StatPgmajfault)
    )
}

impl Studied {
    /// The page.
    pub fn html(&self) -> anyhow::Result<String> {
        let subject = report::Subject {
            lab: &self.lab,
            result: &self.result,
            node: &self.node,
            curves: &self.curves,
            plans: &self.plans,
            ledgers: &self.ledgers,
        };
        Ok(report::html(&subject)?)
    }

    /// The table.
    pub fn terminal(&self) -> String {
        report::terminal(&self.lab, &self.result)
    }

    /// How the process ends.
    pub fn exit(&self) -> Exit {
        match self.result.conclusion {
            Conclusion::AsExpected => Exit::AsExpected,
            Conclusion::Failed => Exit::Failed,
            Conclusion::Uninformative | Conclusion::Inconclusive => Exit::Uninformative,
        }
    }
}
