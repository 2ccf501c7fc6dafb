//! Traps: what is legal but will surprise, by name.

use super::diff::Risk;
use crate::kubelet::{ContainerPolicy, Limit, Node, Pod, PodPolicy, Protection, QosClass, QosSums, SwapBehavior};
use serde::Serialize;
use std::fmt;

/// One trap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trap {
    /// Its name, always the same for the same kind.
    pub name: &'static str,
    /// The cgroup's role; empty for the node as a whole.
    pub cgroup: String,
    /// What happens.
    pub says: String,
    /// How bad it may be.
    pub risk: Risk,
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cgroup.is_empty() {
            true => write!(f, "{}: {}", self.name, self.says),
            false => write!(f, "{} ({}): {}", self.name, self.cgroup, self.says),
        }
    }
}

/// Finds the traps of a node with its pods, the worst first.
pub(super) fn find<'a>(node: &Node, sums: &QosSums, pods: impl Iterator<Item = (&'a Pod, &'a PodPolicy)>) -> Vec<Trap> {
    let mut found = of_node(node, sums);
    for (pod, policy) in pods {
        of_pod(node, pod, policy, &mut found);
    }
    found.sort_by_key(|trap| trap.risk);
    found
}

fn of_node(node: &Node, sums: &QosSums) -> Vec<Trap> {
    let (config, rules) = (&node.config, node.config.rules());
    let mut found = Vec::new();
    let mut trap = |name, risk, says: String| found.push(Trap { name, cgroup: String::new(), says, risk });
    if let Some(factor) = config.factor.filter(|_| rules.default_factor.is_none() && config.gates.memory_qos) {
        trap(
            "factor-carried-over",
            Risk::Throttle,
            format!(
                "memoryThrottlingFactor {factor} is spelled out: to 1.36 it did nothing unless MemoryQoS was switched on, in \
                 {} MemoryQoS is on and it throttles; leave it out to have no memory.high",
                config.version
            ),
        );
    }
    let protects = config.gates.memory_qos && (config.tiered || rules.protection == Protection::MinAlways);
    if protects && rules.protection == Protection::Periodic && sums.burstable > 0 {
        let says = "1.36 writes memory.low into the Burstable cgroup and its pods but not into kubepods: a parent with \
                    memory.low 0 leaves its children without effective protection; 1.37 writes it";
        trap("ancestor-protection-missing", Risk::Unprotect, says.to_owned());
    }
    let parents = node.hierarchy.kubepods().matches('/').count() - 1;
    if protects && parents > 0 && sums.guaranteed + sums.burstable > 0 {
        let parent = node.hierarchy.kubepods().rsplit_once('/').map_or("", |(parent, _)| parent);
        let says = format!(
            "nobody writes memory.min or memory.low into {parent}, which stands above kubepods: without it nothing below is \
             effectively protected; write them by hand, or set no cgroupRoot"
        );
        trap("ancestor-protection-missing", Risk::Unprotect, says);
    }
    if protects && sums.guaranteed + sums.burstable > node.allocatable_absolute {
        let says = format!(
            "the pods request {} bytes, kubepods may hold {}: protection is then shared in proportion to usage",
            sums.guaranteed + sums.burstable,
            node.allocatable_absolute
        );
        trap("protection-overcommitted", Risk::Unprotect, says);
    }
    if config.swap == SwapBehavior::Unset && rules.unlimited_swap {
        let says =
            "swapBehavior is not set, and in 1.29 that means unlimited: every pod, BestEffort too, may fill the node's swap";
        trap("swap-unlimited-by-default", Risk::Kill, says.to_owned());
    }
    if config.eviction_hard_memory.is_none() {
        let says = "evictionHard has no memory.available: the kubelet evicts nobody for memory, only the kernel kills";
        trap("no-memory-eviction", Risk::Kill, says.to_owned());
    }
    found
}

