//! When each answer came and how long it took, arm by arm on the time axis of memory and swap.

use super::Subject;
use super::chart::{Chart, Draw, Series};
use super::events::marks;
use super::figures::{Figure, TIME, class, end, index, phases};

/// The drawings; none in a lab without requests. Every arm has the same axes.
#[must_use]
pub fn answers(subject: &Subject<'_>) -> Vec<Figure> {
    let arms = subject.arms.iter().filter(|arm| !arm.answers.is_empty());
    let arms: Vec<_> =
        arms.filter_map(|arm| Some((subject.result.arms.iter().find(|r| r.name == arm.name)?, &arm.answers))).collect();
    let slowest = arms.iter().flat_map(|(_, answers)| answers.iter()).map(|a| a.latency_ns).max().unwrap_or(0) as f64;
    let last = arms.len().saturating_sub(1);
    arms.iter()
        .enumerate()
        .map(|(i, (arm, answers))| {
            let own = class(index(subject, &arm.name));
            let points = |served| answers.iter().filter(|a| a.served == served).map(|a| (a.due_ns, a.latency_ns as f64)).collect();
            let series = |name: &str, class, served| Series { name: name.into(), class, points: points(served), draw: Draw::Dots };
            let (served, failed) = (answers.iter().filter(|a| a.served).count(), answers.iter().filter(|a| !a.served).count());
            let phases = phases(arm);
            let chart = Chart {
                title: format!(
                    "Latency of requests of arm {} by the time they were due; {served} points of served requests, {failed} of others",
                    arm.name
                ),
                series: vec![series("served", own.clone(), true), series("not served", "failed".into(), false)],
                levels: vec![],
                moments: &marks(subject, arm),
                phases: &phases,
                end_ns: end(subject),
                top: slowest * 1.08,
                below: 0.0,
                height: 100.0,
                scale: TIME,
                axis: i == last,
            };
            Figure { title: arm.name.clone(), class: own, svg: chart.svg(), note: String::new() }
        })
        .collect()
}
