//! What is known about a booted node: its memory, kernel and devices, measured once before the checkpoint.

use serde::{Deserialize, Serialize};

/// Facts of the checkpoint, the same for every arm forked from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeFacts {
    /// `uname -r`.
    pub kernel: String,
    /// /proc/meminfo MemTotal in bytes, pages of devices and ballast included.
    pub mem_total: u64,
    /// Bytes of memory the devices hold, their index in the kernel included; fixed, since every block is written.
    pub device_bytes: u64,
    /// Bytes of memory the ballast holds, so that `mem_total - device_bytes - ballast_bytes` is the lab's node memory.
    pub ballast_bytes: u64,
    /// Virtual nanoseconds from power-on to the checkpoint.
    pub boot_ns: u64,
    /// The block devices, as /dev/NAME.
    pub devices: Vec<DeviceFacts>,
}

/// A block device as measured with direct I/O.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceFacts {
    /// Its name in the node shape; /dev/NAME in the guest.
    pub name: String,
    /// What it is for.
    pub role: DeviceRole,
    /// Size in bytes.
    pub size: u64,
    /// Mean virtual nanoseconds of one random 4 KiB read with nothing else in flight.
    pub random_read_ns: u64,
    /// Bytes per virtual second of sequential 256 KiB reads.
    pub sequential_read_bps: u64,
}

/// What a block device is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub enum DeviceRole {
    /// Swap space; carries a swap signature.
    Swap,
    /// Data; blank.
    Data,
}
