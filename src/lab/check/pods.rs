//! Pods that contradict themselves or do not fit the node.

use super::super::pod::SLICE;
use super::super::resolve::ArmTree;
use super::{BAD_NAME, dns_label, unique};
use crate::kubelet::{Container, Pod, Port, Probe};
use crate::yaml::{Node, Problems};

pub(super) fn check(key: &str, pod: &Pod, arm: &ArmTree, tree: &Node, problems: &mut Problems) {
    let base = format!("pods.{key}");
    if pod.metadata.name != key {
        problems.push(tree.blame(format!("{base}.metadata.name"), format!("must be {key}: a patch cannot rename a pod")));
    }
    if !dns_label(key) {
        problems.push(tree.blame(format!("{base}.metadata.name"), BAD_NAME));
    }
    if !matches!(pod.spec.restart_policy.as_deref(), None | Some("Always" | "OnFailure" | "Never")) {
        problems.push(tree.blame(format!("{base}.spec.restartPolicy"), "must be Always, OnFailure or Never"));
    }
    if pod.spec.termination_grace_period_seconds.is_some_and(|s| s < 0) {
        problems.push(tree.blame(format!("{base}.spec.terminationGracePeriodSeconds"), "must not be negative"));
    }
    if let Some(slice) = crate::lab::slice(pod) {
        let path = format!("{base}.metadata.annotations");
        if slice.strip_suffix(".slice").is_none_or(|name| !dns_label(name) || name.starts_with("kubepods")) {
            problems.push(tree.blame(path, format!("{SLICE} must name a slice beside kubepods, for example system.slice")));
        }
        let resources = pod.containers().any(|c| !c.resources.requests.is_empty() || !c.resources.limits.is_empty());
        if resources || !pod.spec.init_containers.is_empty() {
            problems.push(tree.blame(format!("{base}.spec"), "a service of the node has no resources and no initContainers"));
        }
    }
    if pod.spec.containers.is_empty() {
        problems.push(tree.blame(format!("{base}.spec"), "a pod needs at least one container"));
    }
    let names: Vec<_> = pod.containers().map(|c| c.name.as_str()).collect();
    unique(&names, &format!("{base}.spec.containers"), tree, problems);
    for (list, containers) in [("containers", &pod.spec.containers), ("initContainers", &pod.spec.init_containers)] {
        for container in containers {
            container_problems(&format!("{base}.spec.{list}[{}]", container.name), container, pod, tree, problems);
        }
    }
    for container in &pod.spec.containers {
        if container.restart_policy.is_some() {
            let path = format!("{base}.spec.containers[{}].restartPolicy", container.name);
            problems.push(tree.blame(path, "only an init container may have one: with Always it is a sidecar"));
        }
    }
    let no_disk = arm.node.as_ref().is_some_and(|node| node.data.iter().all(|device| device.file_system.is_none()));
    for volume in &pod.spec.volumes {
        let path = format!("{base}.spec.volumes[{}]", volume.name);
        match (&volume.empty_dir, &volume.host_path) {
            (Some(dir), None) if !matches!(dir.medium.as_str(), "" | "Memory") => {
                problems.push(tree.blame(path, "the medium of an emptyDir must be empty or Memory"));
            }
            (Some(dir), None) if dir.medium == "Memory" => {}
            (Some(_), None) | (None, Some(_)) if no_disk => problems.push(tree.blame(path, NO_DISK)),
            (Some(_), None) | (None, Some(_)) => {}
            _ => {
                problems.push(tree.blame(
                    path,
                    "a volume must be either an emptyDir or a hostPath (a bare `emptyDir:` is read as none: write {})",
                ))
            }
        }
    }
}

const NO_DISK: &str = "this volume lies on the data disk, but the node has none: add a device with `fileSystem: ext4` to node.data, or use medium Memory";

