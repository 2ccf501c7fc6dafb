//! Names and paths of cgroups, and container ids.

use super::pod::QosClass;
use crate::record::CgroupDriver;
use sha2::{Digest, Sha256};

/// Joins the parts of a cgroup's internal name below the cgroup2 mount (`CgroupName.ToSystemd`, `CgroupName.ToCgroupfs`).
///
/// systemd nests slices by "-", so a "-" inside a part becomes "_".
pub fn cgroup_path<'a>(driver: CgroupDriver, parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut path = String::new();
    let mut slice = String::new();
    for part in parts {
        path.push('/');
        match driver {
            CgroupDriver::Cgroupfs => path.push_str(part),
            CgroupDriver::Systemd => {
                if !slice.is_empty() {
                    slice.push('-');
                }
                slice.extend(part.chars().map(|c| if c == '-' { '_' } else { c }));
                path.push_str(&slice);
                path.push_str(".slice");
            }
        }
    }
    if path.is_empty() { "/".to_owned() } else { path }
}

/// Where the pods of a node live: driver and cgroupRoot ("" and "/" are the same).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    driver: CgroupDriver,
    kubepods: String,
    burstable: String,
    best_effort: String,
}

impl Hierarchy {
    /// Names the tree.
    pub fn new(driver: CgroupDriver, cgroup_root: &str) -> Self {
        let root = || cgroup_root.split('/').filter(|part| !part.is_empty());
        let path = |tail: &[&'static str]| cgroup_path(driver, root().chain(tail.iter().copied()));
        let kubepods = path(&["kubepods"]);
        let burstable = path(&["kubepods", "burstable"]);
        let best_effort = path(&["kubepods", "besteffort"]);
        Hierarchy { driver, kubepods, burstable, best_effort }
    }

    /// The driver.
    pub fn driver(&self) -> CgroupDriver {
        self.driver
    }

    /// The parent of all pods.
    pub fn kubepods(&self) -> &str {
        &self.kubepods
    }

    /// The parent of the pods of a class; Guaranteed pods are children of kubepods itself.
    pub fn qos(&self, class: QosClass) -> &str {
        match class {
            QosClass::Guaranteed => &self.kubepods,
            QosClass::Burstable => &self.burstable,
            QosClass::BestEffort => &self.best_effort,
        }
    }

    /// A cgroup that a configuration names, such as kubeReservedCgroup: systemd looks only at the last part, which holds the
    /// whole name (`ParseSystemdToCgroupName`).
    pub fn named(&self, name: &str) -> String {
        match self.driver {
            CgroupDriver::Cgroupfs => cgroup_path(self.driver, name.split('/').filter(|part| !part.is_empty())),
            CgroupDriver::Systemd => {
                let last = name.rsplit('/').next().unwrap_or_default();
                cgroup_path(self.driver, last.strip_suffix(".slice").unwrap_or(last).split('-'))
            }
        }
    }

    /// A pod's cgroup (`GetPodContainerName`).
    pub fn pod(&self, class: QosClass, uid: &str) -> String {
        let parent = self.qos(class);
        let mut path = String::with_capacity(parent.len() * 2 + uid.len() + 12);
        path.push_str(parent);
        path.push('/');
        match self.driver {
            CgroupDriver::Cgroupfs => path.push_str("pod"),
            CgroupDriver::Systemd => {
                let slice = parent.rsplit('/').next().unwrap_or_default();
                path.push_str(slice.strip_suffix(".slice").unwrap_or(slice));
                path.push_str("-pod");
            }
        }
        match self.driver {
            CgroupDriver::Cgroupfs => path.push_str(uid),
            CgroupDriver::Systemd => {
                path.extend(uid.chars().map(|c| if c == '-' { '_' } else { c }));
                path.push_str(".slice");
            }
        }
        path
    }
}

/// A container's cgroup, as containerd's CRI plugin names it.
pub fn container_cgroup(driver: CgroupDriver, pod_path: &str, id: &str) -> String {
    match driver {
        CgroupDriver::Systemd => format!("{pod_path}/cri-containerd-{id}.scope"),
        CgroupDriver::Cgroupfs => format!("{pod_path}/{id}"),
    }
}

/// The id of a container's start: 64 hex digits that are always the same. A real runtime draws them at random.
///
/// The pause container's name is [`SANDBOX`]. Attempts count from 0.
pub fn container_id(pod_uid: &str, name: &str, attempt: u32) -> String {
    let mut hash = Sha256::new();
    for part in [pod_uid, name, &attempt.to_string()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name that stands for the pause container in [`container_id`]; no container may be called so.
pub const SANDBOX: &str = "";
