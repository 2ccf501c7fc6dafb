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
use super::tiers::{QosSums, TierWrite, periodic_writes, startup_writes};
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
    /// The next update of the QoS cgroups, at most a minute away.
    NextUpdate,
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
        startup_writes(node).iter().for_each(|write| self.write_tier(node, write));
        self.update_tiers(node, pods);
    }

    /// The periodic update of the QoS cgroups, which also comes before a pod's creation and after its end.
    pub fn update_tiers(&mut self, node: &Node, pods: &[Pod]) {
        updates(node, pods).iter().for_each(|write| self.write_tier(node, write));
    }

    /// The pod's cgroup and those of its containers are made anew, for example because a Deployment replaced the pod.
    pub fn recreate_pod(&mut self, node: &Node, pod: &Pod) {
        let policy = PodPolicy::of(node, pod);
        self.cgroups.insert(pod_path(node, pod, &policy), pod_files(&policy));
        pod.containers().for_each(|container| self.restart_container(node, pod, &container.name));
    }

    /// The pod and its containers are gone, and their cgroups with them.
    pub fn remove_pod(&mut self, node: &Node, pod: &Pod) {
        let policy = PodPolicy::of(node, pod);
        let path = pod_path(node, pod, &policy);
        self.cgroups.retain(|cgroup, _| *cgroup != path && !cgroup.starts_with(&format!("{path}/")));
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
        let mut updated = NodeFiles::default();
        updated.update_tiers(node, pods);
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
                let effect = |value: Option<Limit>| value.unwrap_or(kernel_default(file));
                if effect(holds) != effect(would_hold) {
                    let updated = updated.cgroups.get(cgroup).is_some_and(|files| files.contains_key(file));
                    let until = if updated { StaleUntil::NextUpdate } else { until };
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
        let files = self.cgroups.entry(node.target_path(write.target)).or_default();
        files.extend(write.files.iter().map(|(file, value, _)| (file.name(), *value)));
    }
}

fn updates(node: &Node, pods: &[Pod]) -> Vec<TierWrite> {
    let policies: Vec<PodPolicy> = pods.iter().map(|pod| PodPolicy::of(node, pod)).collect();
    periodic_writes(node, &QosSums::of(&policies))
}

