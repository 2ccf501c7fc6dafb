//! In-place resize of a running pod (KEP-1287): what is written, in which order, and what is refused.

use super::container::Container;
use super::container_policy::ContainerPolicy;
use super::cpu::{kubelet_weight, shares};
use super::node::Node;
use super::pod::Pod;
use super::pod_policy::PodPolicy;
use super::refusal::{Refusal, Stage};
use super::resources::{ResourceList, Resources};
use super::value::{Decision, Limit};
use super::version::Protection;
use crate::units::{Format, Quantity, floor_to_page};

/// One step of a resize, in the kubelet's order.
#[derive(Debug, Clone, PartialEq)]
pub enum ResizeStep {
    /// The runtime is told about the pod as a whole (`UpdatePodSandboxResources`); it writes nothing.
    NotifySandbox(PodWrite),
    /// The pod's cgroup is written.
    PodCgroup(PodWrite),
    /// The runtime writes a container's cgroup.
    Container {
        /// The container's name.
        name: String,
        /// What it is told. A file without a value keeps what it has.
        policy: Box<ContainerPolicy>,
    },
    /// The container is killed and started anew, since its resizePolicy says so.
    Restart {
        /// The container's name.
        name: String,
    },
}

/// What is said about a pod's cgroup; absent is not written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodWrite {
    /// memory.max in bytes; None where nothing is written. Negative means no limit.
    pub memory_max: Option<i64>,
    /// memory.min, memory.low, memory.high.
    pub unified: Vec<(&'static str, Limit)>,
    /// CPU shares.
    pub cpu_shares: Option<u64>,
    /// CPU quota in microseconds per period; -1 for none.
    pub cpu_quota: Option<i64>,
    /// The period that goes with it.
    pub cpu_period: Option<u64>,
}

/// What the kubelet reads back from a pod's cgroup before it resizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodReadBack {
    /// memory.max in bytes, -1 for "max".
    pub memory_max: i64,
    /// The quota of cpu.max, -1 for "max".
    pub cpu_quota: i64,
    /// cpu.weight turned back into shares, which loses precision (`cpuWeightToCPUShares`).
    pub cpu_shares: u64,
}

impl PodReadBack {
    /// What a kernel gives back for a pod that was created with this policy.
    pub fn of(node: &Node, policy: &PodPolicy) -> Self {
        PodReadBack {
            memory_max: match policy.max.value {
                Some(Limit::Number(bytes)) => floor_to_page(bytes, node.facts.page_size) as i64,
                _ => -1,
            },
            cpu_quota: policy.cpu.map_or(-1, |cpu| if cpu.quota_us > 0 { cpu.quota_us } else { -1 }),
            cpu_shares: (kubelet_weight(policy.cpu_shares) - 1) * 262_142 / 9999 + 2,
        }
    }
}

/// The steps of a resize from one spec to another, both with the API's defaults set (`computePodResizeAction`, `doPodResizeAction`).
///
/// # Errors
/// The resize is infeasible: the gate is off, the pod is static, or a container with swap changes its memory request.
pub fn resize(node: &Node, old: &Pod, new: &Pod, current: &PodReadBack) -> Result<Vec<ResizeStep>, Refusal> {
    check(node, old, new)?;
    Ok(resize_unchecked(node, old, new, current))
}

