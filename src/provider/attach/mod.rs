//! An existing node, read and never written: the machine itself, or a tree that was captured or mounted elsewhere.

mod directory;
mod facts;
mod mounts;
mod place;
mod pods;
mod processes;
mod rehearsal;
mod root;
mod usage;

pub use directory::{Captured, DirectoryError};
pub use mounts::{Mounted, mounted, of_table};
pub use place::{InPod, Place, Runtime, place};
pub use pods::{Listed, ListedNode, ListedPod, qualify, read as read_pods};
pub use rehearsal::{Likeness, rehearsal};
pub use root::{Root, RootError};

use crate::ledger::{CONTROLS, parent};
use crate::record::{Capture, CapturedNode, CgroupMode, FileValue, LedgerEntry, LedgerSnapshot, Role, SCHEMA};
use processes::{PodFound, Processes, processes};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What a capture is told.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The node's name in the pods' nodeName.
    pub node: Option<String>,
    /// The kubelet's configuration file.
    pub kubelet_config: Option<String>,
    /// Pods and nodes as the API server lists them.
    pub listed: Option<Listed>,
    /// Time between two readings of usage.
    pub every: Duration,
    /// How long usage is watched; zero takes one reading.
    pub length: Duration,
}

/// The files that say what cgroup v1 limits. They are kept; a plan for cgroup v2 is not held against them.
const V1: [&str; 3] = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.soft_limit_in_bytes"];

/// Captures a node. `wait` sleeps and says whether to go on.
#[must_use]
pub fn capture(root: &Root, wanted: Wanted, wait: impl FnMut(Duration) -> bool) -> Captured {
    let (mut doubts, mut notes) = (Vec::new(), Vec::new());
    let mounted = mounted(root);
    mode_doubts(&mounted, &mut doubts);
    let mut node = facts::node(root);
    node.cgroups = mounted.mode;
    node.mount_options = mounted.options.clone();
    if node.memory.is_none() {
        doubts.push("/proc/meminfo does not say MemTotal: the plan depends on it".to_owned());
    }
    let kubelet = facts::configuration(root, wanted.kubelet_config.as_deref()).map_err(|why| doubts.push(why)).ok();
    let processes = processes(root, mounted.mode);
    if processes.outside > 0 {
        doubts.push(format!(
            "{} of {} processes have a cgroup outside of this cgroup namespace: capture from the host's",
            processes.outside, processes.seen
        ));
    }
    let found = kubepods(&processes, &mut node, &mut doubts, &mut notes, root, &mounted);
    let mut listed = choose(wanted.listed, wanted.node, &mut node, &found, &mut doubts);
    qualify(&mut listed);
    let names = Names::new(root, &listed);
    let mut entries = above(root, &mounted, &node);
    entries.extend(of_pods(root, &mounted, &found, &names, &mut doubts, &mut notes));
    strangers(root, &mounted, &node, &found, &mut notes);
    let at = format!("{}{}", mounted.at, node.kubepods.clone().unwrap_or_default());
    node.swap_controller = root.has(&format!("{at}/memory.swap.max"));
    let usage = usage::watch(root, &mounted.at, &entries, (wanted.every, wanted.length), wait);
    let capture = Capture {
        schema: SCHEMA,
        taken_by: env!("CARGO_PKG_VERSION").to_owned(),
        taken_at: std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs()),
        node,
        doubts,
        notes,
    };
    let ledger = LedgerSnapshot { at_ns: 0, phase: "capture".to_owned(), entries };
    Captured { capture, kubelet, listed: Listed { pods: listed, nodes: Vec::new() }, ledger, usage }
}

fn mode_doubts(mounted: &Mounted, doubts: &mut Vec<String>) {
    let says = match mounted.mode {
        CgroupMode::V2 => None,
        CgroupMode::V1 => Some("the node uses cgroup v1: it has none of the files that the kubelet's memory policy writes"),
        CgroupMode::Hybrid => Some(
            "the node uses the hybrid arrangement, with the memory controller on cgroup v1: it has none of the files that the kubelet's \
             memory policy writes",
        ),
        CgroupMode::Unknown => Some("no cgroup hierarchy is mounted there"),
    };
    doubts.extend(says.map(str::to_owned));
    if mounted.partial {
        doubts.push(format!("only a part of the hierarchy is mounted at {}: what stands above it is not seen", mounted.at));
    }
}

