//! The drawings of a page: memory and swap of every arm on one time axis, faults, pressure, latencies.

use super::Subject;
use super::chart::{Chart, Level, Moment, Series, Spread, binary_top, spreads};
use super::words::busiest;
use crate::lab::Unit;
use crate::record::{Metric, Role};
use crate::study::{ArmResult, Curves, LoadResult, say};
use std::collections::BTreeMap;

/// A drawing with its caption.
#[derive(Debug, Clone)]
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// The arm's class, for drawings of one arm.
    pub class: String,
    /// The SVG.
    pub svg: String,
}

/// The CSS class of an arm's colour.
#[must_use]
pub fn class(arm: usize) -> String {
    format!("arm{}", arm % 6)
}

fn bytes(value: f64) -> String {
    say(value, Unit::Bytes)
}

fn rate(value: f64) -> String {
    format!("{}/s", say(value, Unit::Count))
}

fn percent(value: f64) -> String {
    say(value, Unit::Percent)
}

fn time(value: f64) -> String {
    say(value, Unit::Time)
}

/// Memory of the pods with swap on top, arm by arm; every arm on the same axes.
#[must_use]
pub fn memory(subject: &Subject<'_>) -> Vec<Figure> {
    let end_ns = end(subject);
    let arms: Vec<_> = subject.curves.iter().filter_map(|(name, curves)| Some((arm(subject, name)?, curves))).collect();
    let limits: Vec<_> = arms.iter().map(|(arm, _)| limits(subject, &arm.name)).collect();
    let stacked: Vec<_> = arms.iter().map(|(_, curves)| (sum(curves, &[Metric::MemoryCurrent]), sum(curves, USED))).collect();
    let used = stacked.iter().flat_map(|(_, both)| both).map(|p| p.1).fold(0.0, f64::max);
    // A limit far above all use would flatten everything: it is named in the ledger instead.
    let near = limits.iter().flatten().map(|l| l.value).filter(|v| *v <= used * 2.0).fold(0.0, f64::max);
    let top = binary_top(used.max(near) * 1.08);
    let last = arms.len().saturating_sub(1);
    arms.iter()
        .zip(stacked)
        .zip(limits)
        .enumerate()
        .map(|(i, (((result, _), (memory, both)), levels))| {
            let swap = Series { name: "swap, on top of memory".into(), class: "swap".into(), points: both, filled: true };
            let memory =
                Series { name: "memory".into(), class: class(index(subject, &result.name)), points: memory, filled: true };
            let phases = phases(result);
            let chart = Chart {
                title: format!("Memory and swap of arm {} over time", result.name),
                series: vec![swap, memory],
                levels,
                moments: kills(result),
                phases: &phases,
                end_ns,
                top,
                height: 120.0,
                say: bytes,
                binary: true,
                axis: i == last,
            };
            Figure { title: result.name.clone(), class: class(index(subject, &result.name)), svg: chart.svg() }
        })
        .collect()
}

const USED: &[Metric] = &[Metric::MemoryCurrent, Metric::MemorySwapCurrent];

/// Faults and pressure of all arms in one drawing each; left out where nothing happened.
#[must_use]
pub fn overlays(subject: &Subject<'_>) -> Vec<Figure> {
    let end_ns = end(subject);
    let overlay = |title: &str, metric: Metric, scale: f64, say: fn(f64) -> String| {
        let series: Vec<_> = subject
            .curves
            .iter()
            .map(|(name, curves)| {
                let points = sum(curves, &[metric]).into_iter().map(|(at, v)| (at, v * scale)).collect();
                Series { name: name.clone(), class: class(index(subject, name)), points, filled: false }
            })
            .collect();
        let top = series.iter().flat_map(|s| &s.points).map(|p| p.1).fold(0.0, f64::max);
        let chart = Chart {
            title: format!("{title} of every arm over time"),
            series,
            levels: vec![],
            moments: vec![],
            // Arms end their phases at different moments, so none of them is drawn here.
            phases: &[],
            end_ns,
            top: top * 1.1,
            height: 110.0,
            say,
            binary: false,
            axis: true,
        };
        (top > 0.0).then(|| Figure { title: title.to_owned(), class: String::new(), svg: chart.svg() })
    };
    let faults = overlay("Major faults of the pods", Metric::StatPgmajfault, 1.0, rate);
    // Microseconds waited per second; of 1e6, in percent.
    let pressure = overlay("Memory pressure (PSI full)", Metric::PressureFullUs, 1e-4, percent);
    faults.into_iter().chain(pressure).collect()
}

