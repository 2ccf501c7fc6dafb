//! The walk over a node, its pods and their containers that makes the plan.

use super::files::{Files, container_files, pod_files, sandbox_files};
use super::rule::Context;
use super::traps::{self, Trap};
use super::{Budget, budget};
use crate::kubelet::{
    ContainerPolicy, Effective, KubeletConfiguration, Node, NodeFacts, NodeFiles, Pod, PodPolicy, QosSums, Refusal, SANDBOX,
    Stage, Target, TierWrite, Version, container_cgroup, container_id, periodic_writes, startup_writes,
};
use crate::record::{Plan, PlannedCgroup, Role, Rule, SCHEMA};
use std::collections::BTreeMap;

/// Everything a plan is made from, checked and complete: one node, its configuration, its pods with the API's defaults.
#[derive(Debug, Clone)]
pub struct Planning {
    node: Node,
    pods: Vec<Pod>,
    policies: Vec<PodPolicy>,
    sums: QosSums,
}

/// Why a file holds what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What the cgroup is for.
    pub role: Role,
    /// Its path.
    pub path: String,
    /// The file.
    pub file: String,
    /// What is written; None writes nothing, and the kernel's default or an older value stays.
    pub value: Option<String>,
    /// The rule.
    pub rule: Rule,
}

