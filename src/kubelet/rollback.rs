//! What stays behind: the memory files of a node as they stand after restarts, resizes and policy changes.
//!
//! The kubelet writes the cgroups above the pods when it starts, a pod's cgroup when it creates it, and a container's when it starts
//! or is resized. Everything else keeps its last value, which is why a rollback is not done when the configuration is.

use super::container_policy::ContainerPolicy;
use super::names::{container_cgroup, container_id};
use super::node::Node;
use super::pod::{Pod, QosClass};
use super::pod_policy::PodPolicy;
use super::refusal::Refusal;
use super::resize::{PodReadBack, ResizeStep, resize};
use super::tiers::{QosSums, Target, TierWrite, periodic_writes, startup_writes};
use super::value::{Decision, Limit};
use std::collections::BTreeMap;

/// The memory files of one cgroup that somebody has written; the others hold the kernel's defaults.
pub type CgroupFiles = BTreeMap<&'static str, Limit>;

/// A value that is not what the configuration in effect would give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// The cgroup's path.
    pub cgroup: String,
    /// The file's name.
    pub file: &'static str,
    /// What it holds; None is the kernel's default.
    pub holds: Option<Limit>,
    /// What a cgroup made under the configuration in effect would hold.
    pub would_hold: Option<Limit>,
    /// What ends it.
    pub until: StaleUntil,
}

/// What makes a stale value go away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StaleUntil {
    /// The container starts again: it gets a new cgroup.
    ContainerRestarts,
    /// The pod is deleted and made again.
    PodIsRecreated,
    /// Nobody but an administrator: no start of this kubelet writes the file.
    WrittenByHand,
}

/// The memory files of a node below kubepods, and of the reserved cgroups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeFiles {
    cgroups: BTreeMap<String, CgroupFiles>,
}

impl NodeFiles {
    /// A node on which the kubelet has started for the first time and these pods run. Pods have the API's defaults set and a uid.
    pub fn new(node: &Node, pods: &[Pod]) -> Self {
        let mut files = NodeFiles::default();
        files.restart_kubelet(node, pods);
        pods.iter().for_each(|pod| files.recreate_pod(node, pod));
        files
    }

    /// The files by cgroup path.
    pub fn cgroups(&self) -> &BTreeMap<String, CgroupFiles> {
        &self.cgroups
    }

    /// The kubelet starts with the configuration of `node` while these pods run: the cgroups above them are written, they are not.
    pub fn restart_kubelet(&mut self, node: &Node, pods: &[Pod]) {
        let policies: Vec<PodPolicy> = pods.iter().map(|pod| PodPolicy::of(node, pod)).collect();
        let sums = QosSums::of(&policies);
        for write in startup_writes(node).into_iter().chain(periodic_writes(node, &sums)) {
            self.write_tier(node, &write);
        }
    }

    /// The pod's cgroup and those of its containers are made anew, for example because a Deployment replaced the pod.
    pub fn recreate_pod(&mut self, node: &Node, pod: &Pod) {
        let policy = PodPolicy::of(node, pod);
        self.cgroups.insert(pod_path(node, pod, &policy), pod_files(&policy));
        pod.containers().for_each(|container| self.restart_container(node, pod, &container.name));
    }

    /// A container starts again: a new cgroup below the same pod.
    pub fn restart_container(&mut self, node: &Node, pod: &Pod, name: &str) {
        let policy = PodPolicy::of(node, pod);
        if let Some(container) = pod.containers().find(|c| c.name == name) {
            let values = ContainerPolicy::of(node, pod, &policy, container);
            self.cgroups.insert(container_path(node, pod, &policy, name), container_files(&values));
        }
    }

