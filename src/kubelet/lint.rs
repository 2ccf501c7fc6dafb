//! A lint of a KubeletConfiguration by version: what is refused, what is ignored, what resets something else, what to know.

use super::config::KubeletConfiguration;
use super::effective::Effective;
use super::gates;
use super::version::{Protection, Version};
use serde::Serialize;
use serde_json::Value;

/// The fields of the KubeletConfiguration by version. Facts of the releases' API types, read by a script.
const FIELDS: &str = include_str!("fields.tsv");

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// The kubelet does not start.
    Refused,
    /// The kubelet ignores it and says so in one line of its log at most.
    Ignored,
    /// It changes something that it does not name.
    Resets,
    /// It does what it says, which may not be what is wanted.
    Note,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The field, as a path.
    pub field: String,
    /// What about it.
    pub says: String,
}

/// Lints a configuration, as written, for a version. The typed form must come from the same text.
pub fn lint(version: Version, raw: &Value, config: &KubeletConfiguration) -> Vec<Finding> {
    let mut found = Vec::new();
    refused(version, config, &mut found);
    unknown_fields(version, raw, &mut found);
    eviction(version, config, &mut found);
    reservations(config, &mut found);
    memory(version, config, &mut found);
    found.sort_by(|a, b| (a.severity, &a.field).cmp(&(b.severity, &b.field)));
    found
}

fn push(found: &mut Vec<Finding>, severity: Severity, field: &str, says: impl Into<String>) {
    found.push(Finding { severity, field: field.to_owned(), says: says.into() });
}

fn refused(version: Version, config: &KubeletConfiguration, found: &mut Vec<Finding>) {
    for reason in Effective::resolve(version, config).err().into_iter().flatten() {
        let named = ["memoryThrottlingFactor", "memoryReservationPolicy", "memorySwap.swapBehavior", "enforceNodeAllocatable"];
        let named = named.into_iter().chain(["systemReservedCgroup", "kubeReservedCgroup"]);
        let gate = config.feature_gates.keys().find(|gate| reason.message.contains(gate.as_str()));
        let field = match (reason.stage, gate) {
            (super::Stage::Gates, Some(gate)) => format!("featureGates.{gate}"),
            (super::Stage::Gates, None) => "featureGates".to_owned(),
            (super::Stage::Eviction, _) => "evictionHard".to_owned(),
            _ => named.clone().find(|field| reason.message.contains(field)).unwrap_or_default().to_owned(),
        };
        let hint = gate
            .filter(|gate| {
                reason.message.starts_with("unrecognized") && gates::similar(version, gate).is_some_and(|s| s != **gate)
            })
            .and_then(|gate| gates::similar(version, gate))
            .map_or(String::new(), |known| format!(" (did you mean {known}?)"));
        push(found, Severity::Refused, &field, format!("{reason}{hint}"));
    }
}

fn unknown_fields(version: Version, raw: &Value, found: &mut Vec<Finding>) {
    let index = Version::ALL.iter().position(|known| *known == version).unwrap_or(0);
    let row = |name: &str| FIELDS.lines().skip(1).find(|line| line.split('\t').next() == Some(name));
    for name in raw.as_object().into_iter().flatten().map(|(name, _)| name) {
        if ["apiVersion", "kind"].contains(&name.as_str()) {
            continue;
        }
        match row(name) {
            Some(line) if line.split('\t').nth(index + 1) == Some("+") => {}
            Some(line) => {
                let since = Version::ALL.into_iter().zip(line.split('\t').skip(1)).find(|(_, known)| *known == "+");
                let since = since.map_or(String::new(), |(since, _)| format!(", it is known from {since}"));
                push(found, Severity::Ignored, name, format!("{version} does not know this field{since}"));
            }
            None => {
                let known = FIELDS.lines().skip(1).filter_map(|line| line.split('\t').next());
                let near = known.into_iter().find(|known| known.eq_ignore_ascii_case(name));
                let hint = near.map_or(String::new(), |near| format!(", did you mean {near}?"));
                push(found, Severity::Ignored, name, format!("no known version has this field{hint}"));
            }
        }
    }
}

fn eviction(version: Version, config: &KubeletConfiguration, found: &mut Vec<Finding>) {
    let Some(hard) = &config.eviction_hard else { return };
    let merges = version.rules().merge_default_eviction && config.merge_default_eviction_settings == Some(true);
    let defaults = ["memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree"];
    let lost: Vec<&str> = defaults.into_iter().filter(|signal| !hard.contains_key(*signal)).collect();
    if !merges && !lost.is_empty() {
        let how = match version.rules().merge_default_eviction {
            true => "write them out, or set mergeDefaultEvictionSettings",
            false => "write them out",
        };
        let says = format!("a map that is present replaces every default: {} have no threshold now; {how}", lost.join(", "));
        push(found, Severity::Resets, "evictionHard", says);
    }
    for (signal, text) in hard.iter().filter(|(_, text)| *text == "0%" || *text == "100%") {
        push(found, Severity::Ignored, &format!("evictionHard.{signal}"), format!("{text} means no threshold"));
    }
}