/// A cgroup with the rules of the files that are not written.
struct Built {
    cgroup: PlannedCgroup,
    unwritten: Vec<(&'static str, Rule)>,
}

/// oom_score_adj of a pause process (`defaultSandboxOOMAdj` of containerd's CRI plugin).
const SANDBOX_OOM_SCORE_ADJ: i32 = -998;

impl Planning {
    /// Checks everything.
    ///
    /// # Errors
    /// Every reason the kubelet of that version gives for not starting, or for which a pod cannot be planned.
    pub fn new(
        version: Version,
        config: &KubeletConfiguration,
        facts: &NodeFacts,
        pods: &[Pod],
    ) -> Result<Planning, Vec<Refusal>> {
        let node = Node::new(Effective::resolve(version, config)?, facts.clone());
        let mut reasons = Vec::new();
        reasons.extend(node.check_start().err().into_iter().flatten());
        reasons.extend(node.check_swap().err().into_iter().flatten());
        let pods: Vec<Pod> = pods.iter().map(|pod| prepare(pod, &node)).collect();
        reasons.extend(pods.iter().flat_map(Pod::check));
        reasons.extend(same_uid(&pods));
        if !reasons.is_empty() {
            return Err(reasons);
        }
        let policies: Vec<PodPolicy> = pods.iter().map(|pod| PodPolicy::of(&node, pod)).collect();
        let sums = QosSums::of(&policies);
        Ok(Planning { node, pods, policies, sums })
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The pods as the kubelet gets them.
    pub fn pods(&self) -> &[Pod] {
        &self.pods
    }

    /// The plan.
    pub fn plan(&self) -> Plan {
        let facts = &self.node.facts;
        Plan {
            schema: SCHEMA,
            kubernetes: self.node.config.version.to_string(),
            cgroup_driver: self.node.hierarchy.driver(),
            node_memory: facts.memory,
            node_swap: facts.swap,
            page_size: facts.page_size,
            allocatable: u64::try_from(self.node.status_allocatable).unwrap_or(0),
            cgroups: self.build().into_iter().map(|built| built.cgroup).collect(),
            warnings: self.traps().iter().map(Trap::to_string).collect(),
            stepped: BTreeMap::new(),
            fresh: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }

    /// What is legal but will surprise.
    pub fn traps(&self) -> Vec<Trap> {
        traps::find(&self.node, &self.sums, self.pods.iter().zip(&self.policies))
    }

    /// The node's memory as a budget. `unprotected_peak` is a measured figure: the most that everything unprotected held at once.
    pub fn budget(&self, unprotected_peak: Option<u64>) -> Budget {
        budget::of(&self.node, &self.sums, unprotected_peak)
    }

    /// The memory files of the node as they stand when these pods run from the start under this configuration.
    pub fn files(&self) -> NodeFiles {
        NodeFiles::new(&self.node, &self.pods)
    }

    /// Why a file of a cgroup holds what it holds. The cgroup is named by its role (`kubepods`, `burstable`, `pod/NAME`,
    /// `pod/NAME/CONTAINER`) or its path. `oom_score_adj` counts as a file of a container.
    pub fn explain(&self, cgroup: &str, file: &str) -> Option<Explanation> {
        let wanted = |built: &Built| built.cgroup.role.to_string() == cgroup || built.cgroup.path == cgroup;
        let Built { cgroup, mut unwritten } = self.build().into_iter().find(wanted)?;
        let (value, rule) = match cgroup.files.into_iter().find(|planned| planned.file == file) {
            Some(planned) => (Some(planned.value), planned.rule),
            None => {
                let index = unwritten.iter().position(|(name, _)| *name == file)?;
                let (name, rule) = unwritten.swap_remove(index);
                (cgroup.oom_score_adj.filter(|_| name == OOM_SCORE_ADJ).map(|score| score.to_string()), rule)
            }
        };
        Some(Explanation { role: cgroup.role, path: cgroup.path, file: file.to_owned(), value, rule })
    }

    fn build(&self) -> Vec<Built> {
        let mut built = self.tiers();
        for (pod, policy) in self.pods.iter().zip(&self.policies) {
            self.pod(pod, policy, &mut built);
        }
        built
    }

    /// The cgroups above the pods: what start and the first periodic update write, merged file by file.
    fn tiers(&self) -> Vec<Built> {
        let node = &self.node;
        let writes: Vec<TierWrite> = startup_writes(node).into_iter().chain(periodic_writes(node, &self.sums)).collect();
        let mut targets = vec![Target::Kubepods, Target::Burstable, Target::BestEffort];
        targets.extend(
            [Target::SystemReserved, Target::KubeReserved].into_iter().filter(|t| writes.iter().any(|write| write.target == *t)),
        );
        let context = Context::node(node, &self.sums);
        let build = |target| {
            let mut files = Files::new(&context);
            for write in writes.iter().filter(|write| write.target == target) {
                for (file, value, why) in &write.files {
                    files.set(file.name(), value.to_string(), why);
                }
                if let Some(shares) = write.cpu_shares {
                    files.kubelet_weight(shares);
                }
            }
            let path = node.target_path(target);
            let role = match target {
                Target::Kubepods => Role::Kubepods,
                Target::Burstable => Role::Qos { class: "burstable".to_owned() },
                Target::BestEffort => Role::Qos { class: "besteffort".to_owned() },
                Target::SystemReserved | Target::KubeReserved => Role::System { name: path.trim_start_matches('/').to_owned() },
            };
            let (files, unwritten) = files.done();
            Built { cgroup: PlannedCgroup { role, path, files, oom_score_adj: None }, unwritten }
        };
        targets.into_iter().map(build).collect()
    }

    fn pod(&self, pod: &Pod, policy: &PodPolicy, built: &mut Vec<Built>) {
        let node = &self.node;
        let uid = &pod.metadata.uid;
        let path = node.hierarchy.pod(policy.qos, uid);
        let child = |name: &str| container_cgroup(node.hierarchy.driver(), &path, &container_id(uid, name, 0));
        let name = pod.name().to_owned();
        let context = Context::node(node, &self.sums).with_pod(policy);
        let (files, unwritten) = pod_files(&context, policy);
        let role = Role::Pod { pod: name.clone() };
        built.push(Built { cgroup: PlannedCgroup { role, path: path.clone(), files, oom_score_adj: None }, unwritten });
        let (files, unwritten) = sandbox_files(&context);
        let role = Role::Sandbox { pod: name.clone() };
        let score = Some(SANDBOX_OOM_SCORE_ADJ);
        built.push(Built { cgroup: PlannedCgroup { role, path: child(SANDBOX), files, oom_score_adj: score }, unwritten });
        for container in pod.containers() {
            let values = ContainerPolicy::of(node, pod, policy, container);
            let context = context.with_container(container);
            let (files, mut unwritten) = container_files(&context, &values);
            unwritten.push((OOM_SCORE_ADJ, context.rule(values.oom_score_adj.why)));
            let role = Role::Container { pod: name.clone(), container: container.name.clone() };
            let (path, score) = (child(&container.name), Some(values.oom_score_adj.value));
            built.push(Built { cgroup: PlannedCgroup { role, path, files, oom_score_adj: score }, unwritten });
        }
    }
}

/// A container's oom_score_adj is explained like a file, though it belongs to its processes.
const OOM_SCORE_ADJ: &str = "oom_score_adj";

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
