//! What a container's cgroup gets (`generateLinuxContainerResources`): regular, init, sidecar and ephemeral containers alike.

use super::container::Container;
use super::cpu::{quota_us, shares};
use super::effective::SwapBehavior;
use super::node::Node;
use super::pod::{Pod, QosClass};
use super::pod_policy::PodPolicy;
use super::value::{Decision, Limit, Why};
use super::version::{Protection, Rules};
use super::why;

/// oom_score_adj and its rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OomScore {
    /// -997 to 1000.
    pub value: i32,
    /// The rule.
    pub why: &'static Why,
}

/// Everything the kubelet tells the runtime about a container's memory and CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerPolicy {
    /// memory.max.
    pub max: Decision,
    /// memory.min.
    pub min: Decision,
    /// memory.low.
    pub low: Decision,
    /// memory.high.
    pub high: Decision,
    /// memory.swap.max.
    pub swap_max: Decision,
    /// memory.oom.group.
    pub oom_group: Decision,
    /// oom_score_adj.
    pub oom_score_adj: OomScore,
    /// CPU shares, which the runtime turns into cpu.weight.
    pub cpu_shares: u64,
    /// Microseconds per period; 0 for none. None when CPU limits are not enforced.
    pub cpu_quota: Option<i64>,
    /// What LimitedSwap comes to for this container (`GetContainerSwapBehavior`).
    pub limited_swap: bool,
}

impl ContainerPolicy {
    /// The policy for one container of a pod, with the API's defaults already set.
    pub fn of(node: &Node, pod: &Pod, policy: &PodPolicy, container: &Container) -> Self {
        let rules = node.config.rules();
        let (requests, limits) = (&container.resources.requests, &container.resources.limits);
        let (request, own_limit) = (requests.memory_bytes(), limits.memory_bytes());
        let (min, low) = protection(node, rules, policy.qos, request);
        let (limited_swap, swap_max) = swap(node, rules, pod, policy, container);
        // The pod level's CPU limit stands in where the container has none.
        let level_cpu = if policy.pod_level { policy.level_cpu_limit } else { 0 };
        let cpu_limit = if limits.has_cpu() { limits.cpu_millis() } else { level_cpu };
        let cpu_request = requests.cpu.map_or(cpu_limit, |q| q.milli_ceil());
        ContainerPolicy {
            max: max(policy, own_limit),
            min,
            low,
            high: high(node, rules, policy, request, own_limit),
            swap_max,
            oom_group: match node.config.oom_group {
                true => Decision::write(Limit::Number(1), &why::OOM_GROUP),
                false => Decision::nothing(&why::OOM_SINGLE),
            },
            oom_score_adj: oom_score_adj(node, rules, pod, policy, container),
            cpu_shares: shares(cpu_request),
            cpu_quota: node.config.cpu_cfs_quota.then(|| quota_us(cpu_limit)),
            limited_swap,
        }
    }
}

fn max(policy: &PodPolicy, own_limit: i64) -> Decision {
    if own_limit != 0 {
        return Decision::write(Limit::number(own_limit), &why::CONTAINER_MAX);
    }
    match policy.pod_level && policy.level_memory_limit != 0 {
        true => Decision::write(Limit::number(policy.level_memory_limit), &why::CONTAINER_MAX_POD_LEVEL),
        false => Decision::nothing(&why::NO_LIMIT),
    }
}

fn protection(node: &Node, rules: &Rules, qos: QosClass, request: i64) -> (Decision, Decision) {
    if !node.config.gates.memory_qos {
        return (Decision::nothing(&why::GATE_OFF), Decision::nothing(&why::GATE_OFF));
    }
    if rules.protection == Protection::MinAlways {
        let min = match request {
            0 => Decision::nothing(&why::NO_REQUEST),
            _ => Decision::write(Limit::number(request), &why::MIN_REQUEST_ALPHA),
        };
        return (min, Decision::nothing(&why::NO_LOW_ALPHA));
    }
    let zero = Limit::Number(0);
    if !node.config.tiered {
        return (Decision::write(zero, &why::ZERO_POLICY_NONE), Decision::write(zero, &why::ZERO_POLICY_NONE));
    }
    if request == 0 {
        return (Decision::write(zero, &why::ZERO_NO_REQUEST), Decision::write(zero, &why::ZERO_NO_REQUEST));
    }
    match qos {
        QosClass::Guaranteed => {
            (Decision::write(Limit::number(request), &why::MIN_REQUEST), Decision::nothing(&why::LOW_OF_GUARANTEED))
        }
        _ => (Decision::nothing(&why::MIN_OF_BURSTABLE), Decision::write(Limit::number(request), &why::LOW_REQUEST)),
    }
}

