//! The configuration as the kubelet uses it: defaults of its version filled in, validated.

use super::config::KubeletConfiguration;
use super::eviction::{MemoryThreshold, memory_threshold};
use super::gates::Gates;
use super::refusal::Refusal;
use super::validation::validate;
use super::version::{Protection, Rules, Version};
use crate::record::CgroupDriver;
use crate::units::Quantity;

/// What a container may do with swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwapBehavior {
    /// Nothing was said: unlimited in 1.29, none later.
    Unset,
    /// No swap.
    NoSwap,
    /// In proportion to the memory request.
    LimitedSwap,
    /// As much as there is; 1.29 only.
    UnlimitedSwap,
}

/// What enforceNodeAllocatable asks for, as far as memory is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Enforce {
    /// The limit of all pods.
    pub pods: bool,
    /// kubeReserved on kubeReservedCgroup.
    pub kube_reserved: bool,
    /// systemReserved on systemReservedCgroup.
    pub system_reserved: bool,
}

/// A validated configuration with the defaults of a version.
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    /// The kubelet's version.
    pub version: Version,
    /// The gates.
    pub gates: Gates,
    /// memoryThrottlingFactor; None computes no memory.high.
    pub factor: Option<f64>,
    /// Whether memoryReservationPolicy is TieredReservation. Always false before 1.36.
    pub tiered: bool,
    /// What containers may do with swap.
    pub swap: SwapBehavior,
    /// Whether containers are killed as a whole (memory.oom.group).
    pub oom_group: bool,
    /// failSwapOn.
    pub fail_swap_on: bool,
    /// Memory of kubeReserved.
    pub kube_reserved: Option<Quantity>,
    /// Memory of systemReserved.
    pub system_reserved: Option<Quantity>,
    /// CPU of both.
    pub reserved_cpu: Quantity,
    /// kubeReservedCgroup.
    pub kube_reserved_cgroup: String,
    /// systemReservedCgroup.
    pub system_reserved_cgroup: String,
    /// What is enforced.
    pub enforce: Enforce,
    /// The hard eviction threshold of memory.available, as written and parsed.
    pub eviction_hard_memory: Option<(String, MemoryThreshold)>,
    /// Whether CPU limits are enforced.
    pub cpu_cfs_quota: bool,
    /// cgroupDriver, when the file says it.
    pub cgroup_driver: Option<CgroupDriver>,
    /// cgroupRoot, when the file says it.
    pub cgroup_root: Option<String>,
    /// Percent of memory requests reserved per QoS class (alpha QOSReserved).
    pub qos_reserved_memory: Option<i64>,
}

impl Effective {
    /// Merges the gates, validates, and fills in the defaults of a version: what the kubelet does before anything else.
    ///
    /// # Errors
    /// Every reason the kubelet of that version gives for not starting, in its order and words. Only what concerns memory is checked.
    pub fn resolve(version: Version, config: &KubeletConfiguration) -> Result<Effective, Vec<Refusal>> {
        let gates = Gates::resolve(version, &config.feature_gates)?;
        let reasons = validate(version, config, &gates);
        if reasons.is_empty() { Self::fill(version, config, gates).map_err(|reason| vec![reason]) } else { Err(reasons) }
    }

    /// Fills in the defaults without validating.
    ///
    /// # Errors
    /// The hard eviction threshold of memory.available cannot be read.
    pub fn fill(version: Version, config: &KubeletConfiguration, gates: Gates) -> Result<Effective, Refusal> {
        let rules = version.rules();
        let eviction_hard_memory = memory_threshold(rules, config)?;
        let enforces = |name: &str| match &config.enforce_node_allocatable {
            Some(list) => list.iter().any(|entry| entry == name),
            None => name == "pods",
        };
        Ok(Effective {
            version,
            gates,
            factor: config.memory_throttling_factor.or(rules.default_factor),
            tiered: rules.protection != Protection::MinAlways
                && config.memory_reservation_policy.as_deref() == Some("TieredReservation"),
            swap: match config.memory_swap.swap_behavior.as_str() {
                _ if !gates.node_swap => SwapBehavior::NoSwap,
                "LimitedSwap" => SwapBehavior::LimitedSwap,
                "UnlimitedSwap" => SwapBehavior::UnlimitedSwap,
                "NoSwap" => SwapBehavior::NoSwap,
                _ => SwapBehavior::Unset,
            },
            oom_group: !(rules.single_process_oom_kill && config.single_process_oom_kill == Some(true)),
            fail_swap_on: config.fail_swap_on.unwrap_or(true),
            kube_reserved: config.kube_reserved.get("memory").copied(),
            system_reserved: config.system_reserved.get("memory").copied(),
            reserved_cpu: [&config.kube_reserved, &config.system_reserved]
                .into_iter()
                .filter_map(|r| r.get("cpu").copied())
                .sum(),
            kube_reserved_cgroup: config.kube_reserved_cgroup.clone().unwrap_or_default(),
            system_reserved_cgroup: config.system_reserved_cgroup.clone().unwrap_or_default(),
            enforce: Enforce {
                pods: enforces("pods"),
                kube_reserved: enforces("kube-reserved"),
                system_reserved: enforces("system-reserved"),
            },
            eviction_hard_memory,
            cpu_cfs_quota: config.cpu_cfs_quota.unwrap_or(true),
            cgroup_driver: config.cgroup_driver,
            cgroup_root: config.cgroup_root.clone(),
            qos_reserved_memory: config.qos_reserved.get("memory").and_then(|p| p.trim_end_matches('%').parse().ok()),
        })
    }

    /// What the version does.
    pub fn rules(&self) -> &'static Rules {
        self.version.rules()
    }
}
