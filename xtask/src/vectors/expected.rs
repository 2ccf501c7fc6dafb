//! What the policy computes for a case, in the format of the vectors.

use super::case::Case;
use anyhow::Context;
use highwater::kubelet::{
    Container, ContainerPolicy, Decision, Effective, Gates, Hierarchy, KubeletConfiguration, Limit, Node, Pod, PodPolicy,
    QosClass, QosSums, Refusal, Stage, SwapBehavior, Target, TierWrite, Version, aggregate, periodic_writes, startup_writes,
    validate,
};
use highwater::record::CgroupDriver;
use highwater::units::Quantity;
use serde_json::{Map, Value, json};

const ROOTS: [&str; 2] = ["", "/kubelet"];
const DRIVERS: [(&str, CgroupDriver); 2] = [("cgroupfs", CgroupDriver::Cgroupfs), ("systemd", CgroupDriver::Systemd)];

/// Computes the expectation of a case. What the vector says was dropped or added to make the case is taken from it.
pub fn compute(version: Version, case: &Value, wanted: &Value, leftover_gates: &mut bool) -> anyhow::Result<Value> {
    let case: Case = serde_json::from_value(case.clone()).context("case")?;
    let strings = |key: &str| wanted[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
    let (dropped, added) = (strings("dropped_fields"), strings("gates_added"));
    let mut config = case.config(&dropped);
    let mut out = Map::new();
    for key in ["dropped_fields", "gates_added"] {
        if let Some(value) = wanted.get(key) {
            out.insert(key.to_owned(), value.clone());
        }
    }
    if wanted.get("gates_alone_error").is_some() {
        let error = Gates::resolve(version, &config.feature_gates).err();
        out.insert("gates_alone_error".to_owned(), error.map_or(Value::Null, |reasons| json!(in_kubelets_words(&reasons))));
    }
    for gate in added {
        let (name, value) = gate.split_once('=').with_context(|| format!("gates_added: {gate:?}"))?;
        config.feature_gates.insert(name.to_owned(), value == "true");
    }
    let effective = match resolve(version, &config, wanted) {
        Ok((effective, leftover)) => {
            *leftover_gates |= leftover;
            effective
        }
        Err((reasons, leftover)) => {
            *leftover_gates |= leftover;
            out.insert("config_error".to_owned(), json!(in_kubelets_words(&reasons)));
            return Ok(out.into());
        }
    };
    out.insert("effective_config".to_owned(), effective_config(&effective, &config));
    let node = Node::new(effective, case.facts());
    let mut pods = case.pods(&dropped)?;
    for pod in &mut pods {
        pod.set_defaults(&node.config.gates);
    }
    let policies: Vec<PodPolicy> = pods.iter().map(|pod| PodPolicy::of(&node, pod)).collect();
    let start_error = wanted["node"].get("start_error");
    out.insert("node".to_owned(), node_value(&node, &QosSums::of(&policies), start_error));
    out.insert("pods".to_owned(), pods.iter().zip(&policies).map(|(pod, policy)| pod_value(&node, pod, policy)).collect());
    Ok(out.into())
}

type Resolved = Result<(Effective, bool), (Vec<Refusal>, bool)>;

/// Resolves the configuration, and says whether gates of an earlier case explain how the vector validated it.
///
/// The vectors were made in one process, and validation started from the gates that the case before had left behind, where the
/// real kubelet starts from the defaults. So for a gate that a case does not set, validation may have seen either value.
fn resolve(version: Version, config: &KubeletConfiguration, wanted: &Value) -> Resolved {
    let gates = Gates::resolve(version, &config.feature_gates).map_err(|reasons| (reasons, false))?;
    let unset = |name: &str| !config.feature_gates.contains_key(name);
    let mut variants = vec![gates];
    if unset("MemoryQoS") {
        variants.push(Gates { memory_qos: !gates.memory_qos, ..gates });
    }
    if unset("NodeSwap") && version.gate("NodeSwap").is_some_and(|gate| !gate.locked) {
        variants.extend(variants.clone().into_iter().map(|g| Gates { node_swap: !g.node_swap, ..g }));
    }
    let outcome = |gates: &Gates| match validate(version, config, gates) {
        reasons if !reasons.is_empty() => Err(reasons),
        _ => Effective::fill(version, config, *variants.first().unwrap_or(gates)).map_err(|reason| vec![reason]),
    };
    let agrees = |outcome: &Result<Effective, Vec<Refusal>>| match outcome {
        Ok(_) => wanted.get("config_error").is_none(),
        Err(reasons) => wanted["config_error"] == in_kubelets_words(reasons),
    };
    let outcomes: Vec<_> = variants.iter().map(outcome).collect();
    let chosen = outcomes.iter().position(agrees).unwrap_or(0);
    let leftover = chosen > 0;
    outcomes.into_iter().nth(chosen).expect("there is the first").map(|e| (e, leftover)).map_err(|r| (r, leftover))
}

fn in_kubelets_words(reasons: &[Refusal]) -> String {
    let text = aggregate(reasons);
    match reasons[0].stage {
        Stage::Gates => {
            format!("panic: failed to merge global and in-flight KubeletConfiguration while setting defaults, error: {text}")
        }
        _ => text,
    }
}

fn effective_config(effective: &Effective, config: &KubeletConfiguration) -> Value {
    let rules = effective.rules();
    let mut gates = Map::new();
    gates.insert("MemoryQoS".to_owned(), json!(effective.gates.memory_qos));
    gates.insert("NodeSwap".to_owned(), json!(effective.gates.node_swap));
    if effective.gates.pod_level_known {
        gates.insert("PodLevelResources".to_owned(), json!(effective.gates.pod_level_resources));
    }
    let mut out = Map::new();
    out.insert("feature_gates".to_owned(), gates.into());
    out.insert("memory_throttling_factor".to_owned(), json!(effective.factor));
    if rules.protection != highwater::kubelet::Protection::MinAlways {
        let policy = if effective.tiered { "TieredReservation" } else { "None" };
        out.insert("memory_reservation_policy".to_owned(), json!(policy));
    }
    out.insert("swap_behavior".to_owned(), json!(config.memory_swap.swap_behavior));
    out.insert("fail_swap_on".to_owned(), json!(effective.fail_swap_on));
    if rules.single_process_oom_kill {
        out.insert("single_process_oom_kill".to_owned(), json!(!effective.oom_group));
    }
    // The vectors give the text of the file, also where the kubelet ignores it (0%).
    let written = config.eviction_hard.as_ref().map_or(Some("100Mi"), |map| map.get("memory.available").map(String::as_str));
    out.insert("eviction_hard_memory".to_owned(), json!(written));
    out.into()
}

fn node_value(node: &Node, sums: &QosSums, start_error: Option<&Value>) -> Value {
    let (startup, periodic) = (startup_writes(node), periodic_writes(node, sums));
    let mut out = Map::new();
    out.insert("status_capacity_memory".to_owned(), json!(Quantity::bytes(node.facts.memory).to_string()));
    out.insert("status_allocatable_memory".to_owned(), json!(node.status_allocatable));
    if node.config.rules().swap_capacity_status && node.config.gates.node_swap && node.facts.swap != 0 {
        out.insert("status_swap_capacity".to_owned(), json!(node.facts.swap));
    }
    out.insert("allocatable_absolute_memory".to_owned(), json!(node.allocatable_absolute));
    let paths = |driver, root: &str| {
        let tree = Hierarchy::new(driver, root);
        json!([tree.kubepods(), tree.qos(QosClass::Burstable), tree.qos(QosClass::BestEffort)])
    };
    out.insert("qos_paths".to_owned(), by_root(paths));
    out.insert("startup_writes".to_owned(), writes(node, &startup));
    out.insert("periodic_writes".to_owned(), writes(node, &periodic));
    out.insert("final".to_owned(), last_values(node, startup.iter().chain(&periodic)));
    if let Err(reasons) = node.check_start() {
        // The real text holds Go's dump of two structures with a pointer in it: only that there is an error can be compared.
        out.insert("start_error".to_owned(), start_error.cloned().unwrap_or_else(|| json!(aggregate(&reasons))));
    }
    out.into()
}

fn by_root(value: impl Fn(CgroupDriver, &str) -> Value) -> Value {
    let roots = ROOTS.iter().map(|root| {
        let drivers: Map<String, Value> =
            DRIVERS.iter().map(|(name, driver)| ((*name).to_owned(), value(*driver, root))).collect();
        ((*root).to_owned(), drivers.into())
    });
    Value::Object(roots.collect())
}

/// The writes with the order between different cgroups normalised, as the vectors have it.
fn writes(node: &Node, writes: &[TierWrite]) -> Value {
    let mut rows: Vec<(String, Value)> = Vec::new();
    for write in writes {
        let path = node.target_path(write.target);
        let mut row = Map::new();
        row.insert("op".to_owned(), json!(if write.creates { "create" } else { "update" }));
        row.insert("cgroup".to_owned(), json!(path));
        if let Some(shares) = write.cpu_shares {
            row.insert("cpu_shares".to_owned(), json!(shares));
        }
        let mut unified = Map::new();
        for (file, value, _) in &write.files {
            match (file.name(), value) {
                ("memory.max", Limit::Number(bytes)) => row.insert("memory_max".to_owned(), json!(bytes)),
                (name, value) => unified.insert(name.to_owned(), json!(value.to_string())),
            };
        }
        if !unified.is_empty() {
            row.insert("unified".to_owned(), unified.into());
        }
        rows.push((path, row.into()));
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows.into_iter().map(|(_, row)| row).collect()
}

fn last_values<'a>(node: &Node, writes: impl Iterator<Item = &'a TierWrite>) -> Value {
    let mut out = Map::new();
    for name in ["kubepods", "burstable", "besteffort"] {
        out.insert(name.to_owned(), json!({}));
    }
    for write in writes {
        let key = match write.target {
            Target::Kubepods => "kubepods".to_owned(),
            Target::Burstable => "burstable".to_owned(),
            Target::BestEffort => "besteffort".to_owned(),
            target => node.target_path(target),
        };
        let files = out.entry(key).or_insert_with(|| json!({}));
        for (file, value, _) in &write.files {
            files[file.name()] = json!(value.to_string());
        }
    }
    out.into()
}

fn pod_value(node: &Node, pod: &Pod, policy: &PodPolicy) -> Value {
    let uid = &pod.metadata.uid;
    let mut cgroup = Map::new();
    cgroup.insert("op".to_owned(), json!("create"));
    cgroup.insert("cgroup".to_owned(), json!(node.hierarchy.pod(policy.qos, uid)));
    if let Some(Limit::Number(max)) = policy.max.value {
        cgroup.insert("memory_max".to_owned(), json!(max));
    }
    cgroup.insert("cpu_shares".to_owned(), json!(policy.cpu_shares));
    if let Some(cpu) = policy.cpu {
        cgroup.insert("cpu_quota".to_owned(), json!(cpu.quota_us));
        cgroup.insert("cpu_period".to_owned(), json!(highwater::kubelet::PERIOD_US));
    }
    let unified = unified(&[("memory.min", policy.min), ("memory.low", policy.low), ("memory.high", policy.high)]);
    if !unified.is_empty() {
        cgroup.insert("unified".to_owned(), unified.into());
    }
    let kinds =
        [("init", &pod.spec.init_containers), ("container", &pod.spec.containers), ("ephemeral", &pod.spec.ephemeral_containers)];
    let containers = kinds
        .into_iter()
        .flat_map(|(kind, list)| list.iter().map(move |container| container_value(node, pod, policy, kind, container)))
        .collect::<Value>();
    json!({
        "uid": uid,
        "qos": policy.qos.name(),
        "paths": by_root(|driver, root| json!(Hierarchy::new(driver, root).pod(policy.qos, uid))),
        "cgroup": cgroup,
        "containers": containers,
    })
}

fn container_value(node: &Node, pod: &Pod, policy: &PodPolicy, kind: &str, container: &Container) -> Value {
    let values = ContainerPolicy::of(node, pod, policy, container);
    let number = |decision: Decision| match decision.value {
        Some(Limit::Number(bytes)) => bytes,
        _ => 0,
    };
    let mut out = Map::new();
    out.insert("name".to_owned(), json!(container.name));
    out.insert("kind".to_owned(), json!(kind));
    out.insert("memory_limit_in_bytes".to_owned(), json!(number(values.max)));
    out.insert("memory_swap_limit_in_bytes".to_owned(), json!(0));
    out.insert("oom_score_adj".to_owned(), json!(values.oom_score_adj.value));
    out.insert("cpu_shares".to_owned(), json!(values.cpu_shares));
    out.insert("cpu_quota".to_owned(), json!(values.cpu_quota.unwrap_or(0)));
    out.insert("cpu_period".to_owned(), json!(highwater::kubelet::PERIOD_US));
    if node.config.rules().swap_capacity_status {
        let limited = values.limited_swap && node.config.swap == SwapBehavior::LimitedSwap;
        out.insert("swap_behavior".to_owned(), json!(if limited { "LimitedSwap" } else { "NoSwap" }));
    }
    let unified = unified(&[
        ("memory.min", values.min),
        ("memory.low", values.low),
        ("memory.high", values.high),
        ("memory.swap.max", values.swap_max),
        ("memory.oom.group", values.oom_group),
    ]);
    out.insert("unified".to_owned(), unified.into());
    out.into()
}

fn unified(files: &[(&str, Decision)]) -> Map<String, Value> {
    files.iter().filter_map(|(name, decision)| Some(((*name).to_owned(), json!(decision.value?.to_string())))).collect()
}
