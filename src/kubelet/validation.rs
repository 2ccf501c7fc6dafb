//! `ValidateKubeletConfiguration`, as far as memory is concerned, in the kubelet's order and words.

use super::config::KubeletConfiguration;
use super::gates::Gates;
use super::refusal::{Refusal, Stage};
use super::version::{Protection, Rules, Version};

/// Validates a configuration for a version with the gates in effect.
pub fn validate(version: Version, config: &KubeletConfiguration, gates: &Gates) -> Vec<Refusal> {
    let rules = version.rules();
    let mut reasons = Vec::new();
    check_swap(rules, gates, &config.memory_swap.swap_behavior, &mut reasons);
    check_enforce(rules, config, &mut reasons);
    check_factor(rules, gates, config.memory_throttling_factor, &mut reasons);
    check_policy(rules, gates, config.memory_reservation_policy.as_deref(), &mut reasons);
    reasons
}

fn refuse(reasons: &mut Vec<Refusal>, message: String) {
    reasons.push(Refusal::new(Stage::Validation, format_args!("invalid configuration: {message}")));
}

fn check_swap(rules: &Rules, gates: &Gates, behavior: &str, reasons: &mut Vec<Refusal>) {
    if !gates.node_swap {
        if !behavior.is_empty() {
            refuse(reasons, "memorySwap.swapBehavior cannot be set when NodeSwap feature flag is disabled".to_owned());
        }
        return;
    }
    let (other, known) = match rules.unlimited_swap {
        true => ("UnlimitedSwap", r#""", "LimitedSwap", or "UnlimitedSwap""#),
        false => ("NoSwap", r#""", "LimitedSwap" or "NoSwap""#),
    };
    if !behavior.is_empty() && behavior != "LimitedSwap" && behavior != other {
        refuse(reasons, format!("memorySwap.swapBehavior {behavior:?} must be one of: {known}"));
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

fn check_policy(rules: &Rules, gates: &Gates, set: Option<&str>, reasons: &mut Vec<Refusal>) {
    match set {
        _ if rules.protection == Protection::MinAlways => {}
        None | Some("" | "None") => {}
        Some("TieredReservation") => {
            if !gates.memory_qos {
                let message = r#"memoryReservationPolicy "TieredReservation" requires MemoryQoS feature gate to be enabled"#;
                refuse(reasons, message.to_owned());
            }
        }
        Some(other) => {
            let message = r#"specified for memoryReservationPolicy. Valid options are "None" or "TieredReservation""#;
            refuse(reasons, format!("option {other:?} {message}"));
        }
    }
}

fn check_enforce(rules: &Rules, config: &KubeletConfiguration, reasons: &mut Vec<Refusal>) {
    let pods = ["pods".to_owned()];
    let enforce = config.enforce_node_allocatable.as_deref().unwrap_or(&pods);
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
