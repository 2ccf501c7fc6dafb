//! The pods of a node, as `kubectl get nodes,pods -A -o json` lists them: read, chosen by node, and reduced to what decides about memory.
//!
//! What is kept is a list of what may be kept: names, uids, resources, priorities, classes, ids of containers. Environment, arguments,
//! probes, volumes, labels and all other annotations are left out, because credentials stand there.

use crate::kubelet::{Container, Pod};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Annotations that decide about a pod; their values are the kubelet's.
const ANNOTATIONS: [&str; 2] = ["kubernetes.io/config.source", "kubernetes.io/config.mirror"];

/// A pod of the list with what the API server knows of its containers.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedPod {
    /// The pod, reduced; its uid is the one the kubelet names its cgroup with.
    pub pod: Pod,
    /// Container names by the runtime's id.
    pub ids: BTreeMap<String, String>,
    /// Containers that run; none where the list has no statuses.
    pub running: Option<Vec<String>>,
}

/// A Node of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedNode {
    /// Its name.
    pub name: String,
    /// status.nodeInfo.kubeletVersion.
    pub kubelet: Option<String>,
    /// status.nodeInfo.containerRuntimeVersion.
    pub runtime: Option<String>,
}

/// What a list holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Listed {
    /// Pods that have not ended.
    pub pods: Vec<ListedPod>,
    /// Nodes.
    pub nodes: Vec<ListedNode>,
}

/// Reads a list, or a list of lists.
///
/// # Errors
/// What is no JSON, or a Pod that is none, with its place.
pub fn read(text: &str) -> Result<Listed, String> {
    let value: Value = serde_json::from_str(text).map_err(|e| format!("line {}, column {}: {e}", e.line(), e.column()))?;
    let mut listed = Listed::default();
    listed.add(&value, "")?;
    Ok(listed)
}

impl Listed {
    fn add(&mut self, value: &Value, place: &str) -> Result<(), String> {
        match value["kind"].as_str() {
            Some("Pod") => {
                if !matches!(value["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
                    self.pods.push(pod(value).map_err(|e| format!("{place}: {e}"))?);
                }
            }
            Some("Node") => {
                let text = |at: &str| value.pointer(at).and_then(Value::as_str).map(str::to_owned);
                let name = text("/metadata/name").ok_or_else(|| format!("{place}: a Node without a name"))?;
                let (kubelet, runtime) =
                    (text("/status/nodeInfo/kubeletVersion"), text("/status/nodeInfo/containerRuntimeVersion"));
                self.nodes.push(ListedNode { name, kubelet, runtime });
            }
            Some(kind) if kind.ends_with("List") => {
                for (at, item) in value["items"].as_array().into_iter().flatten().enumerate() {
                    self.add(item, &format!("{place}items[{at}]"))?;
                }
            }
            Some(_) => {}
            None => return Err(format!("{place}: no kind: ask for `kubectl get nodes,pods -A -o json`")),
        }
        Ok(())
    }

    /// The pods as a v1 List that [`read`] reads again.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let item = |listed: &ListedPod| {
            let mut pod = serde_json::to_value(&listed.pod).unwrap_or_default();
            let status = |(id, name): (&String, &String)| {
                let runs = listed.running.as_ref().is_some_and(|running| running.contains(name));
                let state = if runs { json!({"running": {}}) } else { json!({}) };
                json!({"name": name, "containerID": format!("cri://{id}"), "state": state})
            };
            if listed.running.is_some() {
                pod["status"]["containerStatuses"] = listed.ids.iter().map(status).collect();
            }
            pod
        };
        json!({"apiVersion": "v1", "kind": "List", "items": self.pods.iter().map(item).collect::<Vec<_>>()})
    }
}

fn pod(value: &Value) -> Result<ListedPod, String> {
    let full: Pod = serde_json::from_value(value.clone()).map_err(|e| e.to_string())?;
    let mut ids = BTreeMap::new();
    let mut running = None;
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for status in value["status"][list].as_array().into_iter().flatten() {
            let names: &mut Vec<String> = running.get_or_insert_default();
            let Some(name) = status["name"].as_str() else { continue };
            if let Some((_, id)) = status["containerID"].as_str().and_then(|id| id.split_once("://")) {
                ids.insert(id.to_owned(), name.to_owned());
            }
            if status["state"].get("running").is_some() {
                names.push(name.to_owned());
            }
        }
    }
    Ok(ListedPod { pod: reduced(full), ids, running })
}

