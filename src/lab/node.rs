//! The node of a lab: memory, devices, kernel settings, cgroup layout.

use super::Bytes;
use crate::record::CgroupDriver;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The node.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeShape {
    /// The kubelet's version, for example "1.37".
    pub kubernetes: String,
    /// The node's memory. Devices take none of it.
    pub memory: Bytes,
    /// Swap devices that are switched on, in order of priority.
    #[serde(default)]
    pub swap: Vec<Device>,
    /// Data devices. Volumes lie on the one with a file system.
    #[serde(default)]
    pub data: Vec<Device>,
    /// Kernel settings; what is absent keeps the kernel's default.
    #[serde(default)]
    pub kernel: Kernel,
    /// How the kubelet names cgroups.
    #[serde(default)]
    pub cgroup_driver: CgroupDriver,
    /// The kubelet's cgroupRoot.
    #[serde(default = "root")]
    pub cgroup_root: String,
    /// One instruction takes 2^shift virtual nanoseconds.
    #[serde(default)]
    pub icount_shift: u8,
}

fn root() -> String {
    "/".to_owned()
}

/// A block device.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Device {
    /// Its name; /dev/NAME on the node.
    pub name: String,
    /// Its size.
    pub size: Bytes,
    /// How fast it is.
    pub profile: Profile,
    /// The file system of a data device; without one, workloads use the bare device.
    #[serde(default)]
    pub file_system: Option<FileSystem>,
    /// Overrides the profile's latency, in nanoseconds.
    #[serde(default)]
    pub latency_ns: Option<u64>,
    /// Overrides the profile's queue depth.
    #[serde(default)]
    pub depth: Option<u32>,
    /// Overrides the profile's bandwidth, in MB/s.
    #[serde(default)]
    pub mbps: Option<u32>,
}

/// A file system, made before the node boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileSystem {
    /// ext4, as mke2fs makes it.
    Ext4,
}

/// A kind of device, modelled on null_blk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// A fast solid-state disk.
    Nvme,
    /// A solid-state disk behind SATA.
    SataSsd,
    /// A spinning disk.
    Hdd,
}

/// Kernel settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kernel {
    /// vm.swappiness, 0 to 200.
    #[serde(default)]
    pub swappiness: Option<u8>,
    /// vm.min_free_kbytes.
    #[serde(default)]
    pub min_free_kbytes: Option<u32>,
    /// vm.watermark_scale_factor, 1 to 3000.
    #[serde(default)]
    pub watermark_scale_factor: Option<u32>,
    /// vm.page-cluster: swap reads 2^n pages ahead.
    #[serde(default)]
    pub page_cluster: Option<u8>,
    /// The multi-generational LRU.
    #[serde(default)]
    pub mglru: Option<Switch>,
    /// Transparent huge pages.
    #[serde(default)]
    pub thp: Option<Thp>,
    /// Pressure stall information; on when absent.
    #[serde(default)]
    pub psi: Option<Switch>,
    /// The cgroup2 mount option memory_recursiveprot; on when absent, as systemd mounts it.
    #[serde(default)]
    pub memory_recursive_prot: Option<Switch>,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Switch {
    On,
    Off,
}

/// transparent_hugepage/enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the kernel's own words")]
pub enum Thp {
    Always,
    Madvise,
    Never,
}

impl NodeShape {
    /// Bytes of all swap devices.
    #[must_use]
    pub fn swap_bytes(&self) -> u64 {
        self.swap.iter().map(|d| d.size.0).sum()
    }
}
