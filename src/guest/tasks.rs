//! The containers of a real node, as containerd's runtime shim keeps them: a bundle per task, with its OCI configuration and its process.

use crate::record::Role;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where the shim keeps the bundles of Kubernetes' tasks.
pub const BUNDLES: &str = "/run/containerd/io.containerd.runtime.v2.task/k8s.io";
/// Where the kubelet has the runtime write what containers say: NAMESPACE_POD_UID/CONTAINER/ATTEMPT.log.
pub const LOGS: &str = "/var/log/pods";

/// The bundles there are, and those already known.
#[derive(Debug)]
pub struct Tasks {
    bundles: PathBuf,
    logs: PathBuf,
    known: BTreeSet<String>,
}

/// A task with a running process.
#[derive(Debug)]
pub struct Task {
    /// metadata.name of its pod.
    pub pod: String,
    /// Its container; none for the sandbox.
    pub container: Option<String>,
    /// Which start of the container.
    pub attempt: u32,
    /// Its cgroup, from /proc/PID/cgroup.
    pub cgroup: String,
    /// Its first process.
    pub pid: u32,
    /// Readable when that process has ended.
    pub exit: OwnedFd,
    /// What it says; a sandbox says nothing.
    pub log: Option<Tail>,
}

#[derive(Deserialize)]
struct Bundle {
    annotations: Annotations,
}

#[derive(Deserialize)]
struct Annotations {
    #[serde(rename = "io.kubernetes.cri.container-type")]
    kind: String,
    #[serde(rename = "io.kubernetes.cri.container-name")]
    container: Option<String>,
    #[serde(rename = "io.kubernetes.cri.sandbox-name")]
    pod: String,
    #[serde(rename = "io.kubernetes.cri.sandbox-namespace")]
    namespace: String,
    #[serde(rename = "io.kubernetes.cri.sandbox-uid")]
    uid: String,
}

impl Tasks {
    /// Knows no task yet.
    pub fn new(bundles: impl Into<PathBuf>, logs: impl Into<PathBuf>) -> Tasks {
        Tasks { bundles: bundles.into(), logs: logs.into(), known: BTreeSet::new() }
    }

    /// The tasks that have a process since this was last asked, sandboxes first. A bundle that is still being written is looked at again
    /// the next time.
    pub fn appeared(&mut self) -> Vec<Task> {
        let names = std::fs::read_dir(&self.bundles).into_iter().flatten().flatten();
        let names: BTreeSet<_> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        self.known.retain(|id| names.contains(id));
        let mut found = Vec::new();
        for id in names {
            if !self.known.contains(&id)
                && let Some(task) = self.task(&id)
            {
                self.known.insert(id);
                found.push(task);
            }
        }
        found.sort_by_key(|task| task.container.is_some());
        found
    }

    fn task(&self, id: &str) -> Option<Task> {
        let bundle = self.bundles.join(id);
        let pid: u32 = std::fs::read_to_string(bundle.join("init.pid")).ok()?.trim().parse().ok()?;
        let Bundle { annotations } = serde_json::from_slice(&std::fs::read(bundle.join("config.json")).ok()?).ok()?;
        let exit = pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok()?;
        let cgroup = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let cgroup = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?.to_owned();
        let Annotations { kind, container, pod, namespace, uid } = annotations;
        let container = container.filter(|_| kind == "container");
        let said = container.as_ref().map(|container| self.logs.join(format!("{namespace}_{pod}_{uid}")).join(container));
        let attempt = said.as_deref().map_or(0, last_attempt);
        let log = said.map(|folder| Tail::new(folder.join(format!("{attempt}.log"))));
        Some(Task { pod, container, attempt, cgroup, pid, exit, log })
    }
}

impl Task {
    /// What its cgroup is for.
    pub fn role(&self) -> Role {
        match &self.container {
            Some(container) => Role::Container { pod: self.pod.clone(), container: container.clone() },
            None => Role::Sandbox { pod: self.pod.clone() },
        }
    }
}

/// The kubelet counts a container's starts in the names of its logs, and the runtime opens the log before it starts the process.
fn last_attempt(folder: &Path) -> u32 {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let attempts = names.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".log")?.parse().ok());
    attempts.max().unwrap_or(0)
}

/// A log of the CRI's form, read as it grows: each line is `TIME STREAM F TEXT`, or `P` instead of `F` where the line goes on.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    file: Option<File>,
    unread: Vec<u8>,
    line: String,
}

impl Tail {
    fn new(path: PathBuf) -> Tail {
        Tail { path, file: None, unread: Vec::new(), line: String::new() }
    }

    /// The lines that were finished since this was last asked.
    pub fn lines(&mut self) -> Vec<String> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let Some(file) = &mut self.file else { return Vec::new() };
        // What cannot be read now is read the next time.
        _ = file.read_to_end(&mut self.unread);
        let Some(end) = self.unread.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let whole: Vec<u8> = self.unread.drain(..=end).collect();
        let mut lines = Vec::new();
        for raw in String::from_utf8_lossy(&whole).lines() {
            let mut fields = raw.splitn(4, ' ').skip(2);
            let (tag, text) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
            self.line.push_str(text);
            if tag != "P" {
                lines.push(std::mem::take(&mut self.line));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_known_from_its_bundle_and_its_process() {
        let dir = std::env::temp_dir().join(format!("highwater-tasks-{}", std::process::id()));
        let (bundles, logs) = (dir.join("bundles"), dir.join("logs"));
        let bundle = bundles.join("c1");
        std::fs::create_dir_all(&bundle).unwrap();
        let mut tasks = Tasks::new(&bundles, &logs);
        assert!(tasks.appeared().is_empty(), "it has no process yet");

        let config = r#"{"ociVersion": "1.2.0", "annotations": {"io.kubernetes.cri.container-type": "container",
            "io.kubernetes.cri.container-name": "main", "io.kubernetes.cri.sandbox-name": "web",
            "io.kubernetes.cri.sandbox-namespace": "default", "io.kubernetes.cri.sandbox-uid": "u1"}}"#;
        std::fs::write(bundle.join("config.json"), config).unwrap();
        let said = logs.join("default_web_u1/main");
        std::fs::create_dir_all(&said).unwrap();
        std::fs::write(said.join("0.log"), "").unwrap();
        std::fs::write(said.join("1.log"), "2026-12-01T00:00:00Z stdout P report a=\n2026-12-01T00:00:00Z stdout F 1\n2026")
            .unwrap();
        std::fs::write(bundle.join("init.pid"), std::process::id().to_string()).unwrap();

        let mut found = tasks.appeared();
        let [task] = &mut found[..] else { panic!("{found:?}") };
        assert_eq!(task.role().to_string(), "pod/web/main");
        assert_eq!((task.attempt, task.pid), (1, std::process::id()));
        assert_eq!(task.log.as_mut().unwrap().lines(), ["report a=1"]);
        assert!(task.log.as_mut().unwrap().lines().is_empty(), "a line without its end waits");
        assert!(tasks.appeared().is_empty(), "it is known");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
