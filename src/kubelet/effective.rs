//! The configuration as the kubelet uses it: defaults of its version filled in, validated.

use super::config::KubeletConfiguration;
use super::eviction::{MemoryThreshold, memory_threshold};
use super::gates::Gates;
use super::refusal::{Refusal, Stage};
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
    /// Fills in the defaults of a version and validates, as the kubelet does before it does anything else.
    ///
    /// # Errors
    /// Every reason the kubelet of that version gives for not starting, in its order and words. Only what concerns memory is checked.
    pub fn resolve(version: Version, config: &KubeletConfiguration) -> Result<Effective, Vec<Refusal>> {
        let rules = version.rules();
        let gates = Gates::resolve(version, &config.feature_gates)?;
        let factor = config.memory_throttling_factor.or(rules.default_factor);
        let enforce = config.enforce_node_allocatable.clone().unwrap_or_else(|| vec!["pods".to_owned()]);
        let mut reasons = Vec::new();
        let swap = swap(rules, &gates, &config.memory_swap.swap_behavior, &mut reasons);
        check_enforce(rules, config, &enforce, &mut reasons);
        check_factor(rules, &gates, config.memory_throttling_factor, &mut reasons);
        let tiered = policy(rules, &gates, config.memory_reservation_policy.as_deref(), &mut reasons);
        if !reasons.is_empty() {
            return Err(reasons);
        }
        let eviction_hard_memory = memory_threshold(rules, config).map_err(|reason| vec![reason])?;
        let has = |name: &str| enforce.iter().any(|e| e == name);
        Ok(Effective {
            version,
            gates,
            factor,
            tiered,
            swap,
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
            enforce: Enforce { pods: has("pods"), kube_reserved: has("kube-reserved"), system_reserved: has("system-reserved") },
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

fn refuse(reasons: &mut Vec<Refusal>, message: String) {
    reasons.push(Refusal::new(Stage::Validation, format_args!("invalid configuration: {message}")));
}

fn swap(rules: &Rules, gates: &Gates, behavior: &str, reasons: &mut Vec<Refusal>) -> SwapBehavior {
    if !gates.node_swap {
        if !behavior.is_empty() {
            refuse(reasons, "memorySwap.swapBehavior cannot be set when NodeSwap feature flag is disabled".to_owned());
        }
        return SwapBehavior::NoSwap;
    }
    match behavior {
        "" => SwapBehavior::Unset,
        "LimitedSwap" => SwapBehavior::LimitedSwap,
        "NoSwap" if !rules.unlimited_swap => SwapBehavior::NoSwap,
        "UnlimitedSwap" if rules.unlimited_swap => SwapBehavior::UnlimitedSwap,
        other => {
            let known = match rules.unlimited_swap {
                true => r#""", "LimitedSwap", or "UnlimitedSwap""#,
                false => r#""", "LimitedSwap" or "NoSwap""#,
            };
            refuse(reasons, format!("memorySwap.swapBehavior {other:?} must be one of: {known}"));
            SwapBehavior::Unset
        }
    }
}

fn check_factor(rules: &Rules, gates: &Gates, set: Option<f64>, reasons: &mut Vec<Refusal>) {
    let Some(factor) = set else { return };
    // 0.9 was the default to 1.36; files that spell it out keep working.
    if rules.factor_needs_gate && !gates.memory_qos && factor != 0.9 {
        refuse(reasons, "memoryThrottlingFactor must not be set when MemoryQoS feature gate is disabled".to_owned());
    }
    if factor <= 0.0 || factor > 1.0 {
        refuse(reasons, format!("memoryThrottlingFactor {factor} must be greater than 0 and less than or equal to 1.0"));
    }
}

fn policy(rules: &Rules, gates: &Gates, set: Option<&str>, reasons: &mut Vec<Refusal>) -> bool {
    if rules.protection == Protection::MinAlways {
        return false;
    }
    match set {
        None | Some("" | "None") => false,
        Some("TieredReservation") => {
            if !gates.memory_qos {
                let message = r#"memoryReservationPolicy "TieredReservation" requires MemoryQoS feature gate to be enabled"#;
                refuse(reasons, message.to_owned());
            }
            true
        }
        Some(other) => {
            let message = r#"specified for memoryReservationPolicy. Valid options are "None" or "TieredReservation""#;
            refuse(reasons, format!("option {other:?} {message}"));
            false
        }
    }
}

fn check_enforce(rules: &Rules, config: &KubeletConfiguration, enforce: &[String], reasons: &mut Vec<Refusal>) {
    let field = "enforceNodeAllocatable (--enforce-node-allocatable)";
    let cgroups_per_qos = config.cgroups_per_qos.unwrap_or(true);
    let has = |name: &str| enforce.iter().any(|e| e == name);
    if !rules.compressible_reserved && !cgroups_per_qos && !enforce.is_empty() {
        refuse(reasons, format!("{field} is not supported unless cgroupsPerQOS (--cgroups-per-qos) is set to true"));
    }
    if rules.compressible_reserved {
        for whose in ["system-reserved", "kube-reserved"] {
            let compressible = format!("{whose}-compressible");
            if has(whose) && has(&compressible) {
                refuse(reasons, format!("both {whose:?} and {compressible:?} cannot be specified together in {field}"));
            }
        }
    }
    let empty = |cgroup: &Option<String>| cgroup.as_deref().unwrap_or_default().is_empty();
    let mut seen: Vec<&str> = Vec::new();
    for value in enforce {
        if rules.compressible_reserved && seen.contains(&value.as_str()) {
            refuse(reasons, format!("duplicated enforcements {value:?} in {field}"));
            continue;
        }
        seen.push(value);
        let whose = value.strip_suffix("-compressible").filter(|_| rules.compressible_reserved).unwrap_or(value);
        match whose {
            "pods" if value == "pods" => {}
            "system-reserved" | "kube-reserved" => {
                let (cgroup, name, flag) = match whose {
                    "system-reserved" => (&config.system_reserved_cgroup, "systemReservedCgroup", "--system-reserved-cgroup"),
                    _ => (&config.kube_reserved_cgroup, "kubeReservedCgroup", "--kube-reserved-cgroup"),
                };
                if empty(cgroup) {
                    let when = match rules.compressible_reserved {
                        true => format!("{whose:?} or \"{whose}-compressible\" included in"),
                        false => format!("{whose:?} contained in"),
                    };
                    refuse(reasons, format!("{name} ({flag}) must be specified when {when} {field}"));
                }
            }
            "none" if value == "none" => {
                if enforce.len() > 1 {
                    let message = r#"may not contain additional enforcements when "none" is specified"#;
                    refuse(reasons, format!("{field} {message}"));
                }
                continue;
            }
            _ => {
                let known = match rules.compressible_reserved {
                    true => {
                        r#""pods", "system-reserved", "system-reserved-compressible", "kube-reserved", "kube-reserved-compressible" or "none""#
                    }
                    false => r#""pods", "system-reserved", "kube-reserved", or "none""#,
                };
                refuse(reasons, format!("option {value:?} specified for {field}. Valid options are {known}"));
                continue;
            }
        }
        if rules.compressible_reserved && !cgroups_per_qos {
            refuse(reasons, format!("cgroupsPerQOS (--cgroups-per-qos) must be set to true when {value:?} contained in {field}"));
        }
    }
}