fn of_pod(node: &Node, pod: &Pod, policy: &PodPolicy, found: &mut Vec<Trap>) {
    let (config, rules) = (&node.config, node.config.rules());
    let role = format!("pod/{}", pod.name());
    let mut trap = |name, cgroup: &str, risk, says: String| found.push(Trap { name, cgroup: cgroup.to_owned(), says, risk });
    let page = node.facts.page_size;
    if config.swap == SwapBehavior::LimitedSwap && rules.critical_pods_no_swap && pod.is_critical() {
        let says = "a critical pod gets no swap, whatever it requests".to_owned();
        trap("critical-pod-no-swap", &role, Risk::Swap, says);
    }
    if config.gates.fix_defaulting && pod.is_static() && pod.spec.resources.is_some() {
        let says = "the pod level of a static pod gets no defaults from 1.37 on: write its requests and limits out".to_owned();
        trap("static-pod-level-not-defaulted", &role, Risk::Unprotect, says);
    }
    let limited = |c: &&crate::kubelet::Container| c.resources.limits.has_memory();
    if policy.qos == QosClass::Burstable && policy.max.value.is_none() && pod.containers().any(|c| limited(&c)) {
        let without: Vec<&str> = pod.containers().filter(|c| !limited(c)).map(|c| c.name.as_str()).collect();
        let says = format!("the pod as a whole has no memory.max, since {} has no memory limit", without.join(", "));
        trap("pod-not-limited", &role, Risk::Note, says);
    }
    for container in pod.containers() {
        let values = ContainerPolicy::of(node, pod, policy, container);
        let role = format!("pod/{}/{}", pod.name(), container.name);
        let number = |value| if let Some(Limit::Number(bytes)) = value { Some(bytes) } else { None };
        let (max, high, min) = (number(values.max.value), number(values.high.value), number(values.min.value));
        if min.is_some_and(|min| min > 0) && min == max && policy.qos == QosClass::Guaranteed {
            let says =
                "memory.min equals memory.max: its page cache cannot be reclaimed, and reading files may end in an OOM kill; \
                        leave headroom in the limit of the pod level, or use policy None"
                    .to_owned();
            trap("min-equals-max", &role, Risk::Kill, says);
        }
        if let (Some(high), Some(max)) = (high, max)
            && max.saturating_sub(high) < max / 100
        {
            let gap = max.saturating_sub(high);
            let says = format!("memory.high stands {gap} bytes below memory.max: hardly throttled before it is killed");
            trap("narrow-gap", &role, Risk::Kill, says);
        }
        if rules.pod_high && high.is_some() && max.is_none() {
            let says = "it has no limit, and is throttled above a share of the node's allocatable memory".to_owned();
            trap("unlimited-is-throttled", &role, Risk::Throttle, says);
        }
        let no_request = container.resources.requests.memory_bytes() == 0;
        if no_request && config.gates.memory_qos && config.tiered && policy.qos != QosClass::BestEffort {
            let says = "no memory is requested, so none is protected".to_owned();
            trap("no-request", &role, Risk::Unprotect, says);
        }
        if config.swap != SwapBehavior::LimitedSwap || !node.facts.swap_controller {
            continue;
        }
        if policy.qos == QosClass::Burstable && no_request && !pod.is_critical() {
            trap("no-request-no-swap", &role, Risk::Swap, "no memory is requested, so there is no swap for it".to_owned());
        }
        if values.limited_swap {
            let swap = number(values.swap_max.value).unwrap_or(0);
            if !no_request && swap < page {
                let says =
                    format!("its share of swap is {swap} bytes, which the kernel floors to nothing: request more, or add swap");
                trap("swap-rounds-to-nothing", &role, Risk::Swap, says);
            }
            if config.gates.in_place {
                let says =
                    "it may swap, so an in-place change of its memory request is refused (resizePolicy RestartContainer is \
                            allowed)"
                        .to_owned();
                trap("resize-refused-with-swap", &role, Risk::Note, says);
            }
        }
    }
}