    /// A pod is resized in place.
    ///
    /// # Errors
    /// The resize is infeasible ([`resize`]).
    pub fn resize(&mut self, node: &Node, old: &Pod, new: &Pod) -> Result<Vec<ResizeStep>, Refusal> {
        let policy = PodPolicy::of(node, new);
        let path = pod_path(node, new, &policy);
        let mut current = PodReadBack::of(node, &PodPolicy::of(node, old));
        current.memory_max = match self.cgroups.get(&path).and_then(|files| files.get("memory.max")) {
            Some(Limit::Number(bytes)) => (bytes - bytes % node.facts.page_size) as i64,
            _ => -1,
        };
        let steps = resize(node, old, new, &current)?;
        for step in &steps {
            match step {
                ResizeStep::NotifySandbox(_) => {}
                ResizeStep::PodCgroup(write) => {
                    let files = self.cgroups.entry(path.clone()).or_default();
                    if let Some(max) = write.memory_max {
                        files.insert("memory.max", u64::try_from(max).map_or(Limit::Max, Limit::Number));
                    }
                    files.extend(write.unified.iter().copied());
                }
                ResizeStep::Container { name, policy: values } => {
                    let written = container_files(values);
                    self.cgroups.entry(container_path(node, new, &policy, name)).or_default().extend(written);
                }
                ResizeStep::Restart { name } => self.restart_container(node, new, name),
            }
        }
        Ok(steps)
    }

    /// What does not agree with the configuration of `node`, cgroup by cgroup.
    pub fn stale(&self, node: &Node, pods: &[Pod]) -> Vec<Stale> {
        let fresh = NodeFiles::new(node, pods);
        let mut found = Vec::new();
        for (cgroup, files) in &self.cgroups {
            let empty = CgroupFiles::new();
            let wanted = fresh.cgroups.get(cgroup).unwrap_or(&empty);
            let until = match cgroup.rsplit('/').next().unwrap_or_default() {
                _ if !cgroup.starts_with(node.hierarchy.kubepods()) => StaleUntil::WrittenByHand,
                last if last.starts_with("pod") || last.contains("-pod") => StaleUntil::PodIsRecreated,
                _ if self.is_tier(node, cgroup) => StaleUntil::WrittenByHand,
                _ => StaleUntil::ContainerRestarts,
            };
            for file in ["memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max", "memory.oom.group"] {
                let (holds, would_hold) = (files.get(file).copied(), wanted.get(file).copied());
                if effect(file, holds) != effect(file, would_hold) {
                    found.push(Stale { cgroup: cgroup.clone(), file, holds, would_hold, until });
                }
            }
        }
        found
    }

    fn is_tier(&self, node: &Node, cgroup: &str) -> bool {
        [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort].iter().any(|class| node.hierarchy.qos(*class) == cgroup)
    }

    fn write_tier(&mut self, node: &Node, write: &TierWrite) {
        let path = match write.target {
            Target::Kubepods => node.hierarchy.kubepods().to_owned(),
            Target::Burstable => node.hierarchy.qos(QosClass::Burstable).to_owned(),
            Target::BestEffort => node.hierarchy.qos(QosClass::BestEffort).to_owned(),
            Target::SystemReserved => node.hierarchy.named(&node.config.system_reserved_cgroup),
            Target::KubeReserved => node.hierarchy.named(&node.config.kube_reserved_cgroup),
        };
        let files = self.cgroups.entry(path).or_default();
        files.extend(write.files.iter().map(|(file, value, _)| (file.name(), *value)));
    }
}

/// What a file's value does, with the kernel's default where nobody wrote: 0 for protection, "max" for limits.
fn effect(file: &str, value: Option<Limit>) -> Limit {
    value.unwrap_or(match file {
        "memory.min" | "memory.low" | "memory.oom.group" => Limit::Number(0),
        _ => Limit::Max,
    })
}

fn pod_path(node: &Node, pod: &Pod, policy: &PodPolicy) -> String {
    node.hierarchy.pod(policy.qos, &pod.metadata.uid)
}

fn container_path(node: &Node, pod: &Pod, policy: &PodPolicy, name: &str) -> String {
    let id = container_id(&pod.metadata.uid, name, 0);
    container_cgroup(node.hierarchy.driver(), &pod_path(node, pod, policy), &id)
}

fn written(files: &[(&'static str, Decision)]) -> CgroupFiles {
    files.iter().filter_map(|(file, decision)| Some((*file, decision.value?))).collect()
}

fn pod_files(policy: &PodPolicy) -> CgroupFiles {
    written(&[("memory.max", policy.max), ("memory.min", policy.min), ("memory.low", policy.low), ("memory.high", policy.high)])
}

fn container_files(values: &ContainerPolicy) -> CgroupFiles {
    written(&[
        ("memory.max", values.max),
        ("memory.min", values.min),
        ("memory.low", values.low),
        ("memory.high", values.high),
        ("memory.swap.max", values.swap_max),
        ("memory.oom.group", values.oom_group),
    ])
}
