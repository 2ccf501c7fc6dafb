//! What a pod's cgroup gets when it is created (`ResourceConfigForPod`, `EnsureExists`).

use super::aggregate::{PodAmount, limits_declared, pod_limits, pod_requests, requests_of_containers};
use super::container_policy::throttle;
use super::cpu::{MIN_SHARES, quota_us, shares};
use super::node::Node;
use super::pod::{Pod, QosClass};
use super::qos::qos_class;
use super::value::{Decision, Limit};
use super::version::{Protection, Rules};
use super::why;

/// A CPU limit as the kubelet writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuQuota {
    /// Microseconds per period; -1 when CPU limits are not enforced.
    pub quota_us: i64,
}

/// What the kubelet writes into a pod's cgroup, and what the policy of its containers needs from the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodPolicy {
    /// The pod's class.
    pub qos: QosClass,
    /// memory.max.
    pub max: Decision,
    /// memory.min.
    pub min: Decision,
    /// memory.low.
    pub low: Decision,
    /// memory.high.
    pub high: Decision,
    /// CPU shares.
    pub cpu_shares: u64,
    /// The CPU limit; None is not written.
    pub cpu: Option<CpuQuota>,
    /// What the pod requests, overhead included.
    pub requests: PodAmount,
    /// What the pod may use, overhead included.
    pub limits: PodAmount,
    /// What counts in the sums of the QoS cgroups: pod-level resources whatever the gate says (`getQoSMemoryRequests`), bytes.
    pub qos_sum_memory: i64,
    /// Whether pod-level resources are set and honoured (`IsPodLevelResourcesSet`).
    pub pod_level: bool,
    /// The pod level's memory limit in bytes; 0 for none.
    pub level_memory_limit: i64,
    /// The pod level's CPU limit in thousandths of a core; 0 for none.
    pub level_cpu_limit: i64,
    /// Pod-level request that no container claims, per container, in bytes (KEP-2837).
    pub extra_request: i64,
    /// The smallest memory request of the regular containers, in bytes.
    pub least_request: i64,
}

impl PodPolicy {
    /// The policy for a pod, with the API's defaults already set.
    pub fn of(node: &Node, pod: &Pod) -> Self {
        let (rules, gates) = (node.config.rules(), &node.config.gates);
        let qos = qos_class(pod, gates);
        let level = pod.spec.resources.as_ref();
        let pod_level = gates.pod_level_resources
            && level.is_some_and(|l| l.requests.has_pod_level_resource() || l.limits.has_pod_level_resource());
        let requests = pod_requests(pod, gates.pod_level_resources);
        let limits = pod_limits(pod, gates.pod_level_resources);
        let level_memory_limit = level.map_or(0, |l| l.limits.memory_bytes());
        let level_cpu_limit = level.map_or(0, |l| l.limits.cpu_millis());
        let declared = limits_declared(pod, rules.cumulative_limits_declared);
        let cpu_declared = declared.0 || (pod_level && level_cpu_limit != 0);
        let memory_declared = declared.1 || (pod_level && level_memory_limit != 0);
        let quota = if node.config.cpu_cfs_quota { quota_us(limits.cpu_millis()) } else { -1 };
        let (min, low) = protection(node, rules, qos, requests.memory_bytes());
        PodPolicy {
            qos,
            max: max(qos, memory_declared, limits.memory_bytes()),
            min,
            low,
            high: high(node, rules, pod_level, pod, level_memory_limit),
            cpu_shares: if qos == QosClass::BestEffort { MIN_SHARES } else { shares(requests.cpu_millis()) },
            cpu: match qos {
                QosClass::Guaranteed => true,
                QosClass::Burstable => cpu_declared,
                QosClass::BestEffort => false,
            }
            .then_some(CpuQuota { quota_us: quota }),
            requests,
            limits,
            qos_sum_memory: pod_requests(pod, gates.pod_level_known).memory_bytes(),
            pod_level,
            level_memory_limit,
            level_cpu_limit,
            extra_request: if pod_level { extra_request(rules, pod) } else { 0 },
            least_request: pod.spec.containers.iter().map(|c| c.resources.requests.memory_bytes()).min().unwrap_or(0),
        }
    }
}

