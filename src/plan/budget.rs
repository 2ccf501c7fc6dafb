//! The node's memory as a budget: an envelope for planning, not a model of what the kernel protects.

use crate::kubelet::{Node, Protection, QosSums};
use crate::units::Quantity;
use serde::Serialize;

/// Where the node's memory goes. All figures in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// The node's memory.
    pub capacity: i64,
    /// systemReserved.
    pub system_reserved: i64,
    /// kubeReserved.
    pub kube_reserved: i64,
    /// The hard eviction threshold of memory.available.
    pub eviction: i64,
    /// Capacity minus the three: node.status.allocatable.
    pub allocatable: i64,
    /// Memory requests of Guaranteed and Burstable pods.
    pub requested: i64,
    /// Whether the kubelet turns these requests into memory.min and memory.low at all.
    pub protected: bool,
    /// The measured peak of everything that is not protected.
    pub unprotected_peak: Option<i64>,
    /// Allocatable minus requests minus peak; negative is a shortfall. None without a peak.
    pub residual: Option<i64>,
}

/// Something deducted from capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserve {
    /// systemReserved.
    System,
    /// kubeReserved.
    Kube,
    /// The hard eviction threshold.
    Eviction,
}

impl Reserve {
    /// The configuration's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Reserve::System => "systemReserved",
            Reserve::Kube => "kubeReserved",
            Reserve::Eviction => "evictionHard",
        }
    }
}

pub(super) fn of(node: &Node, sums: &QosSums, unprotected_peak: Option<u64>) -> Budget {
    let (config, facts) = (&node.config, &node.facts);
    let bytes = |q: Option<Quantity>| q.map_or(0, Quantity::ceil);
    let threshold = config.eviction_hard_memory.as_ref().map(|(_, threshold)| threshold.amount(facts.memory));
    let requested = sums.guaranteed + sums.burstable;
    let peak = unprotected_peak.map(|peak| i64::try_from(peak).unwrap_or(i64::MAX));
    Budget {
        capacity: Quantity::bytes(facts.memory).ceil(),
        system_reserved: bytes(config.system_reserved),
        kube_reserved: bytes(config.kube_reserved),
        eviction: bytes(threshold),
        allocatable: node.status_allocatable,
        requested,
        protected: config.gates.memory_qos && (config.tiered || config.rules().protection == Protection::MinAlways),
        unprotected_peak: peak,
        residual: peak.map(|peak| node.status_allocatable.saturating_sub(requested).saturating_sub(peak)),
    }
}

impl Budget {
    /// Which reserves somebody deducted a second time to get from here to a smaller figure for allocatable or for the residual.
    ///
    /// Empty when the figure agrees, or when no set of reserves explains the difference.
    pub fn deducted_twice(&self, claimed: i64) -> Vec<Reserve> {
        let reserves =
            [(Reserve::System, self.system_reserved), (Reserve::Kube, self.kube_reserved), (Reserve::Eviction, self.eviction)];
        let differences = [Some(self.allocatable), self.residual].into_iter().flatten().map(|figure| figure - claimed);
        // The fewest reserves that explain it: sets of one stand before sets of two.
        let mut sets: Vec<Vec<(Reserve, i64)>> = (1u8..8)
            .map(|bits| (0..3).filter(|i| bits & (1 << i) != 0).map(|i| reserves[i]).filter(|(_, bytes)| *bytes > 0).collect())
            .collect();
        sets.sort_by_key(Vec::len);
        differences
            .filter(|difference| *difference > 0)
            .find_map(|difference| sets.iter().find(|set| set.iter().map(|(_, bytes)| bytes).sum::<i64>() == difference))
            .map(|set| set.iter().map(|(reserve, _)| *reserve).collect())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::{KubeletConfiguration, NodeFacts, Version};
    use crate::plan::Planning;

    const GI: i64 = 1 << 30;

    /// The example of the lab memory-qos/node-budget.
    fn budget() -> Budget {
        let config: KubeletConfiguration = serde_json::from_str(
            r#"{"systemReserved":{"memory":"16Gi"},"kubeReserved":{"memory":"8Gi"},"evictionHard":{"memory.available":"8Gi"},
                "memoryReservationPolicy":"TieredReservation"}"#,
        )
        .unwrap();
        let pod = serde_json::from_str(
            r#"{"metadata":{"name":"server"},"spec":{"containers":[{"name":"c","resources":{"requests":{"memory":"320Gi"}}}]}}"#,
        )
        .unwrap();
        let facts = NodeFacts::new(512 << 30, 0);
        Planning::new(Version::V1_37, &config, &facts, &[pod]).unwrap().budget(Some(96 << 30))
    }

    #[test]
    fn the_envelope_of_the_source() {
        let budget = budget();
        assert_eq!(budget.allocatable, 480 * GI);
        assert_eq!((budget.requested, budget.protected), (320 * GI, true));
        assert_eq!(budget.residual, Some(64 * GI));
    }

    #[test]
    fn a_reserve_deducted_twice_is_named() {
        let budget = budget();
        assert_eq!(budget.deducted_twice(64 * GI), []);
        assert_eq!(budget.deducted_twice(48 * GI), [Reserve::System]);
        assert_eq!(budget.deducted_twice(32 * GI), [Reserve::System, Reserve::Kube, Reserve::Eviction]);
        assert_eq!(budget.deducted_twice(464 * GI), [Reserve::System]);
        assert_eq!(budget.deducted_twice(61 * GI), []);
    }
}
