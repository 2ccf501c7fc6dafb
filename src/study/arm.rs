//! One arm: its records, read once, become figures.

use super::life::{alive, kills, lives};
use super::memory::Memory;
use super::reports::reported;
use super::requests::Requests;
use super::result::{ArmResult, LedgerResult, PhaseResult};
use super::window::{Window, windows};
use crate::lab::{Arm, Slo};
use crate::ledger;
use crate::record::{DeviceFacts, Event, EventKind, Frame, LedgerSnapshot, Plan, Report, Request};
use std::collections::BTreeMap;

/// The records of an arm. Samples and requests are streams, since they may be long.
#[derive(Debug)]
pub struct Records<'a, S, R> {
    /// What the kubelet writes.
    pub plan: &'a Plan,
    /// What happened, in order.
    pub events: &'a [Event],
    /// Hello, watches, ticks and Done.
    pub samples: S,
    /// Requests.
    pub requests: R,
    /// What workloads reported of themselves, in order.
    pub reports: &'a [Report],
    /// The first swap device of the arm as it was measured.
    pub swap_device: Option<DeviceFacts>,
    /// Snapshots at the ends of phases.
    pub ledgers: &'a [LedgerSnapshot],
}

/// Studies an arm.
///
/// # Errors
/// The first error of a stream.
pub fn study_arm<E>(
    arm: &Arm,
    records: Records<'_, impl Iterator<Item = Result<Frame, E>>, impl Iterator<Item = Result<Request, E>>>,
) -> Result<ArmResult, E> {
    let windows = windows(records.events);
    let mut memory = Memory::new(&windows);
    let (mut kernel, mut end_ns, mut busy_ns) = (String::new(), windows.last().map_or(0, |w| w.end_ns), 0);
    for frame in records.samples {
        match frame? {
            Frame::Hello { kernel: name, .. } => kernel = name,
            Frame::Watch(watch) => memory.watch(&watch),
            Frame::Tick(tick) => memory.tick(&tick),
            Frame::Done { at_ns, busy_ns: busy } => (end_ns, busy_ns) = (at_ns, busy),
            _ => {}
        }
    }
    let slos = slos(arm);
    let mut requests: BTreeMap<String, Requests> = BTreeMap::new();
    let mut all = Requests::default();
    for request in records.requests {
        let request = request?;
        let slo = slos.get(&(request.phase.as_str(), request.load.as_str()));
        requests.entry(request.phase.clone()).or_default().add(&request, slo);
        all.add(&request, slo);
    }
    let (by_phase, cgroups) = memory.finish();
    let whole = Window { name: String::new(), start_ns: 0, end_ns, deadline: false };
    let phase = |window: &Window, requests: Requests, cgroups, ledger| PhaseResult {
        name: window.name.clone(),
        start_ns: window.start_ns,
        end_ns: window.end_ns,
        deadline: window.deadline,
        loads: requests.finish(),
        cgroups,
        lives: lives(records.events, |phase| stops(arm, phase), window.start_ns, window.end_ns),
        reports: reported(records.reports, window.start_ns, window.end_ns),
        ledger,
    };
    let phases = windows
        .iter()
        .zip(by_phase)
        .map(|(window, cgroups)| {
            let ledger = records.ledgers.iter().find(|l| l.phase == window.name);
            let ledger = ledger.map(|l| verified(&records.plan.at(&l.phase), records.events, l));
            phase(window, requests.remove(&window.name).unwrap_or_default(), cgroups, ledger)
        })
        .collect();
    Ok(ArmResult {
        name: arm.name.clone(),
        kernel,
        end_ns,
        busy_ns,
        phases,
        whole: phase(&whole, all, cgroups, None),
        kills: kills(records.events),
        swap_device: records.swap_device,
        refused: refused(records.events),
        alerts: Vec::new(),
    })
}

/// The pods that the script stops as this phase begins.
fn stops<'a>(arm: &'a Arm, phase: &str) -> &'a [String] {
    arm.phases.iter().find(|p| p.name == phase).map_or(&[], |p| &p.stop)
}

fn slos(arm: &Arm) -> BTreeMap<(&str, &str), Slo> {
    let loads = arm.phases.iter().flat_map(|p| p.load.iter().map(move |l| ((p.name.as_str(), l.name.as_str()), l)));
    loads.filter_map(|(key, load)| Some((key, load.slo?.resolved()))).collect()
}

fn verified(plan: &Plan, events: &[Event], snapshot: &LedgerSnapshot) -> LedgerResult {
    let files = snapshot.entries.iter().map(|entry| {
        let texts = entry.files.keys().filter_map(|file| Some((file.clone(), ledger::text(entry, file)?.to_owned())));
        (entry.role.clone(), texts.collect())
    });
    LedgerResult { evidence: ledger::verify(plan, snapshot, alive(events, snapshot.at_ns)), files: files.collect() }
}

fn refused(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::WriteRefused { path, value, error } => Some(format!("{path} did not take {value}: {error}")),
            _ => None,
        })
        .collect()
}
