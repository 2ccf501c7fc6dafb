//! Cgroups as records name them: by role, with the values of their control files.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The kubelet's `cgroupDriver`: how names of the tree are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub enum CgroupDriver {
    /// Slices and scopes, as systemd names them.
    #[default]
    Systemd,
    /// Plain directories.
    Cgroupfs,
}

/// What a cgroup is for. Paths differ between drivers, roots and container ids; roles do not, so records are compared by role.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The root of the hierarchy: the whole node.
    Node,
    /// The parent of all pods, `kubepods`.
    Kubepods,
    /// A QoS class's cgroup, `burstable` or `besteffort`.
    Qos {
        /// Lower-case name of the class.
        class: String,
    },
    /// A pod's cgroup.
    Pod {
        /// The pod's name.
        pod: String,
    },
    /// The cgroup of a pod's pause container.
    Sandbox {
        /// The pod's name.
        pod: String,
    },
    /// A container's cgroup.
    Container {
        /// The pod's name.
        pod: String,
        /// The container's name.
        container: String,
    },
    /// A cgroup outside kubepods, such as `system.slice`.
    System {
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Node => f.write_str("node"),
            Role::Kubepods => f.write_str("kubepods"),
            Role::Qos { class } => f.write_str(class),
            Role::Pod { pod } => write!(f, "pod/{pod}"),
            Role::Sandbox { pod } => write!(f, "pod/{pod}/pause"),
            Role::Container { pod, container } => write!(f, "pod/{pod}/{container}"),
            Role::System { name } => write!(f, "system/{name}"),
        }
    }
}

/// What reading a control file gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FileValue {
    /// Its text without the final newline; "max" is a value like any other.
    Text(String),
    /// The file does not exist, for example memory.swap.max on a kernel without swap accounting.
    Absent,
}

/// One cgroup of a ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// What the cgroup is for.
    pub role: Role,
    /// Its path below the cgroup2 mount, starting with a slash.
    pub path: String,
    /// Control files by name: memory.min, memory.low, memory.high, memory.max, memory.swap.max, memory.oom.group, cpu.weight,
    /// cpu.max; and `oom_score_adj` of the processes in a container's cgroup when they agree.
    pub files: BTreeMap<String, FileValue>,
}

/// What the control files said at one moment, level by level, parents before children.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerSnapshot {
    /// Virtual nanoseconds since the arm began.
    pub at_ns: u64,
    /// The phase at whose end it was taken.
    pub phase: String,
    /// The cgroups.
    pub entries: Vec<LedgerEntry>,
}
