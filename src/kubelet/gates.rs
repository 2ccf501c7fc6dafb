//! Feature gates: what the file sets, merged over the version's defaults.

use super::refusal::{Refusal, Stage};
use super::version::{Gate, Rules, Version};
use std::collections::BTreeMap;

/// The gates that the memory policy reads, resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gates {
    /// MemoryQoS.
    pub memory_qos: bool,
    /// NodeSwap.
    pub node_swap: bool,
    /// PodLevelResources.
    pub pod_level_resources: bool,
    /// InPlacePodVerticalScaling.
    pub in_place: bool,
    /// InPlacePodLevelResourcesVerticalScaling.
    pub in_place_pod_level: bool,
    /// PodLevelResourcesFixDefaulting.
    pub fix_defaulting: bool,
    /// PodLevelResourcesFixKubeletQOSClass.
    pub fix_qos_class: bool,
    /// QOSReserved.
    pub qos_reserved: bool,
}

/// The name, the version's state and the place of each gate.
type Entry = (&'static str, fn(&Rules) -> Gate, fn(&mut Gates) -> &mut bool);

const TABLE: [Entry; 8] = [
    ("InPlacePodLevelResourcesVerticalScaling", |r| r.in_place_pod_level, |g| &mut g.in_place_pod_level),
    ("InPlacePodVerticalScaling", |r| r.in_place, |g| &mut g.in_place),
    ("MemoryQoS", |r| r.memory_qos, |g| &mut g.memory_qos),
    ("NodeSwap", |r| r.node_swap, |g| &mut g.node_swap),
    ("PodLevelResources", |r| r.pod_level_resources, |g| &mut g.pod_level_resources),
    ("PodLevelResourcesFixDefaulting", |r| r.fix_defaulting, |g| &mut g.fix_defaulting),
    ("PodLevelResourcesFixKubeletQOSClass", |r| r.fix_qos_class, |g| &mut g.fix_qos_class),
    ("QOSReserved", |r| r.qos_reserved, |g| &mut g.qos_reserved),
];

/// Who depends on whom, by name, among the gates of the table.
const DEPENDENCIES: [(&str, &[&str]); 3] = [
    ("InPlacePodLevelResourcesVerticalScaling", &["InPlacePodVerticalScaling", "PodLevelResources"]),
    ("PodLevelResourcesFixDefaulting", &["PodLevelResources"]),
    ("PodLevelResourcesFixKubeletQOSClass", &["PodLevelResources"]),
];

impl Gates {
    /// Merges what a file sets over the version's defaults (`SetFromMap`).
    ///
    /// # Errors
    /// A gate the version locks, does not know, or whose dependency is off.
    pub fn resolve(version: Version, set: &BTreeMap<String, bool>) -> Result<Gates, Vec<Refusal>> {
        let rules = version.rules();
        let mut gates = Gates {
            memory_qos: false,
            node_swap: false,
            pod_level_resources: false,
            in_place: false,
            in_place_pod_level: false,
            fix_defaulting: false,
            fix_qos_class: false,
            qos_reserved: false,
        };
        let mut reasons = Vec::new();
        for (name, state, place) in TABLE {
            let state = state(rules);
            let wanted = set.get(name).copied();
            match (state, wanted) {
                (Gate::Unknown, Some(_)) => reasons.push(format!("unrecognized feature gate: {name}")),
                (Gate::Locked, Some(false)) => {
                    reasons.push(format!("cannot set feature gate {name} to false, feature is locked to true"));
                }
                _ => {}
            }
            *place(&mut gates) = wanted.unwrap_or(matches!(state, Gate::On | Gate::Locked));
        }
        if rules.gate_dependencies && reasons.is_empty() {
            let on = |name: &str| {
                let mut gates = gates;
                TABLE.iter().find(|entry| entry.0 == name).is_some_and(|entry| *entry.2(&mut gates))
            };
            for (name, needs) in DEPENDENCIES {
                let off: Vec<&str> = needs.iter().copied().filter(|need| !on(need)).collect();
                if on(name) && !off.is_empty() {
                    let off = off.join(" ");
                    reasons.push(format!("{name} is enabled, but depends on features that are disabled: [{off}]"));
                }
            }
        }
        if reasons.is_empty() {
            return Ok(gates);
        }
        Err(reasons.into_iter().map(|reason| Refusal::new(Stage::Gates, reason)).collect())
    }
}
