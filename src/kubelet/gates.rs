//! Feature gates: the state of every gate in every version, and what a file sets merged over it.

use super::refusal::{Refusal, Stage};
use super::version::Version;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Every gate the kubelet knows: name, state by version, needed gates. Facts of the releases' feature tables, read by a script.
///
/// `+` is on and `-` off by default, then the stage, then `!` where it cannot be changed; `.` is unknown to that version.
const TABLE: &str = include_str!("gates.tsv");

/// How a version treats a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// Whether it is on unless set.
    pub on: bool,
    /// alpha, beta, ga or deprecated.
    pub stage: &'static str,
    /// Whether setting it to the other value stops the kubelet.
    pub locked: bool,
}

struct Row {
    /// By the order of [`Version::ALL`].
    states: Vec<Option<Gate>>,
    needs: Vec<&'static str>,
}

static ROWS: LazyLock<BTreeMap<&'static str, Row>> = LazyLock::new(|| {
    let lines = TABLE.lines().skip(1).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let mut columns = line.split('\t');
            let name = columns.next().unwrap_or_default();
            let states = columns.by_ref().take(Version::ALL.len()).map(state).collect();
            let needs = columns.next().unwrap_or(".");
            (name, Row { states, needs: needs.split(' ').filter(|need| *need != ".").collect() })
        })
        .collect()
});

fn state(text: &'static str) -> Option<Gate> {
    let (on, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (true, rest),
        ("-", rest) => (false, rest),
        _ => return None,
    };
    Some(Gate { on, stage: rest.trim_end_matches('!'), locked: rest.ends_with('!') })
}

impl Version {
    /// The state of a gate in this version; None when the version does not know it, so that setting it stops the kubelet.
    pub fn gate(self, name: &str) -> Option<Gate> {
        let index = Version::ALL.iter().position(|version| *version == self)?;
        ROWS.get(name)?.states.get(index).copied().flatten()
    }
}

/// The gates that the memory policy reads, resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gates {
    /// MemoryQoS (KEP-2570).
    pub memory_qos: bool,
    /// NodeSwap (KEP-2400).
    pub node_swap: bool,
    /// PodLevelResources (KEP-2837).
    pub pod_level_resources: bool,
    /// Whether the version knows spec.resources at all, whatever its gate says.
    pub pod_level_known: bool,
    /// InPlacePodVerticalScaling (KEP-1287).
    pub in_place: bool,
    /// InPlacePodLevelResourcesVerticalScaling (KEP-5419).
    pub in_place_pod_level: bool,
    /// PodLevelResourcesFixDefaulting.
    pub fix_defaulting: bool,
    /// PodLevelResourcesFixKubeletQOSClass.
    pub fix_qos_class: bool,
    /// QOSReserved.
    pub qos_reserved: bool,
}

