//! Reads the control ledger of a real node: which cgroup belongs to which container comes from the runtime and /proc, never from a name.
//!
//! Two scripts run on the node. The first asks the runtime for its sandboxes, containers and their first processes and reads each process's
//! own cgroup and oom_score_adj; the second reads the control files of those cgroups and of all their ancestors.

use crate::record::{FileValue, LedgerEntry, Role};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The control files of a ledger.
pub const FILES: [&str; 8] =
    ["memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max", "memory.oom.group", "cpu.weight", "cpu.max"];

/// Asks the runtime what runs.
pub const TASKS: &str = r#"set -e
crictl pods --state ready -o json | tr -d '\n'; echo
crictl ps -o json | tr -d '\n'; echo
ctr -n k8s.io tasks ls | while read -r id pid status; do
    [ "$status" = RUNNING ] || continue
    read -r cgroup <"/proc/$pid/cgroup"
    read -r score <"/proc/$pid/oom_score_adj"
    echo "$id $score $cgroup"
done
"#;

/// Why a capture cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// Output of another shape.
    #[error("what the runtime of the node said cannot be read: {0}")]
    Malformed(String),
    /// A container without a process: it ended between two questions, or its start is not over.
    #[error("{0} has no running process in the runtime's list: capture when its pods are running")]
    NoTask(Role),
}

/// A container or sandbox with the cgroup of its first process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub role: Role,
    /// Path below the cgroup2 mount, starting with a slash.
    pub path: String,
    /// oom_score_adj of its first process.
    pub oom_score_adj: i32,
}

#[derive(Deserialize)]
struct Sandboxes {
    #[serde(default)]
    items: Vec<Sandbox>,
}

#[derive(Deserialize)]
struct Sandbox {
    id: String,
    metadata: Named,
}

