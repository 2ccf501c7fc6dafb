//! The tested envelope: what was the same in every arm and seed, and so what a decision holds for.

use super::result::ArmResult;
use crate::kubelet::Pod;
use crate::lab::{Arm, Arrivals, Lab, Load};
use serde::{Deserialize, Serialize};

/// What a decision holds for. Anything else voids it: another loader, another offload strategy, another node image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// The node, in words.
    pub node: String,
    /// Every workload with its settings, in the baseline.
    pub workloads: Vec<String>,
    /// Every load: rate, size and concurrency.
    pub loads: Vec<String>,
    /// The seeds.
    pub seeds: Vec<u64>,
}

/// The envelope of a lab's baseline.
pub fn envelope(lab: &Lab, arms: &[ArmResult], seeds: Vec<u64>) -> Envelope {
    let baseline = lab.arm(&lab.baseline).or(lab.arms.first());
    let kernel = arms.first().map_or("not known", |arm| arm.kernel.as_str());
    Envelope {
        node: baseline.map(|arm| node(arm, kernel)).unwrap_or_default(),
        workloads: baseline.iter().flat_map(|arm| arm.pods.iter().flat_map(workloads)).collect(),
        loads: baseline.map(loads).unwrap_or_default(),
        seeds,
    }
}

fn node(arm: &Arm, kernel: &str) -> String {
    let shape = &arm.node;
    let device = |kind: &str, d: &crate::lab::Device| {
        let profile = serde_json::to_value(d.profile).ok().and_then(|p| p.as_str().map(str::to_owned)).unwrap_or_default();
        format!(", {kind} {} of {} ({profile})", d.name, d.size)
    };
    let swap = shape.swap.iter().map(|d| device("swap", d));
    let devices: String = swap.chain(shape.data.iter().map(|d| device("data", d))).collect();
    format!("Kubernetes {}, {} of memory{devices}, kernel {kernel}, one vCPU", shape.kubernetes, shape.memory)
}

fn workloads(pod: &Pod) -> Vec<String> {
    pod.containers().map(|c| format!("{}/{}: {}", pod.name(), c.name, c.args.join(" "))).collect()
}

fn loads(arm: &Arm) -> Vec<String> {
    // The same load in several phases is told once.
    let mut found: Vec<(Vec<&str>, String)> = Vec::new();
    for phase in &arm.phases {
        for load in &phase.load {
            let text = format!("{}: {}", load.pod, words(load));
            match found.iter_mut().find(|(_, known)| *known == text) {
                Some((phases, _)) => phases.push(&phase.name),
                None => found.push((vec![&phase.name], text)),
            }
        }
    }
    found.into_iter().map(|(phases, text)| format!("{} on {text}", phases.join(" + "))).collect()
}

fn words(load: &Load) -> String {
    let arrivals = match &load.arrivals {
        Arrivals::Constant { rate, duration } => format!("{rate} a second for {duration}, evenly"),
        Arrivals::Poisson { rate, duration } => format!("{rate} a second for {duration}, at random"),
        Arrivals::Ramp { from, to, duration } => format!("{from} to {to} a second over {duration}"),
        Arrivals::Trace(times) => format!("{} at given times", times.len()),
    };
    let flight = load.concurrency.map_or_else(|| "any number in flight".to_owned(), |n| format!("at most {n} in flight"));
    format!("{arrivals}, {} + {} tokens, {flight}", load.tokens.prompt, load.tokens.output)
}
