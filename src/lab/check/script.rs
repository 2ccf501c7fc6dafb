//! Scripts that name pods that are not there, or loads that make no sense.

use super::unique;
use crate::lab::{Arrivals, Ends, Load, NodeStep, Phase};
use crate::yaml::{Node, Problems};
use std::collections::BTreeSet;

/// More requests than this in one load would take more memory than the guest's input area has.
const MOST_REQUESTS: f64 = 100_000.0;

pub(super) fn check(phases: &[Phase], pods: &[&str], tree: &Node, problems: &mut Problems) {
    if phases.is_empty() {
        problems.push(tree.blame("phases", "a lab needs at least one phase"));
    }
    unique(&phases.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), "phases", tree, problems);
    let mut running = BTreeSet::new();
    let mut stepped = false;
    for phase in phases {
        let path = format!("phases[{}]", phase.name);
        if !super::dns_label(&phase.name) {
            problems.push(tree.blame(format!("{path}.name"), super::BAD_NAME));
        }
        for pod in &phase.stop {
            if !running.remove(pod) {
                problems.push(tree.blame(format!("{path}.stop"), format!("the pod {pod} is not running here")));
            }
        }
        if let Some((field, pod)) = phase.step.as_ref().and_then(NodeStep::pod)
            && !running.contains(pod)
        {
            problems.push(tree.blame(format!("{path}.step.{field}"), format!("the pod {pod} is not running here")));
        }
        stepped |= phase.step.is_some();
        if stepped && !phase.start.is_empty() {
            let message =
                "after a step no pod starts: start it in an earlier phase, so that it is there when the configuration changes";
            problems.push(tree.blame(format!("{path}.start"), message));
        }
        for pod in &phase.start {
            if !pods.contains(&pod.as_str()) {
                problems
                    .push(tree.blame(format!("{path}.start"), format!("there is no pod {pod}: pods are {}", pods.join(", "))));
            } else if !running.insert(pod.clone()) {
                problems.push(tree.blame(format!("{path}.start"), format!("the pod {pod} runs already: stop it first")));
            }
        }
        let (Ends::After(end) | Ends::Ready(end) | Ends::Settled(end)) = phase.ends;
        if end.0 == 0 {
            problems.push(tree.blame(format!("{path}.ends"), "a phase must be longer than 0s"));
        }
        unique(&phase.load.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), &format!("{path}.load"), tree, problems);
        for load in &phase.load {
            let path = format!("{path}.load[{}]", load.name);
            if !running.contains(&load.pod) {
                problems.push(
                    tree.blame(
                        format!("{path}.pod"),
                        format!("the pod {} is not running in this phase: start it first", load.pod),
                    ),
                );
            }
            for (field, message) in load_problems(load, end.0) {
                problems.push(tree.blame(format!("{path}.{field}"), message));
            }
        }
    }
}

fn load_problems(load: &Load, phase_ns: u64) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let mut wrong = |field, message: &str| found.push((field, message.to_owned()));
    let (rates, last): (Vec<f64>, u64) = match &load.arrivals {
        Arrivals::Constant { rate, duration } | Arrivals::Poisson { rate, duration } => (vec![*rate], duration.0),
        Arrivals::Ramp { from, to, duration } => (vec![*from, *to], duration.0),
        Arrivals::Trace(times) => {
            if times.is_empty() {
                wrong("arrivals", "a trace needs at least one time");
            }
            if !times.is_sorted() {
                wrong("arrivals", "the times of a trace must not go back");
            }
            (vec![1.0], times.last().map_or(1, |t| t.0.max(1)))
        }
    };
    if rates.iter().any(|r| !r.is_finite() || *r < 0.0) || rates.iter().all(|r| *r == 0.0) {
        wrong("arrivals", "the rate must be above 0 requests per second");
    }
    if last == 0 {
        wrong("arrivals", "the duration must be longer than 0s");
    }
    if last > phase_ns {
        wrong("arrivals", "the load is longer than the phase: its last requests would never be sent");
    }
    if rates.iter().copied().fold(0.0, f64::max) * last as f64 / 1e9 > MOST_REQUESTS {
        wrong("arrivals", "more than 100000 requests: lower the rate or the duration");
    }
    if load.tokens.output == 0 {
        wrong("tokens.output", "a request must ask for at least one token");
    }
    if load.concurrency == Some(0) {
        wrong("concurrency", "with 0 in flight nothing is ever sent: leave it out or give it a figure");
    }
    if load.timeout.0 == 0 {
        wrong("timeout", "must be longer than 0s");
    }
    found
}