#[derive(Deserialize)]
struct Containers {
    #[serde(default)]
    containers: Vec<Container>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    id: String,
    pod_sandbox_id: String,
    metadata: Named,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Reads the output of [`TASKS`]: sandboxes first, then containers.
///
/// # Errors
/// Output of another shape; a sandbox or container that has no process.
pub fn tasks(output: &str) -> Result<Vec<Found>, CaptureError> {
    let malformed = |what: &dyn std::fmt::Display| CaptureError::Malformed(what.to_string());
    let mut lines = output.lines();
    let mut json = || lines.next().ok_or_else(|| malformed(&"it ends early"));
    let sandboxes: Sandboxes = serde_json::from_str(json()?).map_err(|e| malformed(&e))?;
    let containers: Containers = serde_json::from_str(json()?).map_err(|e| malformed(&e))?;
    let mut tasks = BTreeMap::new();
    for line in lines {
        let task = || {
            let (id, rest) = line.split_once(' ')?;
            let (score, cgroup) = rest.split_once(' ')?;
            Some((id, (score.parse::<i32>().ok()?, cgroup.strip_prefix("0::/").map(|path| format!("/{path}"))?)))
        };
        tasks.extend([task().ok_or_else(|| malformed(&line))?]);
    }
    let pods: BTreeMap<_, _> = sandboxes.items.iter().map(|s| (s.id.as_str(), s.metadata.name.as_str())).collect();
    let found = |id: &str, role: Role| match tasks.get(id) {
        Some((score, path)) => Ok(Found { role, path: path.clone(), oom_score_adj: *score }),
        None => Err(CaptureError::NoTask(role)),
    };
    let mut all = Vec::new();
    for sandbox in &sandboxes.items {
        all.push(found(&sandbox.id, Role::Sandbox { pod: sandbox.metadata.name.clone() })?);
    }
    for container in &containers.containers {
        // A container of a sandbox that is not ready belongs to a pod that is going.
        if let Some(pod) = pods.get(container.pod_sandbox_id.as_str()) {
            let role = Role::Container { pod: (*pod).to_owned(), container: container.metadata.name.clone() };
            all.push(found(&container.id, role)?);
        }
    }
    Ok(all)
}

/// Adds the pods' cgroups, which are the parents of their sandboxes', and the levels that exist without any pod.
#[must_use]
pub fn levels(found: Vec<Found>, above: &[(Role, String)]) -> Vec<(Role, String, Option<i32>)> {
    let mut levels: Vec<_> = above.iter().map(|(role, path)| (role.clone(), path.clone(), None)).collect();
    for one in &found {
        if let (Role::Sandbox { pod }, Some((parent, _))) = (&one.role, one.path.rsplit_once('/')) {
            levels.push((Role::Pod { pod: pod.clone() }, parent.to_owned(), None));
        }
    }
    levels.extend(found.into_iter().map(|one| (one.role, one.path, Some(one.oom_score_adj))));
    levels
}

/// A script that prints the control files of these cgroups as `FILE:TEXT` lines.
#[must_use]
pub fn read_files(levels: &[(Role, String, Option<i32>)]) -> String {
    let paths: BTreeSet<_> = levels.iter().map(|(_, path, _)| path).collect();
    let mut script = String::from("cd /sys/fs/cgroup\nset --\n");
    for path in paths {
        // Single quotes: systemd escapes with backslashes.
        let files = FILES.map(|file| format!("'.{path}/{file}'")).join(" ");
        script += &format!("set -- \"$@\" {files}\n");
    }
    // A file that is not there is a finding, not a failure.
    script + "grep -sH '' \"$@\" || [ $? -le 2 ]\n"
}

/// The ledger, from the output of [`read_files`].
#[must_use]
pub fn ledger(levels: Vec<(Role, String, Option<i32>)>, output: &str) -> Vec<LedgerEntry> {
    let values: BTreeMap<_, _> = output.lines().filter_map(|line| line.strip_prefix('.')?.split_once(':')).collect();
    let entry = |(role, path, score): (Role, String, Option<i32>)| {
        let value = |file: &str| match values.get(format!("{path}/{file}").as_str()) {
            Some(text) => FileValue::Text((*text).to_owned()),
            None => FileValue::Absent,
        };
        let mut files: BTreeMap<_, _> = FILES.iter().map(|file| ((*file).to_owned(), value(file))).collect();
        files.extend(score.map(|score| ("oom_score_adj".to_owned(), FileValue::Text(score.to_string()))));
        LedgerEntry { role, path, files }
    };
    levels.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: &str = r#"{"items": [{"id": "s1", "metadata": {"name": "web", "uid": "u"}, "state": "SANDBOX_READY"}]}"#;
    const RUNNING: &str = r#"{"containers": [{"id": "c1", "podSandboxId": "s1", "metadata": {"name": "main", "attempt": 0}},
        {"id": "old", "podSandboxId": "gone", "metadata": {"name": "main"}}]}"#;

    fn output(tasks: &str) -> String {
        format!("{PODS}\n{}\n{tasks}", RUNNING.replace('\n', ""))
    }

    #[test]
    fn cgroups_come_from_the_processes() {
        let found = tasks(&output("s1 -998 0::/a/pod/x\nc1 984 0::/a/pod/y\nother 0 0::/b\n")).unwrap();
        let levels = levels(found, &[(Role::Kubepods, "/a".to_owned())]);
        let shown: Vec<_> = levels.iter().map(|(role, path, score)| format!("{role} {path} {score:?}")).collect();
        assert_eq!(
            shown,
            ["kubepods /a None", "pod/web /a/pod None", "pod/web/pause /a/pod/x Some(-998)", "pod/web/main /a/pod/y Some(984)"]
        );
        let script = read_files(&levels);
        assert!(script.contains("'./a/pod/y/memory.swap.max'"), "{script}");
    }

    #[test]
    fn a_container_without_a_process_is_named() {
        let error = tasks(&output("s1 -998 0::/a/pod/x\n")).unwrap_err();
        assert!(error.to_string().starts_with("pod/web/main has no running process"), "{error}");
        assert!(matches!(tasks("{}\n").unwrap_err(), CaptureError::Malformed(_)));
        assert!(matches!(tasks(&output("s1 x 0::/a\n")).unwrap_err(), CaptureError::Malformed(_)));
    }

    #[test]
    fn files_that_are_not_there_are_absent() {
        let levels = vec![(Role::Kubepods, "/a".to_owned(), Some(3))];
        let entries = ledger(levels, "./a/memory.max:max\n./a/cpu.max:max 100000\n");
        assert_eq!(entries[0].files["memory.max"], FileValue::Text("max".to_owned()));
        assert_eq!(entries[0].files["cpu.max"], FileValue::Text("max 100000".to_owned()));
        assert_eq!(entries[0].files["memory.low"], FileValue::Absent);
        assert_eq!(entries[0].files["oom_score_adj"], FileValue::Text("3".to_owned()));
    }

    #[test]
    fn the_script_reads_real_files() {
        let dir = tempfile::tempdir().unwrap();
        fs_err::create_dir_all(dir.path().join("a")).unwrap();
        fs_err::write(dir.path().join("a/memory.max"), "4096\n").unwrap();
        let levels = vec![(Role::Kubepods, "/a".to_owned(), None)];
        let script = read_files(&levels).replace("/sys/fs/cgroup", dir.path().to_str().unwrap());
        let run = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(run.status.success(), "{run:?}");
        let entries = ledger(levels, &String::from_utf8(run.stdout).unwrap());
        assert_eq!(entries[0].files["memory.max"], FileValue::Text("4096".to_owned()));
    }
}
