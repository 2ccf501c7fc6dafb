//! The fields of Pods and of the KubeletConfiguration that the simulator honours, as a published list.
//!
//! Any other field that could change the result is an error and not ignored: a lab that says something must mean it.

use crate::kubelet::Pod;
use crate::yaml::{Kind, Node, Path, Problems};

/// The annotation that makes a Pod stand for a service of the node: systemd starts it in the slice that the value names, and no kubelet
/// sees it.
pub const SLICE: &str = "highwater/slice";

/// The slice a service of the node runs in; none for a pod.
#[must_use]
pub fn slice(pod: &Pod) -> Option<&str> {
    pod.metadata.annotations.get(SLICE).map(String::as_str)
}

/// What the simulator does with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Honour {
    /// It does what Kubernetes does.
    Honoured,
    /// It changes nothing on a single node without a control plane.
    Harmless,
}

use Honour::{Harmless, Honoured};

/// Pod fields by path. `[]` stands for every item of a list, `.*` for everything below. `CONTAINER` stands for a container of
/// spec.containers or spec.initContainers.
pub const HONOURED: &[(&str, Honour)] = &[
    ("apiVersion", Honoured),
    ("kind", Honoured),
    ("metadata.name", Honoured),
    ("metadata.namespace", Harmless),
    ("metadata.uid", Honoured),
    ("metadata.labels.*", Harmless),
    ("metadata.annotations.*", Honoured),
    ("spec.restartPolicy", Honoured),
    ("spec.terminationGracePeriodSeconds", Honoured),
    ("spec.priority", Honoured),
    ("spec.priorityClassName", Honoured),
    ("spec.overhead.*", Honoured),
    ("spec.resources.requests.*", Honoured),
    ("spec.resources.limits.*", Honoured),
    ("spec.automountServiceAccountToken", Harmless),
    ("spec.enableServiceLinks", Harmless),
    ("spec.nodeSelector.*", Harmless),
    ("spec.tolerations[].*", Harmless),
    ("spec.volumes[].name", Honoured),
    ("spec.volumes[].emptyDir.medium", Honoured),
    ("spec.volumes[].emptyDir.sizeLimit", Honoured),
    ("spec.volumes[].hostPath.path", Honoured),
    ("spec.volumes[].hostPath.type", Harmless),
    ("CONTAINER.name", Honoured),
    ("CONTAINER.image", Honoured),
    ("CONTAINER.imagePullPolicy", Harmless),
    ("CONTAINER.args[]", Honoured),
    ("CONTAINER.env[].name", Honoured),
    ("CONTAINER.env[].value", Honoured),
    ("CONTAINER.ports[].name", Honoured),
    ("CONTAINER.ports[].containerPort", Honoured),
    ("CONTAINER.ports[].protocol", Harmless),
    ("CONTAINER.resources.requests.*", Honoured),
    ("CONTAINER.resources.limits.*", Honoured),
    ("CONTAINER.restartPolicy", Honoured),
    ("CONTAINER.volumeMounts[].name", Honoured),
    ("CONTAINER.volumeMounts[].mountPath", Honoured),
    ("CONTAINER.readinessProbe.PROBE", Honoured),
    ("CONTAINER.livenessProbe.PROBE", Honoured),
    ("CONTAINER.startupProbe.PROBE", Honoured),
];

const PROBE: &[&str] = &[
    "httpGet.path",
    "httpGet.port",
    "tcpSocket.port",
    "initialDelaySeconds",
    "periodSeconds",
    "timeoutSeconds",
    "successThreshold",
    "failureThreshold",
];

const KUBELET: &[&str] = &[
    "apiVersion",
    "kind",
    "featureGates.*",
    "memoryThrottlingFactor",
    "memoryReservationPolicy",
    "memorySwap.swapBehavior",
    "singleProcessOOMKill",
    "failSwapOn",
    "failCgroupV1",
    "cgroupDriver",
    "cgroupRoot",
    "cgroupsPerQOS",
    "kubeReserved.*",
    "systemReserved.*",
    "systemReservedCgroup",
    "enforceNodeAllocatable[]",
    "evictionHard.*",
    "mergeDefaultEvictionSettings",
    "cpuCFSQuota",
];