/// The steps of a resize that has been admitted, whatever admission would say today.
pub fn resize_unchecked(node: &Node, old: &Pod, new: &Pod, current: &PodReadBack) -> Vec<ResizeStep> {
    let policy = PodPolicy::of(node, new);
    let mut plan = changes(node, old, new);
    let mut steps: Vec<ResizeStep> = plan.restart.iter().map(|name| ResizeStep::Restart { name: name.clone() }).collect();
    let pod_changes = !plan.restart.is_empty() || plan.pod_level;
    let unified = pod_unified(node, &policy);
    let mut told = PodWrite {
        memory_max: Some(current.memory_max),
        unified: unified.clone(),
        cpu_shares: Some(current.cpu_shares),
        cpu_quota: Some(current.cpu_quota),
        cpu_period: Some(super::cpu::PERIOD_US),
    };
    if !plan.memory.is_empty() || pod_changes {
        let wanted = match policy.max.value {
            Some(Limit::Number(bytes)) => bytes as i64,
            _ => current.memory_max,
        };
        let write = PodWrite { memory_max: Some(wanted), unified, ..PodWrite::default() };
        if wanted > current.memory_max {
            pod_step(&mut steps, &mut told, &write, new);
        }
        for index in std::mem::take(&mut plan.memory) {
            let change = &mut plan.containers[index];
            let (cpu, memory) = (change.current, change.desired);
            steps.push(container_step(node, new, &policy, &change.name, cpu, memory));
            (change.current.memory_limit, change.current.memory_request) = (memory.memory_limit, memory.memory_request);
        }
        if wanted < current.memory_max {
            pod_step(&mut steps, &mut told, &write, new);
        }
    }
    if !plan.cpu.is_empty() || pod_changes {
        let quota = policy.cpu.map_or(current.cpu_quota, |cpu| cpu.quota_us);
        let limit =
            PodWrite { cpu_quota: Some(quota), cpu_period: policy.cpu.map(|_| super::cpu::PERIOD_US), ..PodWrite::default() };
        let request = PodWrite { cpu_shares: Some(policy.cpu_shares), ..PodWrite::default() };
        if quota > current.cpu_quota {
            pod_step(&mut steps, &mut told, &limit, new);
        }
        if policy.cpu_shares > current.cpu_shares {
            pod_step(&mut steps, &mut told, &request, new);
        }
        for index in std::mem::take(&mut plan.cpu) {
            let change = &plan.containers[index];
            steps.push(container_step(node, new, &policy, &change.name, change.desired, change.current));
        }
        if policy.cpu_shares < current.cpu_shares {
            pod_step(&mut steps, &mut told, &request, new);
        }
        if quota < current.cpu_quota {
            pod_step(&mut steps, &mut told, &limit, new);
        }
    }
    steps
}

/// memory.min, low and high of the pod's cgroup: only from 1.37 does a resize write them.
fn pod_unified(node: &Node, policy: &PodPolicy) -> Vec<(&'static str, Limit)> {
    if node.config.rules().protection != Protection::AtStart {
        return Vec::new();
    }
    let files = [("memory.min", policy.min), ("memory.low", policy.low), ("memory.high", policy.high)];
    files.into_iter().filter_map(|(name, decision): (_, Decision)| Some((name, decision.value?))).collect()
}

/// The runtime first, then the cgroup. The runtime's figures are without overhead (`subtractOverheadFromResourceConfig`).
fn pod_step(steps: &mut Vec<ResizeStep>, told: &mut PodWrite, write: &PodWrite, pod: &Pod) {
    told.memory_max = write.memory_max.or(told.memory_max);
    told.cpu_shares = write.cpu_shares.or(told.cpu_shares);
    told.cpu_quota = write.cpu_quota.or(told.cpu_quota);
    let mut without_overhead = told.clone();
    let overhead = &pod.spec.overhead;
    if let Some(memory) = overhead.memory {
        without_overhead.memory_max = told.memory_max.map(|max| max - memory.ceil());
    }
    if overhead.cpu.is_some() {
        let cpu = overhead.cpu_millis();
        without_overhead.cpu_quota = told.cpu_quota.map(|quota| quota - super::cpu::quota_us(cpu));
        without_overhead.cpu_shares = told.cpu_shares.map(|s| shares((s as i64 * 1000 + 1023) / 1024 - cpu));
    }
    steps.push(ResizeStep::NotifySandbox(without_overhead));
    steps.push(ResizeStep::PodCgroup(write.clone()));
}

fn container_step(node: &Node, pod: &Pod, policy: &PodPolicy, name: &str, cpu: Amounts, memory: Amounts) -> ResizeStep {
    let spec = pod.containers().find(|c| c.name == name).cloned().unwrap_or_default();
    let list = |cpu, memory| ResourceList {
        cpu: Some(Quantity::thousandths(cpu)),
        memory: Some(Quantity::new(memory, Format::Binary)),
        other: Vec::new(),
    };
    let resources =
        Resources { requests: list(cpu.cpu_request, memory.memory_request), limits: list(cpu.cpu_limit, memory.memory_limit) };
    let container = Container { resources, ..spec };
    let values = ContainerPolicy::of(node, pod, policy, &container);
    ResizeStep::Container { name: name.to_owned(), policy: Box::new(values) }
}

/// What a container is compared by (`containerResourcesFromRequirements`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Amounts {
    cpu_request: i64,
    cpu_limit: i64,
    memory_request: i64,
    memory_limit: i64,
}

