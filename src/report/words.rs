//! Figures of an arm as a reader wants them: one row of the comparison.

use crate::lab::{Lab, MetricName, MetricRef};
use crate::study::{ArmResult, Figure, LabResult, figure};

/// A column of the comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its head.
    pub head: &'static str,
    /// What it means, for a reader who asks.
    pub about: &'static str,
    /// One cell per arm.
    pub cells: Vec<String>,
}

/// The columns of the comparison that say something in this run: a column that is empty in every arm is left out.
pub fn columns(lab: &Lab, result: &LabResult) -> Vec<Column> {
    let base = result.arms.iter().find(|a| a.name == lab.baseline);
    let phase = busiest(result);
    let mut columns = Vec::new();
    let mut add = |head, about, cell: &dyn Fn(&ArmResult) -> Option<String>| {
        let cells: Vec<_> = result.arms.iter().map(cell).collect();
        if cells.iter().any(Option::is_some) {
            columns.push(Column { head, about, cells: cells.into_iter().map(|c| c.unwrap_or_else(|| "-".to_owned())).collect() });
        }
    };
    let requests = result.arms.iter().any(|a| !a.whole.loads.is_empty());
    let of = |arm: &ArmResult, name: MetricName| figure(arm, &metric(name, phase.as_deref()));
    let said = |arm: &ArmResult, name: MetricName| match of(arm, name) {
        Figure::Absent(_) => None,
        found => Some(found.say(name.unit())),
    };
    if requests {
        add("served", "requests served of requests due", &|arm| {
            let load = arm.whole.load(None)?;
            Some(format!("{} / {}", load.ok(), load.due))
        });
        add("p50", "median latency of served requests, from the scheduled time", &|arm| said(arm, MetricName::LatencyP50));
        add("p90", "90th percentile of the same; needs 100 served requests", &|arm| said(arm, MetricName::LatencyP90));
        add("p99", "99th percentile of the same; needs 1000 served requests", &|arm| said(arm, MetricName::LatencyP99));
        add("slowdown", "median divided by the baseline's", &|arm| {
            let (own, base) = (of(arm, MetricName::LatencyP50).number()?, of(base?, MetricName::LatencyP50).number()?);
            Some(format!("{:.1}x", own / base))
        });
    }
    let whole = |arm: &ArmResult, name: MetricName| figure(arm, &metric(name, None));
    let counted = |arm: &ArmResult, name: MetricName| match whole(arm, name) {
        Figure::Absent(_) => None,
        found => Some(found.say(name.unit())),
    };
    let happened = |name: MetricName| result.arms.iter().any(|a| whole(a, name).number().is_some_and(|n| n > 0.0));
    add("OOM kills", "containers the kernel's OOM killer ended", &|arm| counted(arm, MetricName::OomKills));
    if happened(MetricName::OomKills) {
        add("outage", "time a pod was started and not ready, all pods together", &|arm| counted(arm, MetricName::Outage));
    }
    let swapped = happened(MetricName::SwapOut);
    if happened(MetricName::MajorFaults) || swapped {
        add("major faults", "page faults that had to wait for a device, whole node", &|arm| {
            counted(arm, MetricName::MajorFaults)
        });
    }
    // Of nodes that never swapped there is nothing to compare.
    if swapped {
        add("swapped in", "pages read from swap, whole node", &|arm| counted(arm, MetricName::SwapIn));
        add("swapped out", "pages written to swap, whole node", &|arm| counted(arm, MetricName::SwapOut));
        add("swap peak", "most swap used at once", &|arm| counted(arm, MetricName::SwapPeak));
    }
    add("memory pressure", "share of the busiest phase in which every task waited for memory (PSI full)", &|arm| {
        said(arm, MetricName::PressureFull)
    });
    add("CPU pressure", "share of the busiest phase in which some task waited for the one vCPU (PSI some)", &|arm| {
        said(arm, MetricName::CpuPressure)
    });
    add("controls", "control files compared with what the kubelet of this version writes", &|arm| {
        let evidence = arm.phases.iter().filter_map(|p| p.ledger.as_ref()).map(|l| &l.evidence);
        let worst = evidence.clone().map(|e| e.verdict).max()?;
        Some(format!("{} ({})", worst.to_string().to_lowercase(), evidence.map(|e| e.compared).sum::<usize>()))
    });
    add("cost", "busy virtual time: exact on every machine", &|arm| counted(arm, MetricName::Busy));
    columns
}

/// The phase with the most requests: percentiles and pressure are about it. The whole script where no requests are sent.
pub fn busiest(result: &LabResult) -> Option<String> {
    let phases = result.arms.iter().flat_map(|a| &a.phases);
    let due = |p: &&crate::study::PhaseResult| p.load(None).map_or(0, |l| l.due);
    phases.filter(|p| due(p) > 0).max_by_key(due).map(|p| p.name.clone())
}

/// A figure of all loads, or of the node, in a phase or the whole script.
pub fn metric(name: MetricName, phase: Option<&str>) -> MetricRef {
    MetricRef {
        arm: None,
        name,
        phase: phase.map(str::to_owned),
        pod: None,
        container: None,
        load: None,
        file: None,
        key: None,
        alert: None,
    }
}