/// Latencies of served requests, from the scheduled time.
#[must_use]
pub fn latencies(subject: &Subject<'_>) -> Option<Figure> {
    let phase = busiest(subject.result)?;
    let spread = |(i, arm): (usize, &ArmResult)| {
        let load = arm.phase(Some(&phase)).and_then(|p| p.load(None));
        let latency = load.map(|l| &l.latency);
        let points = latency.map(|d| [("p50", d.p50), ("p90", d.p90), ("p99", d.p99)]).into_iter().flatten();
        Spread {
            name: arm.name.clone(),
            class: class(i),
            range: latency.and_then(|d| Some((d.min? as f64, d.max? as f64))),
            points: points.filter_map(|(label, ns)| Some((label, ns? as f64))).collect(),
            note: load.map_or_else(|| "no requests".to_owned(), unanswered),
        }
    };
    let list: Vec<_> = subject.result.arms.iter().enumerate().map(spread).collect();
    let title = format!("Latency of served requests in phase {phase}, from the scheduled time (logarithmic)");
    let svg = spreads(&title, &list, time);
    (!svg.is_empty()).then_some(Figure { title, class: String::new(), svg })
}

fn unanswered(load: &LoadResult) -> String {
    let outcomes: Vec<_> = load.outcomes.iter().map(|(outcome, n)| format!("{n} {outcome}")).collect();
    format!("none served: {}", outcomes.join(", "))
}

pub(super) fn end(subject: &Subject<'_>) -> u64 {
    subject.result.arms.iter().map(|a| a.end_ns).max().unwrap_or(1)
}

fn arm<'a>(subject: &Subject<'a>, name: &str) -> Option<&'a ArmResult> {
    subject.result.arms.iter().find(|a| a.name == name)
}

pub(super) fn index(subject: &Subject<'_>, name: &str) -> usize {
    subject.result.arms.iter().position(|a| a.name == name).unwrap_or(0)
}

pub(super) fn phases(arm: &ArmResult) -> Vec<(String, u64, u64)> {
    arm.phases.iter().map(|p| (p.name.clone(), p.start_ns, p.end_ns)).collect()
}

/// All pods together, point by point.
fn sum(curves: &Curves, metrics: &[Metric]) -> Vec<(u64, f64)> {
    let mut total: BTreeMap<u64, f64> = BTreeMap::new();
    let of_pods = |c: &&crate::study::Curve| matches!(c.role, Role::Pod { .. }) && metrics.contains(&c.metric);
    for curve in curves.list.iter().filter(of_pods) {
        for (at, value) in &curve.points {
            *total.entry(*at).or_default() += value;
        }
    }
    total.into_iter().collect()
}

/// The memory limit, where there is one pod and so one limit to speak of.
fn limits(subject: &Subject<'_>, arm: &str) -> Vec<Level> {
    let plan = subject.plans.iter().find(|(name, _)| name == arm).map(|(_, plan)| plan);
    let pods: Vec<_> = plan.into_iter().flat_map(|p| &p.cgroups).filter(|c| matches!(c.role, Role::Pod { .. })).collect();
    let [pod] = pods[..] else { return Vec::new() };
    let limit = pod.value("memory.max").and_then(|value| value.parse::<u64>().ok());
    limit.map(|value| Level { label: format!("memory.max {}", bytes(value as f64)), value: value as f64 }).into_iter().collect()
}

pub(super) fn kills(arm: &ArmResult) -> Vec<Moment> {
    arm.kills
        .iter()
        .map(|kill| {
            let at = say(kill.at_ns as f64, Unit::Time);
            Moment {
                label: format!("{}/{} OOM-killed at {at}, start {}", kill.pod, kill.container, kill.attempt + 1),
                at_ns: kill.at_ns,
            }
        })
        .collect()
}
