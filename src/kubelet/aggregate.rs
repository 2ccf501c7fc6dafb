//! Sums over a pod's containers: what the pod as a whole requests and may use.

use super::pod::Pod;
use super::resources::ResourceList;
use crate::units::Quantity;

/// Memory and cpu of a pod, exact; absent is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PodAmount {
    /// Cores.
    pub cpu: Option<Quantity>,
    /// Bytes.
    pub memory: Option<Quantity>,
}

impl PodAmount {
    fn of(list: &ResourceList) -> Self {
        PodAmount { cpu: list.cpu, memory: list.memory }
    }

    fn plus(self, other: PodAmount) -> Self {
        let add = |a: Option<Quantity>, b: Option<Quantity>| match (a, b) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        PodAmount { cpu: add(self.cpu, other.cpu), memory: add(self.memory, other.memory) }
    }

    fn max(self, other: PodAmount) -> Self {
        PodAmount { cpu: self.cpu.max(other.cpu), memory: self.memory.max(other.memory) }
    }

    fn replaced_by(self, list: &ResourceList) -> Self {
        PodAmount { cpu: list.cpu.or(self.cpu), memory: list.memory.or(self.memory) }
    }

    /// Memory in whole bytes, rounded up once; 0 when absent.
    pub fn memory_bytes(self) -> i64 {
        self.memory.map_or(0, Quantity::ceil)
    }

    /// CPU in thousandths of a core, rounded up once; 0 when absent.
    pub fn cpu_millis(self) -> i64 {
        self.cpu.map_or(0, Quantity::milli_ceil)
    }
}

/// `aggregateContainerResourcesByFn`: containers and sidecars together, but no less than what any init container needs in its turn.
fn aggregate(pod: &Pod, list: impl Fn(&super::resources::Resources) -> &ResourceList) -> PodAmount {
    let mut sum = pod.spec.containers.iter().fold(PodAmount::default(), |sum, c| sum.plus(PodAmount::of(list(&c.resources))));
    let (mut sidecars, mut initial) = (PodAmount::default(), PodAmount::default());
    for container in &pod.spec.init_containers {
        let own = PodAmount::of(list(&container.resources));
        if container.is_restartable() {
            sum = sum.plus(own);
            sidecars = sidecars.plus(own);
            initial = initial.max(sidecars);
        } else {
            initial = initial.max(own.plus(sidecars));
        }
    }
    sum.max(initial)
}

/// `AggregateContainerRequests`.
pub fn requests_of_containers(pod: &Pod) -> PodAmount {
    aggregate(pod, |r| &r.requests)
}

/// `AggregateContainerLimits`.
pub fn limits_of_containers(pod: &Pod) -> PodAmount {
    aggregate(pod, |r| &r.limits)
}

/// `PodRequests`: the pod level replaces what the containers add up to, by presence; then the overhead.
pub fn pod_requests(pod: &Pod, pod_level: bool) -> PodAmount {
    let mut amount = requests_of_containers(pod);
    if let Some(level) = pod.spec.resources.as_ref().filter(|_| pod_level) {
        amount = amount.replaced_by(&level.requests);
    }
    amount.plus(PodAmount::of(&pod.spec.overhead))
}

/// `PodLimits`: like requests, but the overhead is added only to limits that exist and are not zero.
pub fn pod_limits(pod: &Pod, pod_level: bool) -> PodAmount {
    let mut amount = limits_of_containers(pod);
    if let Some(level) = pod.spec.resources.as_ref().filter(|_| pod_level) {
        amount = amount.replaced_by(&level.limits);
    }
    let add = |limit: Option<Quantity>, overhead: Option<Quantity>| match (limit, overhead) {
        (Some(limit), Some(overhead)) if !limit.is_zero() => Some(limit + overhead),
        (limit, _) => limit,
    };
    PodAmount { cpu: add(amount.cpu, pod.spec.overhead.cpu), memory: add(amount.memory, pod.spec.overhead.memory) }
}

/// Which limits count as declared for the whole pod: (cpu, memory).
///
/// To 1.36 an init container is asked for its own limit plus those of the sidecars before it (`ContainerFn` of `PodLimits`), so one
/// without a limit counts when a sidecar with a limit stands before it. From 1.37 each container is asked for its own.
pub fn limits_declared(pod: &Pod, cumulative: bool) -> (bool, bool) {
    let (mut cpu, mut memory) = (true, true);
    let (mut sidecar_cpu, mut sidecar_memory) = (false, false);
    for container in &pod.spec.init_containers {
        let limits = &container.resources.limits;
        let before = (cumulative && sidecar_cpu, cumulative && sidecar_memory);
        cpu &= limits.has_cpu() || before.0;
        memory &= limits.has_memory() || before.1;
        if container.is_restartable() {
            sidecar_cpu |= limits.has_cpu();
            sidecar_memory |= limits.has_memory();
        }
    }
    for container in &pod.spec.containers {
        cpu &= container.resources.limits.has_cpu();
        memory &= container.resources.limits.has_memory();
    }
    (cpu, memory)
}
