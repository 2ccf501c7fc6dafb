//! The KubeletConfiguration v1beta1: the fields that decide about memory.

use crate::record::CgroupDriver;
use crate::units::Quantity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A KubeletConfiguration as written: absent is absent, and defaults depend on the version ([`super::Effective`]).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeletConfiguration {
    /// "kubelet.config.k8s.io/v1beta1".
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// "KubeletConfiguration".
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Feature gates that are set explicitly.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
    /// How far between request and limit memory.high stands: above 0, up to 1 (KEP-2570).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_throttling_factor: Option<f64>,
    /// None or TieredReservation, from 1.36 (KEP-2570).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_reservation_policy: Option<String>,
    /// What containers may do with swap (KEP-2400).
    #[serde(skip_serializing_if = "MemorySwap::is_empty")]
    pub memory_swap: MemorySwap,
    /// Whether the kernel's OOM killer takes one process instead of the whole container.
    #[serde(rename = "singleProcessOOMKill", skip_serializing_if = "Option::is_none")]
    pub single_process_oom_kill: Option<bool>,
    /// Whether the kubelet refuses to start while swap is on; true when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_swap_on: Option<bool>,
    /// Whether the kubelet refuses to start on cgroup v1.
    #[serde(rename = "failCgroupV1", skip_serializing_if = "Option::is_none")]
    pub fail_cgroup_v1: Option<bool>,
    /// cgroupfs or systemd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_driver: Option<CgroupDriver>,
    /// The cgroup above kubepods; the root when empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_root: Option<String>,
    /// Whether the QoS cgroups exist; true when absent.
    #[serde(rename = "cgroupsPerQOS", skip_serializing_if = "Option::is_none")]
    pub cgroups_per_qos: Option<bool>,
    /// Reserved for Kubernetes' daemons, by resource.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kube_reserved: BTreeMap<String, Quantity>,
    /// Reserved for the system's daemons, by resource.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub system_reserved: BTreeMap<String, Quantity>,
    /// The cgroup on which kubeReserved is enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_reserved_cgroup: Option<String>,
    /// The cgroup on which systemReserved is enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_reserved_cgroup: Option<String>,
    /// What is enforced by cgroups; ["pods"] when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforce_node_allocatable: Option<Vec<String>>,
    /// Hard eviction thresholds by signal. A map that is present replaces every default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_hard: Option<BTreeMap<String, String>>,
    /// Soft eviction thresholds by signal.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub eviction_soft: BTreeMap<String, String>,
    /// How long a soft threshold must be met, by signal.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub eviction_soft_grace_period: BTreeMap<String, String>,
    /// How much an eviction reclaims at least, by signal.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub eviction_minimum_reclaim: BTreeMap<String, String>,
    /// How long a pressure condition stays, as a Go duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_pressure_transition_period: Option<String>,
    /// The longest grace period of a soft eviction, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_max_pod_grace_period: Option<i32>,
    /// Whether evictionHard fills gaps with the defaults, from 1.33.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge_default_eviction_settings: Option<bool>,
    /// Whether CPU limits are enforced; true when absent.
    #[serde(rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota: Option<bool>,
    /// Requests to reserve per QoS class, in percent by resource (alpha QOSReserved).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub qos_reserved: BTreeMap<String, String>,
}

/// memorySwap.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemorySwap {
    /// NoSwap, LimitedSwap or, in 1.29, UnlimitedSwap.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub swap_behavior: String,
}

impl MemorySwap {
    fn is_empty(&self) -> bool {
        self.swap_behavior.is_empty()
    }
}