fn max(qos: QosClass, declared: bool, limit: i64) -> Decision {
    match qos {
        QosClass::Guaranteed => Decision::write(Limit::number(limit), &why::POD_MAX),
        QosClass::Burstable if declared => Decision::write(Limit::number(limit), &why::POD_MAX),
        QosClass::Burstable => Decision::nothing(&why::POD_NOT_ALL_LIMITED),
        QosClass::BestEffort => Decision::nothing(&why::POD_BEST_EFFORT),
    }
}

fn protection(node: &Node, rules: &Rules, qos: QosClass, request: i64) -> (Decision, Decision) {
    let nothing = |why| (Decision::nothing(why), Decision::nothing(why));
    if !node.config.gates.memory_qos {
        return nothing(&why::GATE_OFF);
    }
    if rules.protection != Protection::MinAlways && !node.config.tiered {
        return nothing(&why::POD_POLICY_NONE);
    }
    if request <= 0 {
        return nothing(&why::POD_NO_REQUEST);
    }
    let value = Limit::number(request);
    match (rules.protection, qos) {
        (Protection::MinAlways, _) => (Decision::write(value, &why::POD_MIN_ALPHA), Decision::nothing(&why::NO_LOW_ALPHA)),
        (_, QosClass::Guaranteed) => (Decision::write(value, &why::POD_MIN), Decision::nothing(&why::LOW_OF_GUARANTEED)),
        // A BestEffort pod gets here by its overhead.
        _ => (Decision::nothing(&why::MIN_OF_BURSTABLE), Decision::write(value, &why::POD_LOW)),
    }
}

/// `ApplyPodLevelMemoryHigh`.
fn high(node: &Node, rules: &Rules, pod_level: bool, pod: &Pod, level_memory_limit: i64) -> Decision {
    if !rules.pod_high {
        return Decision::nothing(&why::POD_HIGH_UNKNOWN);
    }
    if !node.config.gates.memory_qos {
        return Decision::nothing(&why::GATE_OFF);
    }
    let Some(factor) = node.config.factor else {
        return Decision::nothing(&why::NO_FACTOR);
    };
    if !pod_level {
        return Decision::nothing(&why::POD_HIGH_NO_POD_LEVEL);
    }
    if level_memory_limit == 0 && !pod.containers().all(|c| c.resources.limits.has_memory()) {
        return Decision::nothing(&why::POD_HIGH_NOT_ALL_LIMITED);
    }
    let (request, limit) = (pod_requests(pod, true).memory_bytes(), pod_limits(pod, true).memory_bytes());
    if limit == 0 || request == limit {
        return Decision::nothing(&why::POD_HIGH_REQUEST_IS_LIMIT);
    }
    match throttle(request, limit, factor, node.facts.page_size) {
        high if high > 0 && high > request => Decision::write(Limit::number(high), &why::POD_HIGH),
        _ => Decision::nothing(&why::HIGH_BELOW_REQUEST),
    }
}

/// `remainingPodMemReqPerContainer`: what the pod level requests beyond its containers, divided among them.
fn extra_request(rules: &Rules, pod: &Pod) -> i64 {
    let Some(level) = pod.spec.resources.as_ref().filter(|l| l.requests.has_pod_level_resource()) else { return 0 };
    let request = level.requests.memory.unwrap_or_default();
    if request.is_zero() {
        return 0;
    }
    let containers = pod.spec.containers.len() + pod.spec.init_containers.len();
    let claimed = requests_of_containers(pod).memory_bytes();
    let unclaimed = request.ceil() - claimed;
    let unclaimed = if rules.unclaimed_not_negative { unclaimed.max(0) } else { unclaimed };
    if containers == 0 { 0 } else { unclaimed / containers as i64 }
}
