//! A run directory, studied: reads the records as streams and hands them to `study` and `report`.

use super::{Exit, comparable};
use crate::lab::Lab;
use crate::record::{DeviceFacts, Event, Metric, NodeRecord, Role, RunDir, RunError, SEEDS, Seeds};
use crate::report::{self, ArmRecords};
use crate::study::{self, Conclusion, Decision, LabResult, Records, Telemetry};
use camino::Utf8Path;
use std::io::IsTerminal;

/// A studied run with all that its reports show.
#[derive(Debug)]
pub struct Studied {
    lab: Lab,
    node: NodeRecord,
    arms: Vec<ArmRecords>,
    telemetry: Vec<(String, Telemetry)>,
    /// The figures.
    pub result: LabResult,
}

/// Studies a run: of one seed, or of several with what they say together. Runs that differ in more than their seed are refused, unless
/// the user compares them anyway, which the result records.
pub fn open(run: &RunDir, lab: &Lab, anyway: bool) -> anyhow::Result<Studied> {
    if !run.file(SEEDS).is_file() {
        let differing = comparable::rules(lab, run)?;
        comparable::allow(&differing, anyway)?;
        let mut studied = study(run, lab)?;
        studied.result.decision.iter_mut().for_each(|decision| decision.anyway.clone_from(&differing));
        return Ok(studied);
    }
    let mut seeds: Seeds = run.read_json(SEEDS)?;
    let members = seeds.seeds.iter().map(|one| RunDir::open(&run.file(&one.run)).map_err(|e| Exit::BadInput.because(e)));
    let members = members.collect::<anyhow::Result<Vec<_>>>()?;
    for member in &members {
        let mut differing = comparable::voids(lab, &members[0], member)?;
        // What the list records was allowed when it was made.
        differing.retain(|field| !seeds.anyway.contains(field));
        comparable::allow(&differing, anyway)?;
        seeds.anyway.extend(differing);
    }
    let (mut first, mut results) = (None, Vec::new());
    for (one, member) in seeds.seeds.into_iter().zip(&members) {
        let studied = study(member, &comparable::seeded(member)?)?;
        // Runs that lie elsewhere are another command's to write.
        if Utf8Path::new(&one.run).is_relative() {
            studied.write(member)?;
        }
        results.push((one, studied.result.clone()));
        first.get_or_insert(studied);
    }
    let result = study::merge(lab, results, seeds.anyway);
    let (Some(first), Some(result)) = (first, result) else {
        return Err(Exit::BadInput.because(format!("{} names no run", run.file(SEEDS))));
    };
    Ok(Studied { result, lab: lab.clone(), ..first })
}

/// Studies the records of a run. Arms that were not run have none.
pub fn study(run: &RunDir, lab: &Lab) -> anyhow::Result<Studied> {
    let (mut results, mut arms, mut all_telemetry) = (Vec::new(), Vec::new(), Vec::new());
    let node: NodeRecord = run.read_json("node.json")?;
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
        let mut result = study::study_arm::<RunError>(arm, records)?;
        if let Some(alerts) = &lab.alerts {
            // The first swap device counts, with nothing else in flight.
            let iops = result.swap_device.as_ref().filter(|d| d.random_read_ns > 0).map(|d| 1e9 / d.random_read_ns as f64);
            let telemetry = study::telemetry(alerts, &plan, &events, iops, run.samples(name)?)?;
            result.alerts = study::evaluate(alerts, &telemetry, &result.kills);
            all_telemetry.push((name.clone(), telemetry));
        }
        let curves = study::curves(run.samples(name)?, result.end_ns, drawn)?;
        let answers = study::answers(run.requests(name)?, result.end_ns)?;
        results.push(result);
        arms.push(ArmRecords { name: name.clone(), plan, curves, ledgers, events, reports, answers });
    }
    let result = study::conclude(lab, results);
    Ok(Studied { result, lab: lab.clone(), node, arms, telemetry: all_telemetry })
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
        (
            Role::Pod { .. },
            Metric::MemoryCurrent
                | Metric::MemorySwapCurrent
                | Metric::StatAnon
                | Metric::StatFile
                | Metric::PressureFullUs
                | Metric::StatPgmajfault
        )
    )
}

impl Studied {
    /// The page.
    pub fn html(&self) -> anyhow::Result<String> {
        let subject = report::Subject { lab: &self.lab, result: &self.result, node: &self.node, arms: &self.arms };
        Ok(report::html(&subject)?)
    }

    /// Writes `result.json`, `report.html` and, for labs with alerts, `alerts/ARM/rules.yaml` and `test.yaml`.
    pub fn write(&self, run: &RunDir) -> anyhow::Result<()> {
        run.write_json("result.json", &self.result)?;
        run.write("report.html", self.html()?.as_bytes())?;
        for (arm, telemetry) in &self.telemetry {
            let (Some(alerts), Some(result)) = (&self.lab.alerts, self.result.arms.iter().find(|a| a.name == *arm)) else {
                continue;
            };
            let rules = report::rules(alerts, telemetry.iops).map_err(anyhow::Error::msg)?;
            let test = report::unit_test(arm, alerts, telemetry, &result.alerts).map_err(anyhow::Error::msg)?;
            run.write(&format!("alerts/{arm}/rules.yaml"), rules.as_bytes())?;
            run.write(&format!("alerts/{arm}/test.yaml"), test.as_bytes())?;
        }
        Ok(())
    }

    /// The table; who sees it on a terminal sees the curves in it.
    pub fn terminal(&self) -> String {
        let drawn = if std::io::stdout().is_terminal() { &self.arms[..] } else { &[] };
        report::terminal(&self.lab, &self.result, drawn)
    }

    /// How the process ends.
    pub fn exit(&self) -> Exit {
        match self.result.conclusion {
            Conclusion::AsExpected => match self.result.decision.as_ref().map(|d| &d.decided.decision) {
                Some(Decision::Inconclusive) => Exit::Uninformative,
                _ => Exit::AsExpected,
            },
            Conclusion::Failed => Exit::Failed,
            Conclusion::Uninformative | Conclusion::Inconclusive => Exit::Uninformative,
        }
    }
}
