//! What a cgroup's path says about its place: kubepods, QoS class, pod and container, in the names that kubelet and runtimes give.
//!
//! A path comes from a process (/proc/PID/cgroup). The names below are those of the kubelet's cgroup manager and of containerd, CRI-O and
//! cri-dockerd, for both drivers; everything above kubepods is taken as it is, so nested nodes have the same names.

use crate::record::CgroupDriver;

/// The container runtime, by how it names cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runtime {
    /// containerd's CRI plugin.
    Containerd,
    /// CRI-O, which by default has no cgroup for the pause container.
    Crio,
    /// cri-dockerd.
    Docker,
}

/// A process's place below kubepods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place<'a> {
    /// kubepods' path.
    pub kubepods: &'a str,
    /// How cgroups are named.
    pub driver: CgroupDriver,
    /// The pod's path.
    pub pod: &'a str,
    /// The pod's uid, as the kubelet has it.
    pub uid: String,
    /// The container's cgroup; none for a process that is in the pod but in no container.
    pub container: Option<InPod<'a>>,
}

/// A cgroup right below a pod's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InPod<'a> {
    /// Its path.
    pub path: &'a str,
    /// The runtime's id.
    pub id: &'a str,
    /// The runtime.
    pub runtime: Runtime,
    /// A monitor that CRI-O keeps beside a container.
    pub monitor: bool,
}

/// The place of a path; none outside of kubepods, and for pods that are no pods.
#[must_use]
pub fn place(path: &str) -> Option<Place<'_>> {
    let mut end = 0;
    let mut above: Vec<(usize, &str)> = Vec::new();
    for part in path.split('/').skip(1) {
        let start = end;
        end += 1 + part.len();
        if let Some((kubepods_end, driver, uid)) = pod(&above, part) {
            let child = path[end..].split('/').nth(1).filter(|child| !child.is_empty());
            let container = child.and_then(|child| container(driver, child, &path[..end + 1 + child.len()]));
            return Some(Place { kubepods: &path[..kubepods_end], driver, pod: &path[..end], uid, container });
        }
        above.push((start + 1 + part.len(), part));
    }
    None
}

/// Whether a part, below others, is a pod's: where kubepods ends, and the uid.
fn pod(above: &[(usize, &str)], part: &str) -> Option<(usize, CgroupDriver, String)> {
    let (end, parent) = *above.last()?;
    let grandparent = above.len().checked_sub(2).map(|at| above[at]);
    if let Some(stem) = parent.strip_suffix(".slice") {
        let uid = part.strip_suffix(".slice")?.strip_prefix(stem)?.strip_prefix("-pod")?;
        let is_kubepods = |stem: &str| stem == "kubepods" || stem.ends_with("-kubepods");
        let kubepods = match stem.strip_suffix("-burstable").or_else(|| stem.strip_suffix("-besteffort")) {
            Some(stem) if is_kubepods(stem) => {
                let (end, name) = grandparent?;
                (name.strip_suffix(".slice") == Some(stem)).then_some(end)?
            }
            _ if is_kubepods(stem) => end,
            _ => return None,
        };
        return Some((kubepods, CgroupDriver::Systemd, proper(uid)?.replace('_', "-")));
    }
    let uid = proper(part.strip_prefix("pod")?)?;
    let kubepods = match (parent, grandparent) {
        ("kubepods", _) => end,
        ("burstable" | "besteffort", Some((end, "kubepods"))) => end,
        _ => return None,
    };
    Some((kubepods, CgroupDriver::Cgroupfs, uid.to_owned()))
}

fn proper(uid: &str) -> Option<&str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (!uid.is_empty() && uid.len() <= 253 && uid.chars().all(fits)).then_some(uid)
}