fn high(node: &Node, rules: &Rules, policy: &PodPolicy, request: i64, limit: i64) -> Decision {
    if !node.config.gates.memory_qos {
        return match rules.pod_high {
            true => Decision::write(Limit::Max, &why::HIGH_RESET),
            false => Decision::nothing(&why::GATE_OFF),
        };
    }
    let Some(factor) = node.config.factor else {
        return Decision::nothing(&why::NO_FACTOR);
    };
    if request == limit && !(rules.pod_high && request == 0) {
        return Decision::nothing(if request == 0 { &why::HIGH_NOTHING_SET } else { &why::HIGH_REQUEST_IS_LIMIT });
    }
    if rules.pod_high && limit == 0 && policy.pod_level && policy.level_memory_limit != 0 {
        return Decision::nothing(&why::HIGH_LEFT_TO_POD);
    }
    let (top, why) = match limit {
        0 => (node.allocatable_absolute, &why::HIGH_ALLOCATABLE),
        _ => (limit, &why::HIGH_LIMIT),
    };
    if top <= 0 {
        return Decision::nothing(&why::HIGH_NO_ALLOCATABLE);
    }
    match throttle(request, top, factor, node.facts.page_size) {
        high if high != 0 && high > request => Decision::write(Limit::number(high), why),
        _ => Decision::nothing(&why::HIGH_BELOW_REQUEST),
    }
}

/// KEP-2570: request + (top − request) × factor, in float64 and in exactly this order, floored, then floored to a page.
pub(super) fn throttle(request: i64, top: i64, factor: f64, page: u64) -> i64 {
    let above = (top as f64 - request as f64) * factor;
    let bytes = (request as f64 + above).floor();
    (bytes / page as f64) as i64 * page as i64
}

fn swap(node: &Node, rules: &Rules, pod: &Pod, policy: &PodPolicy, container: &Container) -> (bool, Decision) {
    let none = |why| (false, Decision::write(Limit::Number(0), why));
    let (limited, decision) = match node.config.swap {
        SwapBehavior::Unset if rules.unlimited_swap => (false, Decision::write(Limit::Max, &why::SWAP_UNSET_UNLIMITED)),
        SwapBehavior::UnlimitedSwap => (false, Decision::write(Limit::Max, &why::SWAP_UNLIMITED)),
        SwapBehavior::NoSwap if !node.config.gates.node_swap => none(&why::SWAP_GATE_OFF),
        SwapBehavior::Unset | SwapBehavior::NoSwap => none(&why::SWAP_NONE),
        SwapBehavior::LimitedSwap => {
            let (request, limit) = (container.resources.requests.memory, container.resources.limits.memory);
            let (request, limit) = (request.unwrap_or_default(), limit.unwrap_or_default());
            if rules.critical_pods_no_swap && pod.is_critical() {
                none(&why::SWAP_CRITICAL)
            } else if policy.qos != QosClass::Burstable {
                none(&why::SWAP_NOT_BURSTABLE)
            } else if request.is_zero() && limit.is_zero() {
                none(&why::SWAP_NO_REQUEST)
            } else if request == limit {
                none(&why::SWAP_REQUEST_IS_LIMIT)
            } else {
                match limited_swap(request.ceil(), node.facts.memory, node.facts.swap) {
                    Some(bytes) => (true, Decision::write(Limit::number(bytes), &why::SWAP_LIMITED)),
                    None => (true, Decision::write(Limit::Number(0), &why::SWAP_REQUEST_ABOVE_NODE)),
                }
            }
        }
    };
    match node.facts.swap_controller {
        true => (limited, decision),
        false => (false, Decision::nothing(&why::SWAP_NO_CONTROLLER)),
    }
}

/// KEP-2400: (request / node memory) × node swap in float64, division first, truncated. None when more is requested than there is.
fn limited_swap(request: i64, node_memory: u64, node_swap: u64) -> Option<i64> {
    if node_memory == 0 || request > node_memory as i64 {
        return None;
    }
    let share = request as f64 / node_memory as f64;
    Some((share * node_swap as f64) as i64)
}

/// `GetContainerOOMScoreAdjust`.
fn oom_score_adj(node: &Node, rules: &Rules, pod: &Pod, policy: &PodPolicy, container: &Container) -> OomScore {
    const GUARANTEED: i64 = -997;
    let score = |value: i64, why| OomScore { value: value as i32, why };
    if pod.is_node_critical() {
        return score(GUARANTEED, &why::OOM_NODE_CRITICAL);
    }
    match policy.qos {
        QosClass::Guaranteed => return score(GUARANTEED, &why::OOM_GUARANTEED),
        QosClass::BestEffort => return score(1000, &why::OOM_BEST_EFFORT),
        QosClass::Burstable => {}
    }
    let capacity = node.facts.memory.max(1) as i128;
    let from = |request: i64| 1000 - (1000 * (i128::from(request) + i128::from(policy.extra_request))) / capacity;
    let own = from(container.resources.requests.memory_bytes());
    let is_sidecar = container.is_restartable() && pod.spec.init_containers.iter().any(|c| c.name == container.name);
    let (value, why) = match rules.sidecar_oom_score && is_sidecar {
        true => (own.min(from(policy.least_request)), &why::OOM_SIDECAR),
        false => (own, &why::OOM_BURSTABLE),
    };
    // Burstable stays between Guaranteed (-997, so at least 3) and BestEffort (1000, so at most 999).
    score(value.clamp(3, 999) as i64, why)
}