impl Gates {
    /// Merges what a file sets over the version's defaults (`SetFromMap`). AllAlpha and AllBeta set what is not set by name.
    ///
    /// # Errors
    /// A gate the version locks, does not know, or whose dependency is off.
    pub fn resolve(version: Version, set: &BTreeMap<String, bool>) -> Result<Gates, Vec<Refusal>> {
        let mut reasons = Vec::new();
        for (name, wanted) in set {
            match version.gate(name) {
                None => reasons.push(format!("unrecognized feature gate: {name}")),
                Some(gate) if gate.locked && gate.on != *wanted => {
                    let locked = gate.on;
                    reasons.push(format!("cannot set feature gate {name} to {wanted}, feature is locked to {locked}"));
                }
                Some(_) => {}
            }
        }
        let on = |name: &str| {
            let Some(gate) = version.gate(name) else { return false };
            let of_stage = match gate.stage {
                "alpha" => set.get("AllAlpha"),
                "beta" => set.get("AllBeta"),
                _ => None,
            };
            set.get(name).or(of_stage.filter(|_| !gate.locked)).copied().unwrap_or(gate.on)
        };
        // The defaults of a release satisfy each other.
        if version.rules().gate_dependencies && reasons.is_empty() && !set.is_empty() {
            for (name, row) in ROWS.iter().filter(|(name, _)| on(name)) {
                let off: Vec<&str> = row.needs.iter().copied().filter(|need| version.gate(need).is_some() && !on(need)).collect();
                if !off.is_empty() {
                    let off = off.join(" ");
                    reasons.push(format!("{name} is enabled, but depends on features that are disabled: [{off}]"));
                }
            }
        }
        if !reasons.is_empty() {
            return Err(reasons.into_iter().map(|reason| Refusal::new(Stage::Gates, reason)).collect());
        }
        Ok(Gates {
            memory_qos: on("MemoryQoS"),
            node_swap: on("NodeSwap"),
            pod_level_resources: on("PodLevelResources"),
            pod_level_known: version.gate("PodLevelResources").is_some(),
            in_place: on("InPlacePodVerticalScaling"),
            in_place_pod_level: on("InPlacePodLevelResourcesVerticalScaling"),
            fix_defaulting: on("PodLevelResourcesFixDefaulting"),
            fix_qos_class: on("PodLevelResourcesFixKubeletQOSClass"),
            qos_reserved: on("QOSReserved"),
        })
    }
}

/// Names of gates that look like this one, in a version.
pub(super) fn similar(version: Version, name: &str) -> Option<&'static str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', '_'], "");
    let wanted = plain(name);
    ROWS.keys().copied().find(|known| plain(known) == wanted && version.gate(known).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(gates: &[(&str, bool)]) -> BTreeMap<String, bool> {
        gates.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn the_states_of_the_policy_document() {
        let on = |version: Version, name| version.gate(name).map(|gate| (gate.on, gate.stage, gate.locked));
        for version in Version::ALL {
            let beta = version == Version::V1_37;
            assert_eq!(on(version, "MemoryQoS"), Some(if beta { (true, "beta", false) } else { (false, "alpha", false) }));
        }
        assert_eq!(on(Version::V1_29, "NodeSwap"), Some((false, "beta", false)));
        assert_eq!(on(Version::V1_32, "NodeSwap"), Some((true, "beta", false)));
        assert_eq!(on(Version::V1_34, "NodeSwap"), Some((true, "ga", true)));
        assert_eq!(on(Version::V1_29, "PodLevelResources"), None);
        assert_eq!(on(Version::V1_34, "PodLevelResources"), Some((true, "beta", false)));
        assert_eq!(on(Version::V1_35, "InPlacePodLevelResourcesVerticalScaling"), Some((false, "alpha", false)));
        assert_eq!(on(Version::V1_36, "InPlacePodLevelResourcesVerticalScaling"), Some((true, "beta", false)));
        assert_eq!(on(Version::V1_36, "PodLevelResourcesFixDefaulting"), None);
        assert_eq!(on(Version::V1_37, "DRANodeAllocatableResources"), Some((false, "alpha", false)));
    }

    #[test]
    fn all_alpha_switches_memory_qos_on_in_1_36() {
        assert!(Gates::resolve(Version::V1_36, &set(&[("AllAlpha", true)])).is_ok_and(|gates| gates.memory_qos));
        assert!(Gates::resolve(Version::V1_37, &set(&[("AllBeta", false), ("MemoryQoS", true)])).is_ok_and(|g| g.memory_qos));
    }

    #[test]
    fn refusals_are_the_kubelets() {
        let refused = |version, gates: &[(&str, bool)]| {
            super::super::refusal::aggregate(&Gates::resolve(version, &set(gates)).unwrap_err())
        };
        assert_eq!(refused(Version::V1_37, &[("MemoryQos", true)]), "unrecognized feature gate: MemoryQos");
        assert_eq!(
            refused(Version::V1_36, &[("PodLevelResources", false)]),
            "InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that are disabled: [PodLevelResources]"
        );
    }
}
