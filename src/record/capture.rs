//! A captured node: what it is, how its cgroups are mounted, what runs on it and how much memory that used.
//!
//! A capture is a directory of plain files: `capture.json` ([`Capture`]), `ledger.json` ([`super::LedgerSnapshot`]), `usage.json`
//! ([`Usage`]), `pods.json` (a v1 List, reduced to what decides about memory) and `kubelet.json` (likewise).

use super::{CgroupDriver, Role};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `capture.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capture {
    /// Record schema, [`super::SCHEMA`].
    pub schema: u32,
    /// The version of highwater that took it.
    pub taken_by: String,
    /// Seconds since 1970.
    pub taken_at: u64,
    /// The node.
    pub node: CapturedNode,
    /// What could not be captured or is not certain, a sentence each. A capture with doubts proves nothing as a whole.
    pub doubts: Vec<String>,
    /// What was seen besides, a sentence each.
    pub notes: Vec<String>,
}

/// Facts of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapturedNode {
    /// Its name in the pods' `nodeName`, else its host name.
    pub name: Option<String>,
    /// `uname -r`.
    pub kernel: Option<String>,
    /// The kubelet's version, for example v1.37.2.
    pub kubelet: Option<String>,
    /// The runtime and its version, for example containerd://2.4.2.
    pub runtime: Option<String>,
    /// MemTotal in bytes.
    pub memory: Option<u64>,
    /// SwapTotal in bytes.
    pub swap: u64,
    /// Bytes of a page.
    pub page_size: u64,
    /// Processors that are online.
    pub cpus: Option<u64>,
    /// /proc/swaps.
    pub swaps: Vec<SwapArea>,
    /// Kernel settings by path below /proc/sys or /sys.
    pub knobs: BTreeMap<String, String>,
    /// Which hierarchy has the memory controller.
    pub cgroups: CgroupMode,
    /// Mount options of that hierarchy.
    pub mount_options: Vec<String>,
    /// How the pods' cgroups are named; none when there are no pods.
    pub cgroup_driver: Option<CgroupDriver>,
    /// The path of kubepods, with everything above it.
    pub kubepods: Option<String>,
    /// Whether memory.swap.max exists.
    pub swap_controller: bool,
}

/// A line of /proc/swaps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SwapArea {
    /// Device or file.
    pub name: String,
    /// "partition" or "file".
    pub kind: String,
    /// Bytes.
    pub size: u64,
    /// Bytes in use.
    pub used: u64,
    /// Higher ones are used first.
    pub priority: i32,
}

/// How cgroups are mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupMode {
    /// One hierarchy, cgroup v2.
    V2,
    /// cgroup v1 with the memory controller, and a cgroup v2 hierarchy without it.
    Hybrid,
    /// cgroup v1 only.
    V1,
    /// No mount was found.
    #[default]
    Unknown,
}

/// `usage.json`: what the cgroups used while they were watched.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Readings.
    pub samples: u32,
    /// Milliseconds from the first to the last.
    pub watched_ms: u64,
    /// By cgroup, in the ledger's order.
    pub cgroups: Vec<CgroupUsage>,
}

/// One cgroup's usage. Bytes, except where said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CgroupUsage {
    /// What the cgroup is for.
    pub role: Role,
    /// Its path.
    pub path: String,
    /// memory.current when the ledger was read.
    pub current: u64,
    /// memory.current.
    pub usage: Levels,
    /// Anonymous memory.
    pub anon: Levels,
    /// Page cache.
    pub file: Levels,
    /// Page cache that nobody has touched of late, by the kernel's lists.
    pub inactive_file: Levels,
    /// Memory in swap: anonymous memory that was cold once.
    pub swap: Levels,
    /// Microseconds in which some process waited for memory while it was watched; none without PSI.
    pub some_us: Option<u64>,
    /// Microseconds in which all of them waited.
    pub full_us: Option<u64>,
    /// memory.events since the cgroup exists.
    pub events: BTreeMap<String, u64>,
}

/// Levels of one figure over the readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Levels {
    /// Half of the readings are at or below it.
    pub p50: u64,
    /// 95 in 100 readings are at or below it; none with fewer than 20 readings.
    pub p95: Option<u64>,
    /// The highest reading.
    pub peak: u64,
}

impl Levels {
    /// The levels of readings in any order; zeros without any.
    #[must_use]
    pub fn of(mut readings: Vec<u64>) -> Levels {
        readings.sort_unstable();
        let at = |percent: usize| readings.get((readings.len() * percent).div_ceil(100).max(1) - 1).copied();
        Levels {
            p50: at(50).unwrap_or(0),
            p95: at(95).filter(|_| readings.len() >= 20),
            peak: readings.last().copied().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_nearest_ranks() {
        assert_eq!(Levels::of(vec![]), Levels::default());
        assert_eq!(Levels::of(vec![3, 1, 2]), Levels { p50: 2, p95: None, peak: 3 });
        assert_eq!(Levels::of((1..=100).rev().collect()), Levels { p50: 50, p95: Some(95), peak: 100 });
    }
}
