//! A node: capacity, requests, usage of all its containers at one time, and the gap between average and peak.

use super::container::{self, ContainerAudit};
use super::need::{Classified, classify};
use super::{ClusterNode, ClusterPod, Usage, Who, limited_swap};
use crate::kubelet::{Effective, Node, Pod, PodPolicy, QosClass};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Average and peak, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Levels {
    /// Mean of the samples, rounded down.
    pub average: u64,
    /// Largest sample.
    pub peak: u64,
}

/// A node. All figures in bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeAudit {
    /// Its name.
    pub name: String,
    /// Its kubelet's version.
    pub kubernetes: String,
    /// Memory.
    pub capacity: u64,
    /// status.allocatable.
    pub allocatable: u64,
    /// Requests of its pods, overhead included.
    pub requested: u64,
    /// Usage of all containers together: the peak is of one moment, not a sum of peaks. None without samples.
    pub usage: Option<Levels>,
    /// Peak minus average: memory that is needed at peaks only, and so the most that swap could cover.
    pub gap: Option<u64>,
    /// Swap, present or asked about.
    pub swap: u64,
    /// Entitlements under LimitedSwap together.
    pub entitled: u64,
    /// The part of the gap that the entitlements reach: of each container what its peak has over its average, up to its entitlement.
    pub covered: Option<u64>,
    /// Its pods.
    pub pods: Vec<PodAudit>,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodAudit {
    /// namespace/name.
    pub name: String,
    /// The class the kubelet works with.
    pub qos: QosClass,
    /// Whether the kubelet counts it as critical.
    pub critical: bool,
    /// Its latency need.
    #[serde(flatten)]
    pub need: Classified,
    /// Its containers: regular ones and sidecars.
    pub containers: Vec<ContainerAudit>,
}

pub(super) fn namespace(pod: &Pod) -> &str {
    if pod.metadata.namespace.is_empty() { "default" } else { &pod.metadata.namespace }
}

pub(super) fn full_name(pod: &Pod) -> String {
    format!("{}/{}", namespace(pod), pod.name())
}

pub(super) fn audit(cluster: &ClusterNode, pods: &[&ClusterPod], usage: &Usage) -> Result<NodeAudit, Vec<String>> {
    let name = &cluster.name;
    let effective = Effective::resolve(cluster.kubernetes, &limited_swap())
        .map_err(|reasons| reasons.iter().map(|reason| format!("node {name}: {reason}")).collect::<Vec<_>>())?;
    let node = Node::new(effective, cluster.facts.clone());
    let (mut audits, mut problems, mut requested) = (Vec::new(), Vec::new(), 0u64);
    for cluster_pod in pods {
        let mut pod = cluster_pod.pod.clone();
        pod.set_defaults(&node.config.gates);
        let policy = PodPolicy::of(&node, &pod);
        requested += u64::try_from(policy.requests.memory_bytes()).unwrap_or(0);
        match classify(&pod, policy.qos, &cluster_pod.owners) {
            Ok(need) => audits.push(PodAudit {
                name: full_name(&pod),
                qos: policy.qos,
                critical: pod.is_critical(),
                need,
                containers: containers(&node, &pod, &policy, cluster_pod, usage, name),
            }),
            Err(message) => problems.push(format!("pod {}: {message}", full_name(&pod))),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let containers = || audits.iter().flat_map(|pod| &pod.containers);
    let swap = cluster.facts.swap;
    let entitled = containers().map(|c| c.entitlement).sum();
    let levels = together(of_node(name, pods, usage));
    let over_average = |c: &ContainerAudit| c.usage.map_or(0, |u| c.entitlement.min(u.peak - u.average));
    let gap = levels.map(|levels| levels.peak - levels.average);
    Ok(NodeAudit {
        name: name.clone(),
        kubernetes: cluster.kubernetes.to_string(),
        capacity: cluster.facts.memory,
        allocatable: cluster.allocatable,
        requested,
        usage: levels,
        gap,
        swap,
        entitled,
        covered: gap.map(|gap| containers().map(over_average).sum::<u64>().min(gap).min(swap)),
        pods: audits,
    })
}

fn containers(
    node: &Node,
    pod: &Pod,
    policy: &PodPolicy,
    cluster_pod: &ClusterPod,
    usage: &Usage,
    node_name: &str,
) -> Vec<ContainerAudit> {
    let sidecars = pod.spec.init_containers.iter().filter(|container| container.is_restartable());
    let lasting = sidecars.chain(&pod.spec.containers);
    lasting
        .map(|container| {
            let here = |who: &Who| {
                who.namespace == namespace(pod)
                    && who.pod == pod.name()
                    && who.container == container.name
                    && who.node.as_deref().is_none_or(|node| node == node_name)
            };
            let points = usage.series.iter().filter(|(who, _)| here(who)).flat_map(|(_, points)| points.values().copied());
            let oom_killed = cluster_pod.oom_killed.contains(&container.name);
            container::audit(node, pod, policy, container, levels(points), oom_killed)
        })
        .collect()
}

/// The series of everything that ran on a node: of its pods, and of pods that are gone where the samples name the node.
fn of_node<'a>(name: &str, pods: &[&ClusterPod], usage: &'a Usage) -> Vec<&'a BTreeMap<i64, u64>> {
    let names: BTreeSet<(&str, &str)> = pods.iter().map(|pod| (namespace(&pod.pod), pod.pod.name())).collect();
    let here = |who: &Who| match &who.node {
        Some(node) => node == name,
        None => names.contains(&(who.namespace.as_str(), who.pod.as_str())),
    };
    usage.series.iter().filter(|(who, _)| here(who)).map(|(_, points)| points).collect()
}

fn levels(values: impl Iterator<Item = u64>) -> Option<Levels> {
    let (mut count, mut sum, mut peak) = (0u64, 0u128, 0);
    for value in values {
        (count, sum, peak) = (count + 1, sum + u128::from(value), value.max(peak));
    }
    (count > 0).then(|| Levels { average: (sum / u128::from(count)) as u64, peak })
}

/// Usage of all series at each moment. Between its first and its last sample a container holds the value last seen, so that files whose
/// time stamps differ still add up; before and after it holds nothing.
fn together(series: Vec<&BTreeMap<i64, u64>>) -> Option<Levels> {
    let moments: BTreeSet<i64> = series.iter().flat_map(|points| points.keys().copied()).collect();
    let mut changes: BTreeMap<i64, i128> = BTreeMap::new();
    for points in series {
        let mut held = 0i128;
        for (at, value) in points {
            *changes.entry(*at).or_default() += i128::from(*value) - held;
            held = i128::from(*value);
        }
        if let Some(next) = points.keys().next_back().and_then(|last| moments.range(last + 1..).next()) {
            *changes.entry(*next).or_default() -= held;
        }
    }
    let mut total = 0i128;
    levels(moments.into_iter().map(|at| {
        total += changes.get(&at).copied().unwrap_or(0);
        u64::try_from(total).unwrap_or(u64::MAX)
    }))
}