/// Only what decides about memory.
fn reduced(full: Pod) -> Pod {
    let mut pod = Pod { api_version: "v1".to_owned(), kind: "Pod".to_owned(), status: full.status, ..Pod::default() };
    // A mirror pod has a uid of its own; the kubelet names the cgroup after the static pod's, which is in an annotation.
    let of_static = full.metadata.annotations.get("kubernetes.io/config.hash");
    pod.metadata.uid = of_static.cloned().unwrap_or(full.metadata.uid);
    pod.metadata.name = full.metadata.name;
    pod.metadata.namespace = full.metadata.namespace;
    pod.metadata.annotations = full.metadata.annotations;
    pod.metadata.annotations.retain(|name, _| ANNOTATIONS.contains(&name.as_str()));
    let containers = |list: Vec<Container>| {
        let reduced = |c: Container| Container {
            name: c.name,
            resources: c.resources,
            resize_policy: c.resize_policy,
            restart_policy: c.restart_policy,
            ..Container::default()
        };
        list.into_iter().map(reduced).collect()
    };
    let spec = full.spec;
    pod.spec.init_containers = containers(spec.init_containers);
    pod.spec.containers = containers(spec.containers);
    pod.spec.ephemeral_containers = containers(spec.ephemeral_containers);
    pod.spec.resources = spec.resources;
    pod.spec.overhead = spec.overhead;
    pod.spec.restart_policy = spec.restart_policy;
    pod.spec.priority = spec.priority;
    pod.spec.priority_class_name = spec.priority_class_name;
    pod.spec.node_name = spec.node_name;
    pod
}

/// Makes names unique on the node: a pod that shares its name with one of another namespace is called `namespace/name`.
pub fn qualify(pods: &mut [ListedPod]) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for listed in pods.iter() {
        *seen.entry(listed.pod.metadata.name.clone()).or_default() += 1;
    }
    for listed in pods {
        let metadata = &mut listed.pod.metadata;
        if seen.get(&metadata.name).is_some_and(|count| *count > 1) && !metadata.name.contains('/') {
            metadata.name = format!("{}/{}", metadata.namespace, metadata.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"{"kind": "List", "items": [
        {"kind": "Node", "metadata": {"name": "n"}, "status": {"nodeInfo": {"kubeletVersion": "v1.37.2", "containerRuntimeVersion": "containerd://2.4.2"}}},
        {"kind": "Pod", "metadata": {"name": "web", "namespace": "a", "uid": "u1", "labels": {"token": "SECRET"},
          "annotations": {"vault/token": "SECRET", "kubernetes.io/config.source": "api"}},
         "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "i", "args": ["--password=SECRET"], "command": ["SECRET"],
           "env": [{"name": "KEY", "value": "SECRET"}], "livenessProbe": {"httpGet": {"path": "/SECRET", "port": 1}},
           "resources": {"requests": {"memory": "1Mi"}}}]},
         "status": {"qosClass": "Burstable", "containerStatuses": [{"name": "main", "containerID": "containerd://abc", "state": {"running": {}}}]}},
        {"kind": "Pod", "metadata": {"name": "web", "namespace": "b", "uid": "mirror", "annotations": {"kubernetes.io/config.hash": "h", "kubernetes.io/config.mirror": "h"}}, "spec": {"containers": []}},
        {"kind": "Pod", "metadata": {"name": "done"}, "spec": {"containers": []}, "status": {"phase": "Succeeded"}}]}"#;

    #[test]
    fn what_decides_is_kept_and_credentials_are_not() {
        let mut listed = read(LIST).unwrap();
        assert_eq!(listed.nodes[0].kubelet.as_deref(), Some("v1.37.2"));
        assert_eq!(listed.pods.len(), 2, "a pod that has ended is no pod of the node");
        assert_eq!(listed.pods[0].ids["abc"], "main");
        assert_eq!(listed.pods[0].running, Some(vec!["main".to_owned()]));
        assert_eq!(listed.pods[1].pod.metadata.uid, "h", "a mirror pod's cgroup has the static pod's uid");
        let text = listed.to_json().to_string();
        assert!(!text.contains("SECRET") && text.contains("1Mi") && text.contains("config.source"), "{text}");
        assert_eq!(read(&text).unwrap().pods, listed.pods);
        qualify(&mut listed.pods);
        let names: Vec<_> = listed.pods.iter().map(|l| l.pod.name()).collect();
        assert_eq!(names, ["a/web", "b/web"]);
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        assert!(read("{").unwrap_err().starts_with("line 1"));
        assert!(read("{}").unwrap_err().contains("kubectl get nodes,pods"));
        let bad = r#"{"kind": "List", "items": [{"kind": "Pod", "spec": {"containers": 3}}]}"#;
        assert!(read(bad).unwrap_err().starts_with("items[0]: "));
    }
}
