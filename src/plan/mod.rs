//! What the kubelet of a version will write for a set of Pods, file by file, with the rule behind each value.

mod files;
mod rule;

use crate::kubelet::{
    Container, ContainerPolicy, Effective, KubeletConfiguration, Node, NodeFacts, Pod, PodPolicy, QosClass, QosSums, Refusal,
    SANDBOX, Stage, Target, TierWrite, Version, container_cgroup, container_id, periodic_writes, startup_writes,
};
use crate::record::{Plan, PlannedCgroup, Role, SCHEMA};
use files::{Files, container_files, pod_files, sandbox_files};
use rule::Context;

/// Plans a node: the cgroups above the pods, then each pod with its pause container and its containers.
///
/// Pods may be as a user writes them: the API's defaults are set here, and a pod without a uid gets one from its name. Ephemeral
/// containers are left out, since they start on request only.
///
/// # Errors
/// Every reason the kubelet of that version gives for not starting, or for which a pod cannot be planned.
pub fn plan(version: Version, config: &KubeletConfiguration, facts: &NodeFacts, pods: &[Pod]) -> Result<Plan, Vec<Refusal>> {
    let node = Node::new(Effective::resolve(version, config)?, facts.clone());
    let mut reasons = Vec::new();
    reasons.extend(node.check_start().err().into_iter().flatten());
    reasons.extend(node.check_swap().err().into_iter().flatten());
    let pods: Vec<Pod> = pods.iter().map(|pod| prepare(pod, &node)).collect();
    reasons.extend(pods.iter().flat_map(|pod| pod.check()));
    reasons.extend(same_uid(&pods));
    if !reasons.is_empty() {
        return Err(reasons);
    }
    let policies: Vec<PodPolicy> = pods.iter().map(|pod| PodPolicy::of(&node, pod)).collect();
    let sums = QosSums::of(&policies);
    let mut cgroups = tiers(&node, &sums);
    for (pod, policy) in pods.iter().zip(&policies) {
        plan_pod(&node, &sums, pod, policy, &mut cgroups);
    }
    Ok(Plan {
        schema: SCHEMA,
        kubernetes: version.to_string(),
        cgroup_driver: node.hierarchy.driver(),
        node_memory: facts.memory,
        node_swap: facts.swap,
        page_size: facts.page_size,
        allocatable: u64::try_from(node.status_allocatable).unwrap_or(0),
        cgroups,
        warnings: Vec::new(),
    })
}

/// The pod as the kubelet gets it.
fn prepare(pod: &Pod, node: &Node) -> Pod {
    let mut pod = pod.clone();
    pod.set_defaults(&node.config.gates);
    pod.set_uid();
    pod
}

fn same_uid(pods: &[Pod]) -> Option<Refusal> {
    let mut uids: Vec<(&str, &str)> = pods.iter().map(|pod| (pod.metadata.uid.as_str(), pod.name())).collect();
    uids.sort_unstable();
    let pair = uids.windows(2).find(|pair| pair[0].0 == pair[1].0)?;
    let message = format!("pods {} and {} have the same uid {}: give them different names", pair[0].1, pair[1].1, pair[0].0);
    Some(Refusal { stage: Stage::Pod, message })
}

/// The cgroups above the pods: what start and the first periodic update write, merged file by file.
fn tiers(node: &Node, sums: &QosSums) -> Vec<PlannedCgroup> {
    let mut targets = vec![Target::Kubepods, Target::Burstable, Target::BestEffort];
    let writes: Vec<TierWrite> = startup_writes(node).into_iter().chain(periodic_writes(node, sums)).collect();
    for target in [Target::SystemReserved, Target::KubeReserved] {
        if writes.iter().any(|write| write.target == target) {
            targets.push(target);
        }
    }
    let context = Context::node(node, sums);
    targets
        .into_iter()
        .map(|target| {
            let mut files = Files::new(&context);
            for write in writes.iter().filter(|write| write.target == target) {
                for (file, value, why) in &write.files {
                    files.set(file.name(), value.to_string(), why);
                }
                if let Some(shares) = write.cpu_shares {
                    files.kubelet_weight(shares);
                }
            }
            let (role, path) = match target {
                Target::Kubepods => (Role::Kubepods, node.hierarchy.kubepods().to_owned()),
                Target::Burstable => (qos_role(QosClass::Burstable), node.hierarchy.qos(QosClass::Burstable).to_owned()),
                Target::BestEffort => (qos_role(QosClass::BestEffort), node.hierarchy.qos(QosClass::BestEffort).to_owned()),
                Target::SystemReserved => system(node.hierarchy.named(&node.config.system_reserved_cgroup)),
                Target::KubeReserved => system(node.hierarchy.named(&node.config.kube_reserved_cgroup)),
            };
            PlannedCgroup { role, path, files: files.done(), oom_score_adj: None }
        })
        .collect()
}

fn qos_role(class: QosClass) -> Role {
    Role::Qos { class: class.name().to_lowercase() }
}

fn system(path: String) -> (Role, String) {
    (Role::System { name: path.trim_start_matches('/').to_owned() }, path)
}

/// oom_score_adj of a pause process (`defaultSandboxOOMAdj` of containerd's CRI plugin).
const SANDBOX_OOM_SCORE_ADJ: i32 = -998;

fn plan_pod(node: &Node, sums: &QosSums, pod: &Pod, policy: &PodPolicy, cgroups: &mut Vec<PlannedCgroup>) {
    let driver = node.hierarchy.driver();
    let uid = &pod.metadata.uid;
    let path = node.hierarchy.pod(policy.qos, uid);
    let child = |name: &str| container_cgroup(driver, &path, &container_id(uid, name, 0));
    let name = pod.name().to_owned();
    let context = Context::node(node, sums).with_pod(policy);
    let containers: Vec<PlannedCgroup> = pod
        .containers()
        .map(|container: &Container| {
            let values = ContainerPolicy::of(node, pod, policy, container);
            PlannedCgroup {
                role: Role::Container { pod: name.clone(), container: container.name.clone() },
                path: child(&container.name),
                files: container_files(&context.with_container(container), &values),
                oom_score_adj: Some(values.oom_score_adj.value),
            }
        })
        .collect();
    let sandbox = PlannedCgroup {
        role: Role::Sandbox { pod: name.clone() },
        path: child(SANDBOX),
        files: sandbox_files(&context),
        oom_score_adj: Some(SANDBOX_OOM_SCORE_ADJ),
    };
    cgroups.push(PlannedCgroup { role: Role::Pod { pod: name }, files: pod_files(&context, policy), path, oom_score_adj: None });
    cgroups.push(sandbox);
    cgroups.extend(containers);
}