fn reservations(config: &KubeletConfiguration, found: &mut Vec<Finding>) {
    let enforced = config.enforce_node_allocatable.clone().unwrap_or_else(|| vec!["pods".to_owned()]);
    let enforces = |name: &str| enforced.iter().any(|value| value == name);
    let both = [
        ("systemReserved", "system-reserved", &config.system_reserved),
        ("kubeReserved", "kube-reserved", &config.kube_reserved),
    ];
    for (field, name, reserved) in both {
        match (enforces(name), reserved.contains_key("memory")) {
            (true, false) => {
                push(
                    found,
                    Severity::Ignored,
                    field,
                    format!("{name} is enforced, but no memory is reserved: no limit is written"),
                );
            }
            (false, true) => {
                let says = "it is taken off what pods may use, but nothing holds the daemons to it (enforceNodeAllocatable)";
                push(found, Severity::Note, field, says);
            }
            _ => {}
        }
    }
    if !enforces("pods") {
        let says = "without \"pods\" kubepods may use all of the node's memory, reservations or not";
        push(found, Severity::Note, "enforceNodeAllocatable", says);
    }
}

fn memory(version: Version, config: &KubeletConfiguration, found: &mut Vec<Finding>) {
    let Ok(effective) = Effective::resolve(version, config) else { return };
    let rules = version.rules();
    if let Some(factor) = config.memory_throttling_factor.filter(|_| !effective.gates.memory_qos) {
        push(found, Severity::Ignored, "memoryThrottlingFactor", format!("{factor} does nothing while MemoryQoS is off"));
    }
    if let Some(factor) = config.memory_throttling_factor.filter(|_| effective.gates.memory_qos && rules.default_factor.is_none())
    {
        let says = format!("{factor} switches throttling on; leave it out to have none in {version}");
        push(found, Severity::Note, "memoryThrottlingFactor", says);
    }
    if config.memory_reservation_policy.is_some() && rules.protection == Protection::MinAlways {
        let says = "before 1.36 there is no policy: memory.min is written for every pod that requests memory";
        if effective.gates.memory_qos {
            push(found, Severity::Note, "memoryReservationPolicy", says);
        }
    }
    if rules.unlimited_swap && effective.gates.node_swap && config.memory_swap.swap_behavior.is_empty() {
        push(found, Severity::Note, "memorySwap.swapBehavior", "unset means unlimited swap for every pod in 1.29");
    }
    if !effective.gates.node_swap && config.fail_swap_on == Some(false) {
        push(found, Severity::Note, "failSwapOn", "the kubelet starts beside swap, but no pod may use it: NodeSwap is off");
    }
    if config.fail_swap_on != Some(false) && !config.memory_swap.swap_behavior.is_empty() {
        let says = "failSwapOn is true unless set to false: with swap on, the kubelet does not start";
        push(found, Severity::Note, "failSwapOn", says);
    }
}

/// What the CLI `kind` writes into every kubelet's configuration by itself (its kubeadm template), merged under what a user sets.
pub fn kind_defaults() -> Value {
    serde_json::json!({
        "cgroupRoot": "/kubelet",
        "failSwapOn": false,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": { "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(version: Version, raw: &str) -> Vec<String> {
        let raw: Value = serde_json::from_str(raw).unwrap();
        let config = serde_json::from_value(raw.clone()).unwrap();
        lint(version, &raw, &config).into_iter().map(|f| format!("{:?} {}: {}", f.severity, f.field, f.says)).collect()
    }

    #[test]
    fn a_misspelt_gate_is_refused_with_a_hint() {
        let found = findings(Version::V1_37, r#"{"featureGates":{"memoryQos":true}}"#);
        assert_eq!(found, ["Refused featureGates.memoryQos: unrecognized feature gate: memoryQos (did you mean MemoryQoS?)"]);
    }

    #[test]
    fn a_field_of_a_later_version_is_ignored() {
        let found = findings(Version::V1_34, r#"{"memoryReservationPolicy":"TieredReservation","cgroupsPerQos":true}"#);
        assert_eq!(
            found,
            [
                "Ignored cgroupsPerQos: no known version has this field, did you mean cgroupsPerQOS?",
                "Ignored memoryReservationPolicy: 1.34 does not know this field, it is known from 1.36",
            ]
        );
    }

    #[test]
    fn kind_switches_memory_eviction_off() {
        let found = findings(Version::V1_37, &kind_defaults().to_string());
        assert!(found.iter().any(|f| f.starts_with("Resets evictionHard") && f.contains("memory.available")), "{found:?}");
    }

    #[test]
    fn everything_refused_is_told_at_once() {
        let raw = r#"{"featureGates":{"MemoryQoS":false},"memoryThrottlingFactor":1.5,"memoryReservationPolicy":"Hard",
                      "memorySwap":{"swapBehavior":"UnlimitedSwap"}}"#;
        let found = findings(Version::V1_37, raw);
        assert_eq!(found.iter().filter(|f| f.starts_with("Refused")).count(), 4, "{found:?}");
    }
}