/// What a memory file of a new cgroup holds: 0 for protection, "max" for limits.
pub fn kernel_default(file: &str) -> Limit {
    match file {
        "memory.min" | "memory.low" | "memory.oom.group" => Limit::Number(0),
        _ => Limit::Max,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::{Effective, KubeletConfiguration, NodeFacts, Version};

    fn node(version: Version, config: &str) -> Node {
        let config: KubeletConfiguration = serde_json::from_str(config).unwrap();
        Node::new(Effective::resolve(version, &config).unwrap(), NodeFacts::new(16 << 30, 0))
    }

    fn pod(node: &Node, resources: &str) -> Pod {
        let text = format!(
            r#"{{"metadata":{{"name":"p","uid":"u"}},"spec":{{"containers":[{{"name":"c","resources":{resources}}}]}}}}"#
        );
        let mut pod: Pod = serde_json::from_str(&text).unwrap();
        pod.set_defaults(&node.config.gates);
        pod
    }

    const BURSTABLE: &str = r#"{"requests":{"memory":"128Mi"},"limits":{"memory":"256Mi"}}"#;
    const BOTH: &str = r#"{"memoryThrottlingFactor":0.9,"memoryReservationPolicy":"TieredReservation"}"#;
    const OFF: &str = r#"{"featureGates":{"MemoryQoS":false}}"#;

    fn stale(files: &NodeFiles, node: &Node, pods: &[Pod]) -> Vec<(&'static str, StaleUntil)> {
        files.stale(node, pods).into_iter().map(|stale| (stale.file, stale.until)).collect()
    }

    #[test]
    fn gate_off_in_1_37_clears_the_tiers_but_not_the_pods() {
        let before = node(Version::V1_37, BOTH);
        let pods = [pod(&before, BURSTABLE)];
        let mut files = NodeFiles::new(&before, &pods);
        assert_eq!(stale(&files, &before, &pods), []);
        let after = node(Version::V1_37, OFF);
        files.restart_kubelet(&after, &pods);
        let tier = |name: &str| files.cgroups()[name].clone();
        assert_eq!(tier("/kubepods.slice")["memory.low"], Limit::Number(0));
        assert_eq!(tier("/kubepods.slice/kubepods-burstable.slice")["memory.low"], Limit::Number(0));
        let left = stale(&files, &after, &pods);
        assert_eq!(
            left,
            [
                ("memory.low", StaleUntil::PodIsRecreated),
                ("memory.low", StaleUntil::ContainerRestarts),
                ("memory.high", StaleUntil::ContainerRestarts),
            ]
        );
        files.restart_container(&after, &pods[0], "c");
        assert_eq!(stale(&files, &after, &pods), [("memory.low", StaleUntil::PodIsRecreated)]);
        files.recreate_pod(&after, &pods[0]);
        assert_eq!(stale(&files, &after, &pods), []);
    }

    #[test]
    fn gate_off_before_1_36_leaves_the_tiers_as_they_were() {
        let before = node(Version::V1_35, r#"{"featureGates":{"MemoryQoS":true}}"#);
        let pods = [pod(&before, BURSTABLE)];
        let mut files = NodeFiles::new(&before, &pods);
        let after = node(Version::V1_35, OFF);
        files.restart_kubelet(&after, &pods);
        assert!(stale(&files, &after, &pods).contains(&("memory.min", StaleUntil::WrittenByHand)));
        assert_eq!(files.cgroups()["/kubepods.slice"]["memory.min"], Limit::Number(128 << 20));
    }

    #[test]
    fn an_upgrade_from_1_35_leaves_memory_min_of_burstable() {
        let before = node(Version::V1_35, r#"{"featureGates":{"MemoryQoS":true}}"#);
        let pods = [pod(&before, BURSTABLE)];
        let mut files = NodeFiles::new(&before, &pods);
        let after = node(Version::V1_37, "{}");
        files.restart_kubelet(&after, &pods);
        assert_eq!(files.cgroups()["/kubepods.slice"]["memory.min"], Limit::Number(0));
        assert_eq!(files.cgroups()["/kubepods.slice/kubepods-burstable.slice"]["memory.min"], Limit::Number(128 << 20));
    }

    #[test]
    fn a_resize_with_the_gate_off_clears_the_containers_high_but_not_its_low() {
        let before = node(Version::V1_37, BOTH);
        let old = pod(&before, BURSTABLE);
        let mut files = NodeFiles::new(&before, std::slice::from_ref(&old));
        let after = node(Version::V1_37, OFF);
        let new = pod(&after, r#"{"requests":{"memory":"192Mi"},"limits":{"memory":"384Mi"}}"#);
        files.restart_kubelet(&after, std::slice::from_ref(&new));
        files.resize(&after, &old, &new).unwrap();
        let pods = [new];
        files.update_tiers(&after, &pods);
        let left = stale(&files, &after, &pods);
        assert_eq!(left, [("memory.low", StaleUntil::PodIsRecreated), ("memory.low", StaleUntil::ContainerRestarts)]);
    }

    #[test]
    fn a_resize_to_request_equal_limit_keeps_the_old_high() {
        let node = node(Version::V1_37, BOTH);
        let old = pod(&node, BURSTABLE);
        let mut files = NodeFiles::new(&node, std::slice::from_ref(&old));
        let new = pod(&node, r#"{"requests":{"memory":"256Mi"},"limits":{"memory":"256Mi"}}"#);
        files.resize(&node, &old, &new).unwrap();
        // The pod stays Burstable, since it has no CPU: its own memory.low is not rewritten either, for the limit did not change.
        let pods = [new];
        let tiers = stale(&files, &node, &pods).into_iter().filter(|stale| stale.1 == StaleUntil::NextUpdate).count();
        assert_eq!(tiers, 3, "memory.min and low of kubepods and low of burstable follow within a minute");
        files.update_tiers(&node, &pods);
        assert_eq!(
            stale(&files, &node, &pods),
            [("memory.low", StaleUntil::PodIsRecreated), ("memory.high", StaleUntil::ContainerRestarts)]
        );
    }

    #[test]
    fn swap_refuses_a_resize_of_the_request() {
        let swap = r#"{"memorySwap":{"swapBehavior":"LimitedSwap"}}"#;
        let config: KubeletConfiguration = serde_json::from_str(swap).unwrap();
        let node = Node::new(Effective::resolve(Version::V1_37, &config).unwrap(), NodeFacts::new(16 << 30, 4 << 30));
        let old = pod(&node, BURSTABLE);
        let mut files = NodeFiles::new(&node, std::slice::from_ref(&old));
        let new = pod(&node, r#"{"requests":{"memory":"192Mi"},"limits":{"memory":"256Mi"}}"#);
        let refusal = files.resize(&node, &old, &new).unwrap_err();
        assert_eq!(refusal.to_string(), "In-place resize of containers with swap is not supported.");
    }
}
