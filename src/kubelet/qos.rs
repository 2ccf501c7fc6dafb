//! The QoS class of a pod.

use super::gates::Gates;
use super::pod::{Pod, QosClass};
use super::resources::Resources;
use crate::units::Quantity;

/// The class the kubelet works with (`GetPodQOS`): the one in the status, else computed.
pub fn qos_class(pod: &Pod, gates: &Gates) -> QosClass {
    pod.status.qos_class.unwrap_or_else(|| compute_qos_class(pod, gates))
}

/// `ComputePodQOS`: by the pod level alone where it is present, else by containers and init containers.
///
/// An empty `resources: {}` at the pod level makes a pod BestEffort until PodLevelResourcesFixKubeletQOSClass (1.37).
pub fn compute_qos_class(pod: &Pod, gates: &Gates) -> QosClass {
    if let Some(level) = pod.spec.resources.as_ref().filter(|_| gates.pod_level_resources)
        && (!gates.fix_qos_class || level.requests.has_pod_level_resource() || level.limits.has_pod_level_resource())
    {
        return class_of(level);
    }
    let mut classes = pod.containers().map(|c| class_of(&c.resources));
    let Some(first) = classes.next() else { return QosClass::BestEffort };
    if classes.all(|class| class == first) { first } else { QosClass::Burstable }
}

fn class_of(resources: &Resources) -> QosClass {
    let class = |request: Option<Quantity>, limit: Option<Quantity>| {
        let (request, limit) = (request.unwrap_or_default(), limit.unwrap_or_default());
        match (request == limit, request.is_zero()) {
            (false, _) => QosClass::Burstable,
            (true, true) => QosClass::BestEffort,
            (true, false) => QosClass::Guaranteed,
        }
    };
    let cpu = class(resources.requests.cpu, resources.limits.cpu);
    let memory = class(resources.requests.memory, resources.limits.memory);
    if cpu == memory { cpu } else { QosClass::Burstable }
}
