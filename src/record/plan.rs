//! What the kubelet of a version will write, as a record: computed before a run, compared with the ledger after it.

use super::{CgroupDriver, Role};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Every file the kubelet and the runtime will write for a set of Pods on a node, in the order of creation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Record schema, [`super::SCHEMA`].
    pub schema: u32,
    /// The kubelet's version, for example "1.37".
    pub kubernetes: String,
    /// The cgroup driver that names the paths.
    pub cgroup_driver: CgroupDriver,
    /// The node's memory capacity in bytes, as the kubelet sees it.
    pub node_memory: u64,
    /// The node's swap capacity in bytes.
    pub node_swap: u64,
    /// Bytes of a page.
    pub page_size: u64,
    /// node.status.allocatable memory in bytes.
    pub allocatable: u64,
    /// Parents before children.
    pub cgroups: Vec<PlannedCgroup>,
    /// What is legal but will surprise: one sentence each.
    pub warnings: Vec<String>,
    /// By phase: what the cgroups must hold at its end, from the first phase on that changed the node while pods ran.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stepped: BTreeMap<String, Vec<PlannedCgroup>>,
    /// By phase, for phases with a step: what the kubelet would write for pods and containers that start from then on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fresh: BTreeMap<String, Vec<PlannedCgroup>>,
    /// By phase: why the kubelet refused its step, in its own words.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, String>,
}

/// One cgroup of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedCgroup {
    /// What the cgroup is for.
    pub role: Role,
    /// Its path below the cgroup2 mount. A container's last part stands for its first start.
    pub path: String,
    /// Files in the order they are written. A file that is not listed keeps the kernel's default.
    pub files: Vec<PlannedFile>,
    /// oom_score_adj of the processes, for containers.
    pub oom_score_adj: Option<i32>,
}

impl Plan {
    /// The plan as it stands at the end of a phase.
    #[must_use]
    pub fn at(&self, phase: &str) -> Cow<'_, Plan> {
        match self.stepped.get(phase) {
            Some(cgroups) => Cow::Owned(Plan { cgroups: cgroups.clone(), ..self.clone() }.without_steps()),
            None => Cow::Borrowed(self),
        }
    }

    /// The plan of one moment, as if no step followed.
    #[must_use]
    pub fn without_steps(self) -> Plan {
        Plan { stepped: BTreeMap::new(), fresh: BTreeMap::new(), refused: BTreeMap::new(), ..self }
    }

    /// The cgroup of a role.
    #[must_use]
    pub fn cgroup(&self, role: &Role) -> Option<&PlannedCgroup> {
        self.cgroups.iter().find(|cgroup| cgroup.role == *role)
    }
}

impl PlannedCgroup {
    /// What a file holds at the end and why; none where the kernel's default stays. A file may be written more than once, and the last
    /// write counts.
    #[must_use]
    pub fn written(&self, file: &str) -> Option<&PlannedFile> {
        self.files.iter().rfind(|planned| planned.file == file)
    }

    /// What a file holds at the end; none where the kernel's default stays.
    #[must_use]
    pub fn value(&self, file: &str) -> Option<&str> {
        self.written(file).map(|planned| planned.value.as_str())
    }
}

/// One control file of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedFile {
    /// The file's name, for example "memory.high".
    pub file: String,
    /// What is written, byte for byte, before the kernel floors it to a page.
    pub value: String,
    /// Why.
    pub rule: Rule,
}

/// The reason behind a planned value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// The formula with names, for example "floor(request + (limit − request) × factor)".
    pub formula: String,
    /// The inputs by name, in bytes or as written.
    pub inputs: Vec<(String, String)>,
    /// The KEP, document or kubelet function the rule comes from.
    pub source: String,
}