/// The pods below the node's own kubepods. When there are several, as on a machine that runs nested nodes, the one nearest to the root.
fn kubepods(
    processes: &Processes,
    node: &mut CapturedNode,
    doubts: &mut Vec<String>,
    notes: &mut Vec<String>,
    root: &Root,
    mounted: &Mounted,
) -> BTreeMap<String, PodFound> {
    let nearest = processes.pods.keys().min_by_key(|path| (path.matches('/').count(), (*path).clone()));
    if let Some(path) = nearest {
        node.kubepods = Some(path.clone());
        node.cgroup_driver = processes.driver.get(path).copied();
        let others: Vec<&str> = processes.pods.keys().filter(|other| *other != path).map(String::as_str).collect();
        if !others.is_empty() {
            notes.push(format!("there are more nodes on this machine; {path} was taken, and not {}", others.join(", ")));
        }
        return processes.pods[path].clone();
    }
    doubts.push(format!("none of {} processes runs in a pod", processes.seen));
    let usual = ["/kubepods.slice", "/kubepods", "/kubelet.slice/kubelet-kubepods.slice", "/kubelet/kubepods"];
    node.kubepods = usual.iter().find(|path| root.has(&format!("{}{path}", mounted.at))).map(|path| (*path).to_owned());
    BTreeMap::new()
}

/// The node's pods of the list. A uid is of one node only, so a pod that runs here tells this node's name.
fn choose(
    listed: Option<Listed>,
    named: Option<String>,
    node: &mut CapturedNode,
    found: &BTreeMap<String, PodFound>,
    doubts: &mut Vec<String>,
) -> Vec<ListedPod> {
    let Some(listed) = listed else {
        doubts.push(
            "no list of pods: requests and limits are unknown; give --pods with `kubectl get nodes,pods -A -o json`".to_owned(),
        );
        return Vec::new();
    };
    let here = |pod: &&ListedPod| found.contains_key(&pod.pod.metadata.uid);
    let names: BTreeSet<&str> = listed.pods.iter().filter(here).map(|p| p.pod.spec.node_name.as_str()).collect();
    let name = match (named, names.iter().next()) {
        (Some(name), _) => name,
        (None, Some(name)) if names.len() == 1 => (*name).to_owned(),
        (None, Some(_)) => {
            let all: Vec<&str> = names.into_iter().collect();
            doubts.push(format!("pods that run here are listed for several nodes, {}: choose one with --node", all.join(", ")));
            return Vec::new();
        }
        (None, None) => {
            doubts.push("no pod of the list runs here: is it another cluster's?".to_owned());
            return Vec::new();
        }
    };
    if let Some(of_list) = listed.nodes.iter().find(|n| n.name == name) {
        node.kubelet = of_list.kubelet.clone().or(node.kubelet.take());
        node.runtime.clone_from(&of_list.runtime);
    }
    if !name.is_empty() {
        node.name = Some(name.clone());
    }
    listed.pods.into_iter().filter(|pod| pod.pod.spec.node_name == name).collect()
}

/// Names of pods and containers: from the list, else from the names of the kubelet's log links.
struct Names {
    /// Pod by uid.
    pods: BTreeMap<String, String>,
    /// Container by id.
    containers: BTreeMap<String, String>,
    /// Pod by container id.
    pod_of: BTreeMap<String, String>,
}

impl Names {
    fn new(root: &Root, listed: &[ListedPod]) -> Names {
        let mut names = Names { pods: BTreeMap::new(), containers: BTreeMap::new(), pod_of: BTreeMap::new() };
        // POD_NAMESPACE_CONTAINER-ID.log, a link to the container's log. Only the name is read.
        for (name, _) in root.names("/var/log/containers") {
            let parts = || {
                let (left, id) = name.strip_suffix(".log")?.rsplit_once('-')?;
                let mut parts = left.splitn(3, '_');
                Some((parts.next()?.to_owned(), parts.nth(1)?.to_owned(), id.to_owned()))
            };
            if let Some((pod, container, id)) = parts() {
                names.pod_of.insert(id.clone(), pod);
                names.containers.insert(id, container);
            }
        }
        for listed in listed {
            names.pods.insert(listed.pod.metadata.uid.clone(), listed.pod.name().to_owned());
            names.containers.extend(listed.ids.clone());
        }
        names
    }

    fn pod(&self, uid: &str, pod: &PodFound) -> String {
        let by_log = || pod.containers.values().find_map(|c| self.pod_of.get(&c.id)).cloned();
        self.pods.get(uid).cloned().or_else(by_log).unwrap_or_else(|| uid.to_owned())
    }
}

