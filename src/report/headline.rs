//! The sentence that answers the lab's question with this run's figures.

use super::words::{busiest, metric};
use crate::lab::{Lab, MetricName, Unit};
use crate::study::{ArmResult, Decision, LabResult, figure, say};

/// The answer, in one or two sentences.
#[must_use]
pub fn headline(lab: &Lab, result: &LabResult) -> String {
    if let Some(decision) = result.decision.as_ref().filter(|d| d.decided.decision != Decision::NotAsked) {
        return format!("{}: {}.", decision.decided.decision, decision.decided.because);
    }
    if result.arms.iter().any(|a| !a.whole.loads.is_empty()) { served(lab, result) } else { controlled(lab, result) }
}

/// Labs with requests: who was served, how fast, who died.
fn served(lab: &Lab, result: &LabResult) -> String {
    let phase = busiest(result);
    let p50 = |arm: &ArmResult| figure(arm, &metric(MetricName::LatencyP50, phase.as_deref())).number();
    let base = result.arms.iter().find(|a| a.name == lab.baseline);
    let clause = |(i, arm): (usize, &ArmResult)| {
        let load = arm.whole.load(None);
        let (ok, due) = load.map_or((0, 0), |l| (l.ok(), l.due));
        // The first clause introduces the requests, the others only count them.
        let requests = if i == 0 { " requests" } else { "" };
        let mut text = match ok {
            0 => format!("with {} none of {due}{requests} was answered", arm.name),
            ok if ok == due => format!("with {} all {due}{requests} were answered", arm.name),
            ok => format!("with {} {ok} of {due}{requests} were answered", arm.name),
        };
        match (p50(arm), base.and_then(p50)) {
            (Some(own), Some(base)) if arm.name != lab.baseline && base > 0.0 => match own / base {
                f if (0.95..1.05).contains(&f) => text += ", as quickly",
                f if f < 1.0 => text += &format!(", {} as quickly at the median", times(1.0 / f)),
                f => text += &format!(", {} as slowly at the median", times(f)),
            },
            (Some(own), _) => text += &format!(" in {} at the median", say(own, Unit::Time)),
            _ => {}
        }
        match arm.kills.len() {
            0 => text,
            1 => text + ", and the OOM killer struck once",
            n => text + &format!(", and the OOM killer struck {n} times"),
        }
    };
    let mut sentence = result.arms.iter().enumerate().map(clause).collect::<Vec<_>>().join("; ");
    if let Some(first) = sentence.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    sentence + "."
}

/// Labs about control files: do they say what the kubelet writes?
fn controlled(lab: &Lab, result: &LabResult) -> String {
    let evidence = || result.arms.iter().flat_map(|a| &a.phases).filter_map(|p| p.ledger.as_ref()).map(|l| &l.evidence);
    let (compared, drifted) = (evidence().map(|e| e.compared).sum::<usize>(), evidence().map(|e| e.drifts.len()).sum::<usize>());
    let mut versions: Vec<_> = lab.arms.iter().map(|a| a.node.kubernetes.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    let kubelet = format!("the kubelet of Kubernetes {} writes", versions.join(" and "));
    match drifted {
        0 => format!("All {compared} control files of {} arms say exactly what {kubelet}.", result.arms.len()),
        1 => format!("One of {compared} control files does not say what {kubelet}."),
        n => format!("{n} of {compared} control files do not say what {kubelet}."),
    }
}

fn times(factor: f64) -> String {
    match factor {
        f if f >= 10.0 => format!("{f:.0} times"),
        f => format!("{f:.1} times"),
    }
}
