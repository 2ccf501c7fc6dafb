//! Which cgroup each process is in, and its oom_score_adj: two files of each, and never its arguments or environment.

use super::Root;
use super::place::{InPod, Place, place};
use crate::record::CgroupMode;
use std::collections::BTreeMap;

/// What the processes say about a pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PodFound {
    /// Its path.
    pub(super) path: String,
    /// Its containers by path.
    pub(super) containers: BTreeMap<String, ContainerFound>,
}

/// What the processes say about a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContainerFound {
    pub(super) id: String,
    pub(super) runtime: super::place::Runtime,
    pub(super) monitor: bool,
    /// oom_score_adj of its processes; none when they do not agree.
    pub(super) score: Option<i32>,
}

/// What all processes say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Processes {
    /// Pods by kubepods' path, then by uid.
    pub(super) pods: BTreeMap<String, BTreeMap<String, PodFound>>,
    pub(super) driver: BTreeMap<String, crate::record::CgroupDriver>,
    /// Processes whose cgroup lies outside of this cgroup namespace.
    pub(super) outside: usize,
    pub(super) seen: usize,
}

/// Asks every process.
pub(super) fn processes(root: &Root, mode: CgroupMode) -> Processes {
    let mut found = Processes::default();
    for (pid, _) in root.names("/proc") {
        if !pid.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let Some(text) = root.text(&format!("/proc/{pid}/cgroup")) else { continue };
        let Some(path) = of_mode(&text, mode) else { continue };
        found.seen += 1;
        if path.starts_with("/..") {
            found.outside += 1;
        } else if let Some(place) = place(path.strip_suffix(" (deleted)").unwrap_or(path)) {
            let score = || root.text(&format!("/proc/{pid}/oom_score_adj"))?.strip_suffix('\n')?.parse().ok();
            found.add(&place, score);
        }
    }
    found
}

/// The path in the hierarchy that has the memory controller.
pub(super) fn of_mode(text: &str, mode: CgroupMode) -> Option<&str> {
    let path = |line: &'_ str| -> Option<(bool, bool)> {
        let mut parts = line.splitn(3, ':');
        let (number, controllers) = (parts.next()?, parts.next()?);
        Some((number == "0" && controllers.is_empty(), controllers.split(',').any(|c| c == "memory")))
    };
    let v1 = matches!(mode, CgroupMode::V1 | CgroupMode::Hybrid);
    let line = text.lines().find(|line| path(line).is_some_and(|(unified, memory)| if v1 { memory } else { unified }))?;
    line.splitn(3, ':').nth(2)
}

impl Processes {
    fn add(&mut self, place: &Place<'_>, score: impl FnOnce() -> Option<i32>) {
        self.driver.insert(place.kubepods.to_owned(), place.driver);
        let pods = self.pods.entry(place.kubepods.to_owned()).or_default();
        let pod = pods.entry(place.uid.clone()).or_default();
        pod.path = place.pod.to_owned();
        if let Some(InPod { path, id, runtime, monitor }) = place.container {
            let score = score();
            let new = || ContainerFound { id: id.to_owned(), runtime, monitor, score };
            let known = pod.containers.entry(path.to_owned()).or_insert_with(new);
            known.score = known.score.filter(|known| Some(*known) == score);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_with_the_memory_controller_counts() {
        let hybrid = "12:cpu,cpuacct:/a\n4:memory:/kubepods/pod1\n1:name=systemd:/b\n0::/c:d\n";
        assert_eq!(of_mode(hybrid, CgroupMode::Hybrid), Some("/kubepods/pod1"));
        assert_eq!(of_mode(hybrid, CgroupMode::V2), Some("/c:d"));
        assert_eq!(of_mode("0::/x\n", CgroupMode::V1), None);
    }
}