/// What stands above the pods: the root of a cgroup namespace, the cgroups above kubepods, kubepods, the classes.
fn above(root: &Root, mounted: &Mounted, node: &CapturedNode) -> Vec<LedgerEntry> {
    let mut entries = Vec::new();
    // The root of the hierarchy has no memory.max; that of a namespace has one, and limits what is below.
    if root.has(&format!("{}/memory.max", mounted.at)) {
        entries.push(entry(root, mounted, Role::Node, "/", None));
    }
    let Some(kubepods) = &node.kubepods else { return entries };
    let mut line: Vec<&str> = std::iter::successors(parent(kubepods), |path| parent(path)).filter(|path| *path != "/").collect();
    line.reverse();
    entries.extend(line.into_iter().map(|path| entry(root, mounted, Role::System { name: path.to_owned() }, path, None)));
    entries.push(entry(root, mounted, Role::Kubepods, kubepods, None));
    for class in ["burstable", "besteffort"] {
        let path = match kubepods.strip_suffix(".slice") {
            Some(stem) => format!("{kubepods}/{}-{class}.slice", stem.rsplit('/').next().unwrap_or_default()),
            None => format!("{kubepods}/{class}"),
        };
        if root.has(&format!("{}{path}", mounted.at)) {
            entries.push(entry(root, mounted, Role::Qos { class: class.to_owned() }, &path, None));
        }
    }
    entries
}

fn of_pods(
    root: &Root,
    mounted: &Mounted,
    found: &BTreeMap<String, PodFound>,
    names: &Names,
    doubts: &mut Vec<String>,
    notes: &mut Vec<String>,
) -> Vec<LedgerEntry> {
    let mut entries = Vec::new();
    for (uid, pod) in found {
        let name = names.pod(uid, pod);
        entries.push(entry(root, mounted, Role::Pod { pod: name.clone() }, &pod.path, None));
        let containers = || pod.containers.iter().filter(|(_, c)| !c.monitor);
        // What the list does not name is the pause container, as long as it is one.
        let unnamed: Vec<&String> =
            containers().filter(|(_, c)| !names.containers.contains_key(&c.id)).map(|(path, _)| path).collect();
        let sandbox = unnamed.first().filter(|_| unnamed.len() == 1 && containers().count() > 1);
        for (path, container) in containers() {
            let role = match names.containers.get(&container.id) {
                Some(of_list) => Role::Container { pod: name.clone(), container: of_list.clone() },
                None if sandbox == Some(&path) => Role::Sandbox { pod: name.clone() },
                None => Role::Container { pod: name.clone(), container: container.id[..12].to_owned() },
            };
            if container.score.is_none() {
                notes.push(format!("the processes of {role} do not agree on oom_score_adj"));
            }
            entries.push(entry(root, mounted, role, path, container.score));
        }
        if unnamed.len() > 1 && names.pods.contains_key(uid) {
            doubts.push(format!("pod {name} has {} containers that the list does not name", unnamed.len()));
        }
    }
    entries
}

/// Cgroups that look like pods and have no process: said, and not taken for pods.
fn strangers(root: &Root, mounted: &Mounted, node: &CapturedNode, found: &BTreeMap<String, PodFound>, notes: &mut Vec<String>) {
    let Some(kubepods) = &node.kubepods else { return };
    let known: BTreeSet<&str> = found.values().map(|pod| pod.path.as_str()).collect();
    let mut parents = vec![kubepods.clone()];
    let children = |path: &str| root.names(&format!("{}{path}", mounted.at)).into_iter().filter(|(_, dir)| *dir);
    parents.extend(
        children(kubepods)
            .filter(|(n, _)| n.contains("burstable") || n.contains("besteffort"))
            .map(|(n, _)| format!("{kubepods}/{n}")),
    );
    parents.dedup();
    for path in parents.iter().flat_map(|parent| children(parent).map(move |(name, _)| format!("{parent}/{name}"))) {
        if place(&path).is_some() && !known.contains(path.as_str()) {
            notes.push(format!("{path} is named like a pod and has no process"));
        }
    }
}

fn entry(root: &Root, mounted: &Mounted, role: Role, path: &str, score: Option<i32>) -> LedgerEntry {
    let read = |file: &str| match root.text(&format!("{}{path}/{file}", mounted.at)) {
        Some(text) => FileValue::Text(text.strip_suffix('\n').unwrap_or(&text).to_owned()),
        None => FileValue::Absent,
    };
    let v1 = matches!(mounted.mode, CgroupMode::V1 | CgroupMode::Hybrid);
    let names = CONTROLS.iter().map(|(file, _)| *file).chain(V1.into_iter().filter(|_| v1));
    let mut files: BTreeMap<String, FileValue> = names.map(|file| (file.to_owned(), read(file))).collect();
    files.extend(score.map(|score| ("oom_score_adj".to_owned(), FileValue::Text(score.to_string()))));
    LedgerEntry { role, path: path.to_owned(), files }
}
