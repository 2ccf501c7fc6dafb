//! The drawings of a page that show all arms at once, faults, pressure and latencies, and what all drawings share.

use super::chart::{Chart, Draw, Scale, Series};
use super::spread::{Spread, spreads};
use super::words::busiest;
use super::{ArmRecords, Subject};
use crate::lab::Unit;
use crate::record::{Metric, Role};
use crate::study::{ArmResult, Curve, Curves, LoadResult, say};
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
    /// A remark beside the title; may be empty.
    pub note: String,
}

/// The CSS class of an arm's colour.
#[must_use]
pub fn class(arm: usize) -> String {
    format!("arm{}", arm % 6)
}

/// Bytes.
pub(super) const BYTES: Scale = Scale { name: "bytes", say: |value| say(value, Unit::Bytes), binary: true };
/// Counts.
pub(super) const COUNT: Scale = Scale { name: "count", say: |value| say(value, Unit::Count), binary: false };
/// Nanoseconds.
pub(super) const TIME: Scale = Scale { name: "time", say: time, binary: false };
const RATE: Scale = Scale { name: "rate", say: rate, binary: false };
const PERCENT: Scale = Scale { name: "percent", say: |value| say(value, Unit::Percent), binary: false };

fn rate(value: f64) -> String {
    format!("{}/s", say(value, Unit::Count))
}

fn time(value: f64) -> String {
    say(value, Unit::Time)
}

/// Faults and pressure of all arms in one drawing each; left out where nothing happened.
#[must_use]
pub fn overlays(subject: &Subject<'_>) -> Vec<Figure> {
    let end_ns = end(subject);
    let overlay = |title: &str, metric: Metric, factor: f64, scale: Scale| {
        let series: Vec<_> = subject
            .arms
            .iter()
            .map(|ArmRecords { name, curves, .. }| {
                let points = sum(curves, metric, None).into_iter().map(|(at, v)| (at, v * factor)).collect();
                Series { name: name.clone(), class: class(index(subject, name)), points, draw: Draw::Line }
            })
            .collect();
        let top = series.iter().flat_map(|s| &s.points).map(|p| p.1).fold(0.0, f64::max);
        let chart = Chart {
            title: format!("{title} of every arm over time"),
            series,
            levels: vec![],
            moments: &[],
            // Arms end their phases at different moments, so none of them is drawn here.
            phases: &[],
            end_ns,
            top: top * 1.1,
            below: 0.0,
            height: 110.0,
            scale,
            axis: true,
        };
        (top > 0.0).then(|| Figure { title: title.to_owned(), class: String::new(), svg: chart.svg(), note: String::new() })
    };
    let faults = overlay("Major faults of the pods", Metric::StatPgmajfault, 1.0, RATE);
    // Microseconds waited per second; of 1e6, in percent.
    let pressure = overlay("Memory pressure (PSI full)", Metric::PressureFullUs, 1e-4, PERCENT);
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
    let title = format!("Latency of the requests served in phase {phase}, on a logarithmic axis");
    let svg = spreads(&title, &list, time);
    (!svg.is_empty()).then_some(Figure { title, class: String::new(), svg, note: String::new() })
}

fn unanswered(load: &LoadResult) -> String {
    let outcomes: Vec<_> = load.outcomes.iter().map(|(outcome, n)| format!("{n} {outcome}")).collect();
    format!("none served: {}", outcomes.join(", "))
}

pub(super) fn end(subject: &Subject<'_>) -> u64 {
    subject.result.arms.iter().map(|a| a.end_ns).max().unwrap_or(1)
}

pub(super) fn arm<'a>(subject: &Subject<'a>, name: &str) -> Option<&'a ArmResult> {
    subject.result.arms.iter().find(|a| a.name == name)
}

pub(super) fn index(subject: &Subject<'_>, name: &str) -> usize {
    subject.result.arms.iter().position(|a| a.name == name).unwrap_or(0)
}

pub(super) fn phases(arm: &ArmResult) -> Vec<(String, u64, u64)> {
    arm.phases.iter().map(|p| (p.name.clone(), p.start_ns, p.end_ns)).collect()
}

/// A metric of one pod, or of all pods together, point by point.
pub(super) fn sum(curves: &Curves, metric: Metric, role: Option<&Role>) -> Vec<(u64, f64)> {
    let mut total: BTreeMap<u64, f64> = BTreeMap::new();
    let wanted = |c: &&Curve| c.metric == metric && role.map_or(matches!(c.role, Role::Pod { .. }), |role| c.role == *role);
    for curve in curves.list.iter().filter(wanted) {
        for (at, value) in &curve.points {
            *total.entry(*at).or_default() += value;
        }
    }
    total.into_iter().collect()
}