impl Amounts {
    /// From 1.36 the pod level's limits stand in where a container has none.
    fn of(node: &Node, pod: &Pod, container: &Container) -> Self {
        let (requests, limits) = (&container.resources.requests, &container.resources.limits);
        let level = pod.spec.resources.as_ref().filter(|_| node.config.gates.in_place_pod_level);
        let or_level = |own: i64, level: Option<i64>| if own == 0 { level.unwrap_or(0) } else { own };
        Amounts {
            cpu_request: requests.cpu_millis(),
            cpu_limit: or_level(limits.cpu_millis(), level.map(|l| l.limits.cpu_millis())),
            memory_request: requests.memory_bytes(),
            memory_limit: or_level(limits.memory_bytes(), level.map(|l| l.limits.memory_bytes())),
        }
    }
}

struct Change {
    name: String,
    current: Amounts,
    desired: Amounts,
}

#[derive(Default)]
struct Changes {
    containers: Vec<Change>,
    /// Indices of containers whose memory changes: decreases first, the last found at the front; then increases.
    memory: Vec<usize>,
    cpu: Vec<usize>,
    restart: Vec<String>,
    pod_level: bool,
}

fn changes(node: &Node, old: &Pod, new: &Pod) -> Changes {
    let mut found = Changes::default();
    for container in new.lasting() {
        let Some(before) = old.containers().find(|c| c.name == container.name) else { continue };
        let (current, desired) = (Amounts::of(node, old, before), Amounts::of(node, new, container));
        let restarts = |resource: &str| {
            let policy = container.resize_policy.iter().find(|policy| policy.resource_name == resource);
            policy.is_some_and(|policy| policy.restart_policy == "RestartContainer")
        };
        let memory =
            first_change(&[(current.memory_limit, desired.memory_limit), (current.memory_request, desired.memory_request)]);
        let cpu = first_change(&[(current.cpu_limit, desired.cpu_limit), (current.cpu_request, desired.cpu_request)]);
        if (memory.is_some() && restarts("memory")) || (cpu.is_some() && restarts("cpu")) {
            found.restart.push(container.name.clone());
            continue;
        }
        let index = found.containers.len();
        let lists = [(memory, &mut found.memory), (cpu, &mut found.cpu)];
        for (change, list) in lists {
            match change {
                Some(grows) if grows => list.push(index),
                Some(_) => list.insert(0, index),
                None => {}
            }
        }
        found.containers.push(Change { name: container.name.clone(), current, desired });
    }
    let level = |pod: &Pod| {
        let empty = Resources::default();
        let level = pod.spec.resources.as_ref().unwrap_or(&empty);
        let (r, l) = (&level.requests, &level.limits);
        (r.cpu_millis(), r.memory_bytes(), l.cpu_millis(), l.memory_bytes())
    };
    found.pod_level = node.config.gates.in_place_pod_level && level(old) != level(new);
    found
}

/// Whether the first pair that differs grows.
fn first_change(pairs: &[(i64, i64)]) -> Option<bool> {
    pairs.iter().find(|(from, to)| from != to).map(|(from, to)| to > from)
}

fn check(node: &Node, old: &Pod, new: &Pod) -> Result<(), Refusal> {
    let refuse = |message: &str| Err(Refusal::new(Stage::Pod, message));
    if !node.config.gates.in_place {
        return refuse("InPlacePodVerticalScaling is disabled");
    }
    if new.is_static() {
        return refuse("static pods cannot be resized");
    }
    // `disallowResizeForSwappableContainers`.
    let (before, after) = (PodPolicy::of(node, old), PodPolicy::of(node, new));
    for container in new.containers() {
        let Some(allocated) = old.containers().find(|c| c.name == container.name) else { continue };
        let request = |c: &Container| c.resources.requests.memory.unwrap_or_default();
        let restarts = allocated.resize_policy.iter().find(|policy| policy.resource_name == "memory");
        let restarts = restarts.is_some_and(|policy| policy.restart_policy == "RestartContainer");
        let swaps = |pod, policy, c| ContainerPolicy::of(node, pod, policy, c).limited_swap;
        if request(container) != request(allocated)
            && !restarts
            && (swaps(new, &after, container) || swaps(old, &before, allocated))
        {
            return refuse("In-place resize of containers with swap is not supported.");
        }
    }
    if !node.config.gates.in_place_pod_level && old.spec.resources != new.spec.resources {
        return refuse("InPlacePodLevelResourcesVerticalScaling is disabled");
    }
    Ok(())
}