/// Reports every field of a Pod that is not honoured. `at` is the Pod's path in the tree of an arm.
pub(super) fn check_pod(pod: &Node, at: &Path, problems: &mut Problems) {
    let mut known = Vec::new();
    for (pattern, _) in HONOURED {
        let containers = ["spec.containers[]", "spec.initContainers[]"].map(|list| pattern.replace("CONTAINER", list));
        let count = if pattern.starts_with("CONTAINER") { 2 } else { 1 };
        for pattern in containers.into_iter().take(count) {
            match pattern.strip_suffix("PROBE") {
                Some(probe) => known.extend(PROBE.iter().map(|field| format!("{probe}{field}"))),
                None => known.push(pattern),
            }
        }
    }
    walk(pod, at, "", &known, problems);
}

/// Reports every field of a KubeletConfiguration that is not honoured.
pub(super) fn check_kubelet(kubelet: &Node, at: &Path, problems: &mut Problems) {
    let known: Vec<_> = KUBELET.iter().map(|p| (*p).to_owned()).collect();
    walk(kubelet, at, "", &known, problems);
}

fn walk(node: &Node, at: &Path, pattern: &str, known: &[String], problems: &mut Problems) {
    match &node.kind {
        Kind::Map(entries) => {
            for entry in entries {
                let (path, below) = (at.key(&entry.key), join(pattern, &entry.key));
                if known.iter().any(|k| *k == join(pattern, "*")) {
                    continue;
                }
                if known.iter().any(|k| leads_to(k, &below)) {
                    walk(&entry.value, &path, &below, known, problems);
                } else {
                    problems.push(entry.mark.problem(&path, not_honoured(&entry.key, pattern, known)));
                }
            }
        }
        Kind::List(items) => {
            for (i, item) in items.iter().enumerate() {
                walk(item, &at.item(i, item), &format!("{pattern}[]"), known, problems);
            }
        }
        _ => {}
    }
}

fn join(pattern: &str, key: &str) -> String {
    if pattern.is_empty() { key.to_owned() } else { format!("{pattern}.{key}") }
}

fn leads_to(known: &str, pattern: &str) -> bool {
    known.strip_prefix(pattern).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn not_honoured(key: &str, parent: &str, known: &[String]) -> String {
    let prefix = join(parent, "");
    let siblings = known.iter().filter_map(|k| k.strip_prefix(&prefix)?.split(['.', '[']).next());
    let best =
        siblings.map(|s| (strsim::jaro_winkler(&key.to_lowercase(), &s.to_lowercase()), s)).max_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((score, name)) if score > 0.9 => format!("`{key}` is not honoured by the simulator: did you mean `{name}`?"),
        _ => format!(
            "`{key}` is not honoured by the simulator and could change the result: take it out, or run the lab on a cluster"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    fn problems(text: &str) -> String {
        let mut problems = Problems::default();
        check_pod(&yaml::read("pod.yaml", text).unwrap(), &Path::root(), &mut problems);
        problems.to_string()
    }

    #[test]
    fn honoured_and_harmless_fields_pass() {
        let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {x: y}}\nspec:\n  initContainers:\n  - name: i\n    restartPolicy: Always\n  containers:\n  - name: c\n    args: [x]\n    resources: {limits: {memory: 1Mi}}\n    readinessProbe: {httpGet: {path: /, port: 1}}\n";
        assert_eq!(problems(text), "");
    }

    #[test]
    fn others_are_told_with_a_hint_where_one_is_near() {
        let text = "spec:\n  hostNetwork: true\n  containers:\n  - name: c\n    resorces: {}\n    livenessProbe: {exec: {command: [x]}}\n";
        insta::assert_snapshot!(problems(text));
    }
}
