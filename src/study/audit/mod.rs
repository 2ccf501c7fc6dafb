//! The talk's quick actions as arithmetic over a cluster: what each node has, requests and uses, which pods bear swap, and whose
//! entitlement would be too small for the peak that was observed.
//!
//! Swap limits are those of the kubelet module under LimitedSwap; nothing is computed a second way here.

mod actions;
mod container;
mod need;
mod node;
mod usage;

pub use actions::{Action, ActionId};
pub use container::ContainerAudit;
pub use need::{Classified, LABEL, Need};
pub use node::{Levels, NodeAudit, PodAudit};
pub use usage::{QUERY, Usage, Who, read};

use crate::kubelet::{KubeletConfiguration, NodeFacts, Pod, Version};
use serde::Serialize;

/// A node as the API server shows it.
#[derive(Debug, Clone)]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// Its kubelet's version.
    pub kubernetes: Version,
    /// Memory and swap.
    pub facts: NodeFacts,
    /// status.allocatable.memory in bytes.
    pub allocatable: u64,
}

/// A pod that runs, with what its memory policy does not read.
#[derive(Debug, Clone)]
pub struct ClusterPod {
    /// The pod.
    pub pod: Pod,
    /// Kinds of its owners.
    pub owners: Vec<String>,
    /// Containers whose present or last end was an OOM kill.
    pub oom_killed: Vec<String>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// Node by node, in the order given.
    pub nodes: Vec<NodeAudit>,
    /// What to do, the harmful first.
    pub actions: Vec<Action>,
    /// Pods that are bound to no node of the list, as namespace/name.
    pub elsewhere: Vec<String>,
    /// Containers with samples that belong to no pod of the list, as namespace/pod/container.
    pub unmatched: Vec<String>,
    /// How many time stamps the samples have.
    pub moments: usize,
}

impl Audit {
    /// Whether something would harm: a pod that must not swap and would, or an entitlement that is too small.
    #[must_use]
    pub fn harmful(&self) -> bool {
        self.actions.iter().any(|action| action.id.is_harmful())
    }

    /// Whether a container of the list has samples at all; without, nothing is known about usage.
    #[must_use]
    pub fn informative(&self) -> bool {
        self.nodes.iter().flat_map(|node| &node.pods).flat_map(|pod| &pod.containers).any(|container| container.usage.is_some())
    }
}

/// The configuration that is asked about: LimitedSwap, and otherwise the version's defaults.
fn limited_swap() -> KubeletConfiguration {
    let mut config = KubeletConfiguration { fail_swap_on: Some(false), ..KubeletConfiguration::default() };
    config.memory_swap.swap_behavior = "LimitedSwap".to_owned();
    // Off by default in 1.29; the same as the default, or locked to it, from then on.
    config.feature_gates.insert("NodeSwap".to_owned(), true);
    config
}

/// Audits a cluster.
///
/// # Errors
/// Every node whose kubelet would not start and every pod that cannot be planned or classified, one per line.
pub fn audit(nodes: &[ClusterNode], pods: &[ClusterPod], usage: &Usage) -> Result<Audit, Vec<String>> {
    let (mut audits, mut problems) = (Vec::new(), Vec::new());
    for node in nodes {
        let here: Vec<&ClusterPod> = pods.iter().filter(|pod| pod.pod.spec.node_name == node.name).collect();
        match node::audit(node, &here, usage) {
            Ok(found) => audits.push(found),
            Err(more) => problems.extend(more),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let bound = |pod: &&ClusterPod| nodes.iter().any(|node| node.name == pod.pod.spec.node_name);
    let known = |who: &Who| {
        let named = |pod: &ClusterPod| pod.pod.name() == who.pod && node::namespace(&pod.pod) == who.namespace;
        pods.iter().any(|pod| named(pod) && pod.pod.containers().any(|container| container.name == who.container))
    };
    let moments: std::collections::BTreeSet<i64> = usage.series.values().flat_map(|points| points.keys().copied()).collect();
    Ok(Audit {
        actions: actions::find(&audits),
        nodes: audits,
        elsewhere: pods.iter().filter(|pod| !bound(pod)).map(|pod| node::full_name(&pod.pod)).collect(),
        unmatched: usage
            .series
            .keys()
            .filter(|who| !known(who))
            .map(|who| format!("{}/{}/{}", who.namespace, who.pod, who.container))
            .collect(),
        moments: moments.len(),
    })
}

#[cfg(test)]
mod tests;
