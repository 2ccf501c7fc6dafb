//! The cgroups above the pods: kubepods, the QoS classes, the reservations; at start and in the periodic update.

use super::cpu::{MIN_SHARES, shares};
use super::node::Node;
use super::pod::QosClass;
use super::pod_policy::PodPolicy;
use super::value::{Limit, Why};
use super::version::Protection;
use super::why;

/// A cgroup above the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// kubepods.
    Kubepods,
    /// The parent of Burstable pods.
    Burstable,
    /// The parent of BestEffort pods.
    BestEffort,
    /// systemReservedCgroup.
    SystemReserved,
    /// kubeReservedCgroup.
    KubeReserved,
}

impl Node {
    /// Where a cgroup above the pods lies.
    pub fn target_path(&self, target: Target) -> String {
        match target {
            Target::Kubepods => self.hierarchy.kubepods().to_owned(),
            Target::Burstable => self.hierarchy.qos(QosClass::Burstable).to_owned(),
            Target::BestEffort => self.hierarchy.qos(QosClass::BestEffort).to_owned(),
            Target::SystemReserved => self.hierarchy.named(&self.config.system_reserved_cgroup),
            Target::KubeReserved => self.hierarchy.named(&self.config.kube_reserved_cgroup),
        }
    }
}

/// A control file of such a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TierFile {
    /// memory.max.
    Max,
    /// memory.min.
    Min,
    /// memory.low.
    Low,
}

impl TierFile {
    /// The file's name.
    pub const fn name(self) -> &'static str {
        match self {
            TierFile::Max => "memory.max",
            TierFile::Min => "memory.min",
            TierFile::Low => "memory.low",
        }
    }
}

/// One write of the kubelet's cgroup manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierWrite {
    /// The cgroup.
    pub target: Target,
    /// Whether the cgroup is created by it (it did not exist before).
    pub creates: bool,
    /// CPU shares. Those of kubepods need the node's CPU, which may be unknown.
    pub cpu_shares: Option<u64>,
    /// Files with their rules.
    pub files: Vec<(TierFile, Limit, &'static Why)>,
}

/// What the active pods add up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QosSums {
    /// Memory requests of Guaranteed pods in bytes.
    pub guaranteed: i64,
    /// Memory requests of Burstable pods in bytes.
    pub burstable: i64,
    /// CPU requests of Burstable pods in thousandths of a core.
    pub burstable_cpu: i64,
}

impl QosSums {
    /// Counts a pod.
    pub fn add(&mut self, pod: &PodPolicy) {
        match pod.qos {
            QosClass::Guaranteed => self.guaranteed += pod.qos_sum_memory,
            QosClass::Burstable => {
                self.burstable += pod.qos_sum_memory;
                self.burstable_cpu += pod.requests.cpu_millis();
            }
            QosClass::BestEffort => {}
        }
    }

    /// Sums up pods.
    pub fn of<'a>(pods: impl IntoIterator<Item = &'a PodPolicy>) -> Self {
        let mut sums = QosSums::default();
        pods.into_iter().for_each(|pod| sums.add(pod));
        sums
    }
}

