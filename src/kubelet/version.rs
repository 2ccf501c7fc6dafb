//! Kubernetes versions, and what differs between them, as data.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A Kubernetes minor version whose memory policy is known exactly.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    minor: u16,
}

/// Why a text names no version this program knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("kubernetes version {0:?} is unknown here; use one of {known}", known = Version::ALL.map(|v| v.to_string()).join(", "))]
pub struct UnknownVersion(String);

/// When the kubelet protects memory with memory.min and memory.low.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// memory.min for every pod, no policy (to 1.35).
    MinAlways,
    /// By memoryReservationPolicy; the periodic update writes zeros under policy None (1.36).
    Periodic,
    /// By memoryReservationPolicy; zeros are written once, at start (from 1.37).
    AtStart,
}

/// How the container runtime turns CPU shares into cpu.weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharesToWeight {
    /// 1 + (shares − 2) × 9999 / 262142.
    Linear,
    /// The quadratic fit through the minimum, the default and the maximum (opencontainers/cgroups from 0.0.5).
    Quadratic,
}

/// What differs between versions. Each field says what the version does, not since when.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Whether gates are refused when a gate they depend on is off.
    pub gate_dependencies: bool,
    /// memoryThrottlingFactor when the file does not say.
    pub default_factor: Option<f64>,
    /// Whether a factor other than 0.9 is refused while MemoryQoS is off.
    pub factor_needs_gate: bool,
    /// When memory.min and memory.low are written.
    pub protection: Protection,
    /// Whether pods get memory.high, containers without limits too, and memory.high is reset to max while MemoryQoS is off.
    pub pod_high: bool,
    /// Whether UnlimitedSwap exists; an unset swapBehavior means it then, and NoSwap does not exist.
    pub unlimited_swap: bool,
    /// Whether critical pods get no swap.
    pub critical_pods_no_swap: bool,
    /// Whether a sidecar's oom_score_adj is kept at or below that of the pod's regular containers.
    pub sidecar_oom_score: bool,
    /// Whether a pod-level request below what its containers add up to counts as nothing unclaimed, and not as less than nothing.
    pub unclaimed_not_negative: bool,
    /// Whether singleProcessOOMKill exists.
    pub single_process_oom_kill: bool,
    /// Whether "has a limit" of an init container is asked of its limit plus those of the sidecars before it.
    pub cumulative_limits_declared: bool,
    /// Whether enforceNodeAllocatable knows "-compressible" values.
    pub compressible_reserved: bool,
    /// Whether mergeDefaultEvictionSettings exists.
    pub merge_default_eviction: bool,
    /// Whether node.status.nodeInfo.swap exists.
    pub swap_capacity_status: bool,
    /// failCgroupV1 when the file does not say.
    pub fail_cgroup_v1: bool,
    /// The formula of the opencontainers module that the release pins, taken for the runtime of its time.
    pub shares_to_weight: SharesToWeight,
    /// That module.
    pub cgroups_module: &'static str,
}

const V1_29: Rules = Rules {
    gate_dependencies: false,
    default_factor: Some(0.9),
    factor_needs_gate: false,
    protection: Protection::MinAlways,
    pod_high: false,
    unlimited_swap: true,
    critical_pods_no_swap: false,
    sidecar_oom_score: false,
    unclaimed_not_negative: false,
    single_process_oom_kill: false,
    cumulative_limits_declared: true,
    compressible_reserved: false,
    merge_default_eviction: false,
    swap_capacity_status: false,
    fail_cgroup_v1: false,
    shares_to_weight: SharesToWeight::Linear,
    cgroups_module: "opencontainers/runc 1.1.10",
};

const V1_32: Rules = Rules {
    unlimited_swap: false,
    critical_pods_no_swap: true,
    sidecar_oom_score: true,
    single_process_oom_kill: true,
    compressible_reserved: true,
    cgroups_module: "opencontainers/runc 1.2.1",
    ..V1_29
};

const V1_33: Rules =
    Rules { merge_default_eviction: true, swap_capacity_status: true, cgroups_module: "opencontainers/cgroups 0.0.3", ..V1_32 };

const V1_34: Rules = Rules { cgroups_module: "opencontainers/cgroups 0.0.1", ..V1_33 };

const V1_35: Rules =
    Rules { gate_dependencies: true, fail_cgroup_v1: true, cgroups_module: "opencontainers/cgroups 0.0.3", ..V1_34 };

const V1_36: Rules = Rules {
    protection: Protection::Periodic,
    shares_to_weight: SharesToWeight::Quadratic,
    cgroups_module: "opencontainers/cgroups 0.0.6",
    ..V1_35
};

const V1_37: Rules = Rules {
    default_factor: None,
    factor_needs_gate: true,
    protection: Protection::AtStart,
    pod_high: true,
    unclaimed_not_negative: true,
    cumulative_limits_declared: false,
    cgroups_module: "opencontainers/cgroups 0.0.7",
    ..V1_36
};

impl Version {
    /// Kubernetes 1.29: the last with UnlimitedSwap.
    pub const V1_29: Version = Version { minor: 29 };
    /// Kubernetes 1.32.
    pub const V1_32: Version = Version { minor: 32 };
    /// Kubernetes 1.33.
    pub const V1_33: Version = Version { minor: 33 };
    /// Kubernetes 1.34: swap is stable.
    pub const V1_34: Version = Version { minor: 34 };
    /// Kubernetes 1.35.
    pub const V1_35: Version = Version { minor: 35 };
    /// Kubernetes 1.36: memoryReservationPolicy.
    pub const V1_36: Version = Version { minor: 36 };
    /// Kubernetes 1.37: MemoryQoS is on by default.
    pub const V1_37: Version = Version { minor: 37 };
    /// Every known version, oldest first. 1.32 and 1.33 are read from source only; the others are checked against the real kubelet.
    pub const ALL: [Version; 7] = [Self::V1_29, Self::V1_32, Self::V1_33, Self::V1_34, Self::V1_35, Self::V1_36, Self::V1_37];

    /// The minor version, for example 37.
    pub const fn minor(self) -> u16 {
        self.minor
    }

    /// What this version does.
    pub const fn rules(self) -> &'static Rules {
        match self.minor {
            29 => &V1_29,
            32 => &V1_32,
            33 => &V1_33,
            34 => &V1_34,
            35 => &V1_35,
            36 => &V1_36,
            _ => &V1_37,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({self})")
    }
}

/// Reads `1.37`, `v1.37` and `v1.37.2`; the patch level changes nothing that is known here.
impl FromStr for Version {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        let mut parts = text.strip_prefix('v').unwrap_or(text).splitn(3, '.');
        let (major, minor) = (parts.next(), parts.next());
        Version::ALL
            .into_iter()
            .find(|v| major == Some("1") && minor.is_some_and(|m| m.parse() == Ok(v.minor)))
            .ok_or_else(|| UnknownVersion(text.to_owned()))
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "cli")]
impl schemars::JsonSchema for Version {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "KubernetesVersion".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A Kubernetes minor version.",
            "enum": Version::ALL.map(|v| v.to_string()),
        })
    }
}