fn container_problems(path: &str, container: &Container, pod: &Pod, tree: &Node, problems: &mut Problems) {
    let mut wrong = |field: &str, message: String| problems.push(tree.blame(format!("{path}{field}"), message));
    if !dns_label(&container.name) {
        wrong(".name", BAD_NAME.into());
    }
    let image = container.image.rsplit('/').next().unwrap_or_default().split([':', '@']).next().unwrap_or_default();
    if image != "highwater-node" {
        wrong(
            ".image",
            format!("the image must be highwater-node, whose arguments are the workloads; found `{}`", container.image),
        );
    }
    if container.args.is_empty() {
        wrong("", "args is missing: the first argument names the workload, for example anon or cpu-inference".into());
    }
    if container.restart_policy.as_deref().is_some_and(|p| p != "Always") {
        wrong(".restartPolicy", "must be Always, which makes an init container a sidecar".into());
    }
    let (requests, limits) = (&container.resources.requests, &container.resources.limits);
    for (name, request, limit) in [("memory", requests.memory, limits.memory), ("cpu", requests.cpu, limits.cpu)] {
        let negative = [request, limit].into_iter().flatten().any(|q| q.is_negative());
        if negative {
            wrong(".resources", format!("{name} must not be negative"));
        }
        if let (Some(request), Some(limit)) = (request, limit)
            && request > limit
        {
            wrong(&format!(".resources.requests.{name}"), format!("the request {request} is more than the limit {limit}"));
        }
    }
    for mount in &container.volume_mounts {
        if !pod.spec.volumes.iter().any(|v| v.name == mount.name) {
            wrong(&format!(".volumeMounts[{}]", mount.name), format!("the pod has no volume {}", mount.name));
        }
        if !mount.mount_path.starts_with('/') {
            wrong(&format!(".volumeMounts[{}]", mount.name), "mountPath must begin with a slash".into());
        }
    }
    let probes = [
        ("readinessProbe", &container.readiness_probe),
        ("livenessProbe", &container.liveness_probe),
        ("startupProbe", &container.startup_probe),
    ];
    for (name, probe) in probes {
        if let Some(message) = probe.as_ref().and_then(|p| probe_problem(p, container)) {
            wrong(&format!(".{name}"), message);
        }
    }
}

fn probe_problem(probe: &Probe, container: &Container) -> Option<String> {
    let port = match (&probe.http_get, &probe.tcp_socket) {
        (Some(http), None) => &http.port,
        (None, Some(tcp)) => &tcp.port,
        _ => return Some("a probe needs either httpGet or tcpSocket".into()),
    };
    match port {
        Port::Number(0) => Some("the port is missing".into()),
        Port::Name(name) if !container.ports.iter().any(|p| p.name == *name) => {
            Some(format!("the container has no port named {name}"))
        }
        _ if probe.period_seconds == Some(0) => Some("periodSeconds must be at least 1".into()),
        _ => None,
    }
}

/// The scheduler would not place what does not fit; nor does a lab.
pub(super) fn check_sum(arm: &ArmTree, tree: &Node, problems: &mut Problems) {
    let Some(node) = &arm.node else { return };
    let containers = arm.pods.values().flatten().flat_map(|pod| &pod.spec.containers);
    let sum: i128 = containers.map(|c| i128::from(c.resources.requests.memory_bytes())).sum();
    if sum > i128::from(node.memory.0) {
        let message =
            format!("the pods request {sum} bytes together, more than the node's {}: they would not be scheduled", node.memory);
        problems.push(tree.blame("node.memory", message));
    }
}

#[cfg(test)]
mod tests {
    use crate::lab::{LabFiles, load};

    #[test]
    fn a_service_of_the_node_has_a_slice_and_no_resources() {
        let good = include_str!("../../../fixtures/labs/good.yaml");
        let bad = good.replacen("metadata: {name: p}", "metadata: {name: p, annotations: {highwater/slice: kubepods}}", 1);
        assert_ne!(good, bad);
        let problems =
            load(&LabFiles { name: "bad".to_owned(), files: vec![("bad.yaml".to_owned(), bad)], lesson: None }).unwrap_err();
        let told = problems.to_string();
        assert!(told.contains("must name a slice beside kubepods"), "{told}");
        assert!(told.contains("has no resources and no initContainers"), "{told}");
    }
}