/// What a kubelet writes when it starts on a node that has none of its cgroups, in its order.
///
/// `createNodeAllocatableCgroups`, then `QOSContainerManager.Start`, then `enforceNodeAllocatableCgroups`.
pub fn startup_writes(node: &Node) -> Vec<TierWrite> {
    let config = &node.config;
    let resets = config.rules().protection == Protection::AtStart && !(config.gates.memory_qos && config.tiered);
    let zero = |file, why| (file, Limit::Number(0), why);
    let root = |creates| TierWrite {
        target: Target::Kubepods,
        creates,
        cpu_shares: node.facts.cpu_millis.map(|all| {
            let left = all as i64 - if config.enforce.pods { config.reserved_cpu.milli_ceil() } else { 0 };
            shares(left.max(0))
        }),
        files: vec![match config.enforce.pods {
            true => (TierFile::Max, Limit::number(node.allocatable_absolute), &why::KUBEPODS_MAX),
            false => (TierFile::Max, Limit::Number(node.facts.memory), &why::KUBEPODS_MAX_CAPACITY),
        }],
    };
    let mut writes = vec![
        root(true),
        TierWrite {
            target: Target::Burstable,
            creates: true,
            cpu_shares: None,
            files: if resets { vec![zero(TierFile::Low, &why::START_RESET)] } else { Vec::new() },
        },
        TierWrite { target: Target::BestEffort, creates: true, cpu_shares: Some(MIN_SHARES), files: Vec::new() },
    ];
    if resets {
        let files = vec![zero(TierFile::Min, &why::START_RESET), zero(TierFile::Low, &why::START_RESET)];
        writes.push(TierWrite { target: Target::Kubepods, creates: false, cpu_shares: None, files });
    }
    let mut enforced = root(false);
    if resets && !config.gates.memory_qos {
        enforced.files.extend([zero(TierFile::Min, &why::START_RESET), zero(TierFile::Low, &why::START_RESET)]);
    }
    writes.push(enforced);
    let reservations = [
        (config.enforce.system_reserved, Target::SystemReserved, config.system_reserved, &why::SYSTEM_RESERVED),
        (config.enforce.kube_reserved, Target::KubeReserved, config.kube_reserved, &why::KUBE_RESERVED),
    ];
    for (enforced, target, reserved, why) in reservations {
        if let Some(reserved) = reserved.filter(|_| enforced) {
            let value = Limit::number(reserved.ceil());
            let mut files = vec![(TierFile::Max, value, why)];
            if config.gates.memory_qos {
                files.push((TierFile::Min, value, &why::RESERVED_MIN));
            }
            writes.push(TierWrite { target, creates: false, cpu_shares: None, files });
        }
    }
    writes
}

/// What the update of the QoS cgroups writes: right after start, every minute, and around the start and end of pods (`UpdateCgroups`).
pub fn periodic_writes(node: &Node, sums: &QosSums) -> Vec<TierWrite> {
    let config = &node.config;
    let (both, burstable) = (sums.guaranteed + sums.burstable, sums.burstable);
    let (mut root, mut tier, mut best_effort) = (Vec::new(), Vec::new(), Vec::new());
    if config.gates.memory_qos {
        let number = Limit::number;
        match config.rules().protection {
            Protection::MinAlways => {
                if both > 0 {
                    root.push((TierFile::Min, number(both), &why::KUBEPODS_MIN));
                }
                if burstable > 0 {
                    tier.push((TierFile::Min, number(burstable), &why::BURSTABLE_MIN));
                }
            }
            Protection::Periodic if config.tiered => {
                root.push((TierFile::Min, number(both), &why::KUBEPODS_MIN));
                tier.push((TierFile::Low, number(burstable), &why::BURSTABLE_LOW));
            }
            Protection::Periodic => {
                root.push((TierFile::Min, Limit::Number(0), &why::PERIODIC_ZERO));
                tier.push((TierFile::Low, Limit::Number(0), &why::PERIODIC_ZERO));
            }
            Protection::AtStart if config.tiered => {
                root.push((TierFile::Min, number(both), &why::KUBEPODS_MIN));
                root.push((TierFile::Low, number(burstable), &why::KUBEPODS_LOW));
                tier.push((TierFile::Low, number(burstable), &why::BURSTABLE_LOW));
            }
            Protection::AtStart => {}
        }
    }
    if let Some(percent) = config.qos_reserved_memory.filter(|_| config.gates.qos_reserved) {
        let limit = node.allocatable_absolute - sums.guaranteed * percent / 100;
        tier.push((TierFile::Max, Limit::number(limit), &why::QOS_RESERVED));
        best_effort.push((TierFile::Max, Limit::number(limit - burstable * percent / 100), &why::QOS_RESERVED));
    }
    let write = |target, cpu_shares, files| TierWrite { target, creates: false, cpu_shares, files };
    vec![
        write(Target::Kubepods, None, root),
        write(Target::Burstable, Some(shares(sums.burstable_cpu)), tier),
        write(Target::BestEffort, Some(MIN_SHARES), best_effort),
    ]
}
