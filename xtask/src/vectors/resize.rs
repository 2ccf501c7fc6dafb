//! Vectors of in-place resizes: what is written, in which order.

use super::Outcome;
use super::diff::compare;
use anyhow::Context;
use highwater::kubelet::{
    ContainerPolicy, Decision, Effective, KubeletConfiguration, Limit, Node, NodeFacts, PERIOD_US, Pod, PodPolicy, PodReadBack,
    PodWrite, ResizeStep, Version, resize_unchecked,
};
use serde_json::{Map, Value, json};

/// The node the resize vectors were made on: that of the first cases of the other files.
const MEMORY: u64 = 16_374_636_544;
const SWAP: u64 = 2_147_479_552;

/// Checks one case. These files name no version: the ones there are come from 1.37.2.
pub fn check(vector: &Value) -> anyhow::Result<Outcome> {
    let name = vector["name"].as_str().context("name is missing")?;
    let mut config = KubeletConfiguration {
        memory_throttling_factor: vector["memory_throttling_factor"].as_f64(),
        memory_reservation_policy: vector["memory_reservation_policy"].as_str().map(str::to_owned),
        ..KubeletConfiguration::default()
    };
    config.memory_swap.swap_behavior = "LimitedSwap".to_owned();
    config.feature_gates.insert("MemoryQoS".to_owned(), vector["memory_qos"].as_bool().context("memory_qos is missing")?);
    let effective = Effective::resolve(Version::V1_37, &config).map_err(|reasons| anyhow::anyhow!("{reasons:?}"))?;
    let node = Node::new(effective, NodeFacts::new(MEMORY, SWAP));
    let (old, new) = (pod(&node, vector, "old")?, pod(&node, vector, "new")?);
    let before = PodPolicy::of(&node, &old);
    // The vectors' cgroup gives back what was written, except that the kernel floors memory.max.
    let read = PodReadBack { cpu_shares: before.cpu_shares, ..PodReadBack::of(&node, &before) };
    let steps = resize_unchecked(&node, &old, &new, &read);
    let events: Vec<Value> = steps.iter().map(event).collect();
    let created = ContainerPolicy::of(&node, &old, &before, &old.spec.containers[0]);
    let mut computed = vector.clone();
    computed["pod_cgroup_at_creation"] = pod_at_creation(&before);
    computed["container_unified_at_creation"] = unified(&container_files(&created)).into();
    computed["resources_to_update"] = resources_to_update(&old, &new, &steps);
    computed["events"] = if events.is_empty() { Value::Null } else { events.into() };
    let mut differences = Vec::new();
    let values = compare(vector, &computed, name, &mut differences);
    Ok(Outcome { cases: 1, values, differences, ..Outcome::default() })
}

fn pod(node: &Node, vector: &Value, which: &str) -> anyhow::Result<Pod> {
    let mut spec =
        json!({ "containers": [{ "name": "c0", "image": "app:1", "resources": vector[format!("container_{which}")] }] });
    if let Some(level) = vector.get(format!("pod_level_{which}")) {
        spec["resources"] = level.clone();
    }
    let mut pod: Pod = serde_json::from_value(json!({ "metadata": { "name": "p", "uid": "u" }, "spec": spec }))?;
    pod.set_defaults(&node.config.gates);
    Ok(pod)
}

/// What changed, in the words of the vectors.
fn resources_to_update(old: &Pod, new: &Pod, steps: &[ResizeStep]) -> Value {
    let (mut names, container) = (Vec::new(), |pod: &Pod| pod.spec.containers[0].resources.clone());
    let writes_container = steps.iter().any(|step| matches!(step, ResizeStep::Container { .. }));
    let cpu = |pod: &Pod| (container(pod).requests.cpu, container(pod).limits.cpu);
    if writes_container && cpu(old) != cpu(new) {
        names.push("container cpu");
    }
    if writes_container && (cpu(old) == cpu(new) || container(old).requests.memory != container(new).requests.memory) {
        names.push("container memory");
    }
    if old.spec.resources != new.spec.resources {
        names.push("pod level");
    }
    json!(names)
}

fn event(step: &ResizeStep) -> Value {
    match step {
        ResizeStep::NotifySandbox(write) => {
            json!({ "target": "runtime sandbox", "container": pod_write(write, "memory_limit_in_bytes") })
        }
        ResizeStep::PodCgroup(write) => json!({ "target": "pod cgroup", "pod": pod_write(write, "memory_max") }),
        ResizeStep::Container { name, policy } => {
            let mut out = Map::new();
            out.insert("cpu_period".to_owned(), json!(PERIOD_US));
            if let Some(quota) = policy.cpu_quota.filter(|quota| *quota != 0) {
                out.insert("cpu_quota".to_owned(), json!(quota));
            }
            out.insert("cpu_shares".to_owned(), json!(policy.cpu_shares));
            if let Some(Limit::Number(max)) = policy.max.value {
                out.insert("memory_limit_in_bytes".to_owned(), json!(max));
            }
            out.insert("oom_score_adj".to_owned(), json!(policy.oom_score_adj.value));
            out.insert("unified".to_owned(), unified(&container_files(policy)).into());
            json!({ "target": format!("runtime container {name}"), "container": out })
        }
        ResizeStep::Restart { name } => json!({ "target": format!("restart {name}") }),
    }
}

fn pod_write(write: &PodWrite, memory: &str) -> Value {
    let mut out = Map::new();
    let numbers = [
        ("cpu_period", write.cpu_period.map(|n| json!(n))),
        ("cpu_quota", write.cpu_quota.map(|n| json!(n))),
        ("cpu_shares", write.cpu_shares.map(|n| json!(n))),
        (memory, write.memory_max.map(|n| json!(n))),
    ];
    out.extend(numbers.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    if !write.unified.is_empty() {
        out.insert("unified".to_owned(), write.unified.iter().map(|(f, v)| ((*f).to_owned(), json!(v.to_string()))).collect());
    }
    out.into()
}

fn pod_at_creation(policy: &PodPolicy) -> Value {
    let mut out = Map::new();
    if let Some(Limit::Number(max)) = policy.max.value {
        out.insert("memory_max".to_owned(), json!(max));
    }
    out.insert("cpu_shares".to_owned(), json!(policy.cpu_shares));
    let files = unified(&[("memory.min", policy.min), ("memory.low", policy.low), ("memory.high", policy.high)]);
    if !files.is_empty() {
        out.insert("unified".to_owned(), files.into());
    }
    out.into()
}

fn container_files(policy: &ContainerPolicy) -> [(&'static str, Decision); 5] {
    [
        ("memory.min", policy.min),
        ("memory.low", policy.low),
        ("memory.high", policy.high),
        ("memory.swap.max", policy.swap_max),
        ("memory.oom.group", policy.oom_group),
    ]
}

fn unified(files: &[(&str, Decision)]) -> Map<String, Value> {
    files.iter().filter_map(|(name, decision)| Some(((*name).to_owned(), json!(decision.value?.to_string())))).collect()
}