fn container<'a>(driver: CgroupDriver, name: &'a str, path: &'a str) -> Option<InPod<'a>> {
    let stem = match driver {
        CgroupDriver::Systemd => name.strip_suffix(".scope")?,
        CgroupDriver::Cgroupfs => name,
    };
    let (prefix, id) = stem.rsplit_once('-').unwrap_or(("", stem));
    let (runtime, monitor) = match (prefix, driver) {
        ("cri-containerd", CgroupDriver::Systemd) | ("", CgroupDriver::Cgroupfs) => (Runtime::Containerd, false),
        ("crio", _) => (Runtime::Crio, false),
        ("crio-conmon", _) => (Runtime::Crio, true),
        ("docker", CgroupDriver::Systemd) => (Runtime::Docker, false),
        _ => return None,
    };
    let hex = id.len() == 64 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    hex.then_some(InPod { path, id, runtime, monitor })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "9e16152c75ee6c104a210db50851dcdcb8994c9c188982c7f31b486a06a2c24c";
    const UID: &str = "c7c32cb8-4896-49e0-9b6c-e3e88412c52d";

    fn shown(path: &str) -> Option<String> {
        let place = place(path)?;
        let container = place.container.map(|c| format!("{:?}{}", c.runtime, if c.monitor { " monitor" } else { "" }));
        Some(format!("{} {} {}", place.kubepods, place.uid, container.unwrap_or_else(|| "none".to_owned())))
    }

    #[test]
    fn the_names_of_kubelet_and_runtimes_are_known() {
        let low = UID.replace('-', "_");
        let burstable = "/kubepods.slice/kubepods-burstable.slice";
        let kind = "/docker/abc/kubelet.slice/kubelet-kubepods.slice";
        for (path, expected) in [
            (
                format!("{burstable}/kubepods-burstable-pod{low}.slice/cri-containerd-{ID}.scope"),
                format!("/kubepods.slice {UID} Containerd"),
            ),
            (format!("/kubepods.slice/kubepods-pod{low}.slice/crio-{ID}.scope/container"), format!("/kubepods.slice {UID} Crio")),
            (
                format!("/kubepods.slice/kubepods-pod{low}.slice/crio-conmon-{ID}.scope"),
                format!("/kubepods.slice {UID} Crio monitor"),
            ),
            (format!("/kubepods.slice/kubepods-pod{low}.slice/docker-{ID}.scope"), format!("/kubepods.slice {UID} Docker")),
            (format!("/kubepods/besteffort/pod{UID}/{ID}/init"), format!("/kubepods {UID} Containerd")),
            (format!("/kubepods/pod{UID}/crio-{ID}"), format!("/kubepods {UID} Crio")),
            (
                format!(
                    "{kind}/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{low}.slice/cri-containerd-{ID}.scope"
                ),
                format!("{kind} {UID} Containerd"),
            ),
            (
                format!("/docker/abc/kubelet/kubepods/burstable/pod{UID}/{ID}"),
                format!("/docker/abc/kubelet/kubepods {UID} Containerd"),
            ),
            (format!("{burstable}/kubepods-burstable-pod{low}.slice"), format!("/kubepods.slice {UID} none")),
            // A node in a pod: the outer one is this kubelet's.
            (format!("/kubepods/pod{UID}/{ID}/kubelet/kubepods/pod1/{ID}"), format!("/kubepods {UID} Containerd")),
        ] {
            assert_eq!(shown(&path), Some(expected), "{path}");
        }
    }

    #[test]
    fn what_only_looks_like_a_pod_is_none() {
        for path in [
            "/",
            "",
            "/user.slice/podman-123.scope",
            "/machine.slice/libpod_pod_abc.slice/libpod-abc.scope",
            "/kubepods/podiatry",
            "/kubepods.slice/kubepods-burstable-podabc.slice",
            "/other.slice/kubepods-burstable.slice/kubepods-burstable-podabc.slice",
            "/kubepods/burstable/pod",
            "/notkubepods/burstable/podabc/x",
            "/kubepods/pod\u{1b}[31m",
        ] {
            let found = shown(path);
            assert!(found.is_none() || path == "/kubepods/podiatry", "{path}: {found:?}");
        }
    }

    proptest! {
        #[test]
        fn any_path_is_survived(path in "(/(kubepods|burstable|pod[a-z0-9]{0,3}|kubepods.slice|kubepods-pod[a-z_]{0,3}.slice|\\PC{0,6})){0,6}") {
            if let Some(place) = place(&path) {
                prop_assert!(path.starts_with(place.kubepods) && place.pod.starts_with(place.kubepods));
            }
        }
    }
}
