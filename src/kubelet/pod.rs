//! The v1 Pod: the fields that decide about memory and those a lab honours.

use super::container::Container;
use super::names::container_id;
use super::refusal::{Refusal, Stage};
use super::resources::{ResourceList, Resources};
use crate::units::Quantity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A v1 Pod. Fields that are not listed here are read over; [`super::ignored_fields`] names them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// "v1".
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// "Pod".
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Names and annotations.
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: PodSpec,
    /// What the API server has already decided.
    #[serde(skip_serializing_if = "PodStatus::is_empty")]
    pub status: PodStatus,
}

/// metadata.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// The object's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The start of a generated name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    /// Its namespace; empty means default.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The uid; part of the cgroup's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations; two of them make a pod static or a mirror.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// spec of a Pod.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Init containers and sidecars, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<Container>,
    /// Regular containers.
    pub containers: Vec<Container>,
    /// Ephemeral containers. They have no resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ephemeral_containers: Vec<Container>,
    /// Pod-level resources (KEP-2837). An empty block is not the same as none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// What the runtime needs beyond the containers (RuntimeClass).
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub overhead: ResourceList,
    /// Always, OnFailure or Never; Always when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    /// Seconds between SIGTERM and SIGKILL; 30 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// The resolved priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// The priority class's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub priority_class_name: String,
    /// Volumes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
    /// The node the pod is bound to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,
}

/// A volume: emptyDir or hostPath.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Its name in the pod.
    pub name: String,
    /// An empty directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty_dir: Option<EmptyDir>,
    /// A directory of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_path: Option<HostPath>,
}

/// emptyDir.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EmptyDir {
    /// "Memory" for a tmpfs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub medium: String,
    /// Bytes it may hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_limit: Option<Quantity>,
}

/// hostPath.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostPath {
    /// The path on the node.
    pub path: String,
    /// Its type, such as DirectoryOrCreate.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
}

/// status of a Pod, as far as the memory policy reads it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// The QoS class the API server computed; the kubelet believes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos_class: Option<QosClass>,
}

impl PodStatus {
    fn is_empty(&self) -> bool {
        self.qos_class.is_none()
    }
}

/// A pod's quality-of-service class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum QosClass {
    /// Requests equal limits in every container.
    Guaranteed,
    /// Neither of the others.
    Burstable,
    /// No requests and no limits.
    BestEffort,
}

impl QosClass {
    /// As Kubernetes writes it.
    pub const fn name(self) -> &'static str {
        match self {
            QosClass::Guaranteed => "Guaranteed",
            QosClass::Burstable => "Burstable",
            QosClass::BestEffort => "BestEffort",
        }
    }
}

/// The lowest priority of a critical pod (`scheduling.SystemCriticalPriority`).
const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;

impl Pod {
    /// Whether the pod comes from a manifest of the node: an annotation says a source other than the API (`IsStaticPod`).
    pub fn is_static(&self) -> bool {
        self.metadata.annotations.get("kubernetes.io/config.source").is_some_and(|source| source != "api")
    }

    /// Whether the kubelet never evicts it (`IsCriticalPod`): static, mirror, or of a system priority. The class's name plays no role.
    pub fn is_critical(&self) -> bool {
        self.is_static()
            || self.metadata.annotations.contains_key("kubernetes.io/config.mirror")
            || self.spec.priority.is_some_and(|p| p >= SYSTEM_CRITICAL_PRIORITY)
    }

    /// Whether it is critical and of the class system-node-critical (`IsNodeCriticalPod`).
    pub fn is_node_critical(&self) -> bool {
        self.is_critical() && self.spec.priority_class_name == "system-node-critical"
    }

    /// Gives a pod without a uid one that follows from its namespace and name. A real API server draws it at random.
    pub fn set_uid(&mut self) {
        if self.metadata.uid.is_empty() {
            let namespace = if self.metadata.namespace.is_empty() { "default" } else { &self.metadata.namespace };
            let id = container_id(namespace, self.name(), 0);
            self.metadata.uid = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..32]].join("-");
        }
    }

    /// What makes the pod impossible to plan, as path and message: the checks of the API server that a wrong figure would hide.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut push = |path: &str, message: String| found.push((path.to_owned(), message));
        if self.name().is_empty() {
            push("metadata.name", "missing".to_owned());
        }
        if self.spec.containers.is_empty() {
            push("spec.containers", "empty, a pod needs at least one".to_owned());
        }
        let uid = &self.metadata.uid;
        if uid.contains(['_', '/']) {
            push("metadata.uid", format!("{uid:?} must not contain _ or /, it becomes part of a cgroup's name"));
        }
        let mut seen: Vec<&str> = Vec::new();
        for container in self.containers() {
            if container.name.is_empty() || seen.contains(&container.name.as_str()) {
                push("spec.containers", format!("container name {:?} must not be empty or used twice", container.name));
            }
            seen.push(&container.name);
        }
        let of_containers = |list: &'static str, containers: &[Container]| {
            containers.iter().map(|c| (format!("spec.{list}[{}].resources", c.name), c.resources.clone())).collect::<Vec<_>>()
        };
        let mut blocks = of_containers("initContainers", &self.spec.init_containers);
        blocks.extend(of_containers("containers", &self.spec.containers));
        blocks.extend(self.spec.resources.iter().map(|r| ("spec.resources".to_owned(), r.clone())));
        for (path, resources) in blocks {
            for (name, request, limit) in [
                ("memory", resources.requests.memory, resources.limits.memory),
                ("cpu", resources.requests.cpu, resources.limits.cpu),
            ] {
                for (list, quantity) in [("requests", request), ("limits", limit)] {
                    let Some(quantity) = quantity else { continue };
                    let path = format!("{path}.{list}.{name}");
                    if quantity.is_negative() {
                        push(&path, format!("{quantity} must not be negative"));
                    }
                    if quantity.ceil() == i64::MAX || name == "cpu" && quantity.milli_ceil() == i64::MAX {
                        push(&path, format!("{quantity} is more than the kubelet can count"));
                    }
                }
                if let (Some(request), Some(limit)) = (request, limit)
                    && request > limit
                {
                    push(
                        &format!("{path}.requests.{name}"),
                        format!("{request} must be less than or equal to the limit {limit}"),
                    );
                }
            }
        }
        found
    }

    /// The same as reasons that name the pod.
    pub fn check(&self) -> Vec<Refusal> {
        let name = self.name();
        let refuse = |(path, message)| Refusal::new(Stage::Pod, format_args!("pod {name}: {path}: {message}"));
        self.problems().into_iter().map(refuse).collect()
    }

    /// Init containers and regular containers, in that order.
    pub fn containers(&self) -> impl Iterator<Item = &Container> + Clone {
        self.spec.init_containers.iter().chain(&self.spec.containers)
    }

    /// Sidecars and regular containers: those that run as long as the pod does, in that order.
    pub fn lasting(&self) -> impl Iterator<Item = &Container> {
        self.spec.init_containers.iter().filter(|c| c.is_restartable()).chain(&self.spec.containers)
    }

    /// The name to show: metadata.name, or the start of a generated one.
    pub fn name(&self) -> &str {
        if self.metadata.name.is_empty() { &self.metadata.generate_name } else { &self.metadata.name }
    }
}
