//! A value for a control file together with the rule that gave it.

use std::fmt;

/// What is written into a control file that takes an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// "max".
    Max,
    /// A number, as the kubelet writes it: the kernel floors it to a page.
    Number(u64),
}

impl Limit {
    /// A number that is known not to be negative; what is negative becomes 0.
    pub(super) fn number(value: i64) -> Self {
        Limit::Number(u64::try_from(value).unwrap_or(0))
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Max => f.write_str("max"),
            Limit::Number(number) => write!(f, "{number}"),
        }
    }
}

/// A rule: how a value is computed, from what, and where that is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Why {
    /// The formula with names, or the reason for writing nothing.
    pub formula: &'static str,
    /// What it reads.
    pub inputs: &'static [Input],
    /// KEP and kubelet function.
    pub source: &'static str,
}

/// Something a rule reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// The container's memory request in bytes.
    Request,
    /// The container's memory limit in bytes.
    Limit,
    /// The pod's memory request in bytes, overhead included.
    PodRequest,
    /// The pod's memory limit in bytes, overhead included.
    PodLimit,
    /// The pod level's own memory limit in bytes.
    PodLevelLimit,
    /// Pod-level request not claimed by containers, per container, in bytes.
    Extra,
    /// The smallest memory request of the regular containers, in bytes.
    LeastRequest,
    /// Node memory minus reservations, in bytes.
    Allocatable,
    /// The node's memory in bytes.
    NodeMemory,
    /// The node's swap in bytes.
    NodeSwap,
    /// memoryThrottlingFactor.
    Factor,
    /// Bytes of a page.
    Page,
    /// memoryReservationPolicy.
    Policy,
    /// memorySwap.swapBehavior.
    Swap,
    /// The pod's QoS class.
    Qos,
    /// Sum of the Guaranteed pods' memory requests, in bytes.
    GuaranteedSum,
    /// Sum of the Burstable pods' memory requests, in bytes.
    BurstableSum,
    /// kubeReserved memory.
    KubeReserved,
    /// systemReserved memory.
    SystemReserved,
}

/// What a file gets, or nothing, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The value; None writes nothing, and the file keeps what it has.
    pub value: Option<Limit>,
    /// The rule.
    pub why: &'static Why,
}

impl Decision {
    pub(super) const fn write(value: Limit, why: &'static Why) -> Self {
        Decision { value: Some(value), why }
    }

    pub(super) const fn nothing(why: &'static Why) -> Self {
        Decision { value: None, why }
    }
}
