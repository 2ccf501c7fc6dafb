//! A capture as a directory of plain files, written whole or not at all, and read back.

use super::{Listed, ListedPod, Runtime, place, read_pods};
use crate::kubelet::{KubeletConfiguration, NodeFacts, Version};
use crate::record::{Capture, CapturedNode, LedgerSnapshot, Role, SCHEMA, Usage};
use camino::{Utf8Path, Utf8PathBuf};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

/// Everything that was captured.
#[derive(Debug, Clone, PartialEq)]
pub struct Captured {
    /// The node, doubts and notes.
    pub capture: Capture,
    /// The kubelet's configuration.
    pub kubelet: Option<KubeletConfiguration>,
    /// The node's pods.
    pub listed: Listed,
    /// The control files.
    pub ledger: LedgerSnapshot,
    /// What was used.
    pub usage: Usage,
}

/// Why a directory cannot be written or read as a capture.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It holds something already.
    #[error("{0} is not empty: name another directory with --out")]
    NotEmpty(Utf8PathBuf),
    /// The file system refused.
    #[error("{0}: {1}")]
    Io(Utf8PathBuf, std::io::Error),
    /// A file that is no record of this version.
    #[error("{0}: {1}")]
    Malformed(Utf8PathBuf, String),
}

impl Captured {
    /// Whether a directory holds a capture.
    #[must_use]
    pub fn is_at(directory: &Utf8Path) -> bool {
        directory.join("capture.json").is_file()
    }

    /// Writes a new directory; `capture.json` comes last, so a directory that has it is whole.
    ///
    /// # Errors
    /// The directory is not empty, or the file system refuses.
    pub fn write(&self, directory: &Utf8Path) -> Result<(), DirectoryError> {
        let io = |e: std::io::Error| DirectoryError::Io(directory.to_owned(), e);
        fs_err::create_dir_all(directory).map_err(io)?;
        if directory.read_dir_utf8().map_err(io)?.next().is_some() {
            return Err(DirectoryError::NotEmpty(directory.to_owned()));
        }
        // It was empty, so whatever lies there after a failure is half a capture.
        self.fill(directory).inspect_err(|_| drop(fs_err::remove_dir_all(directory)))
    }

    fn fill(&self, directory: &Utf8Path) -> Result<(), DirectoryError> {
        if let Some(kubelet) = &self.kubelet {
            put(directory, "kubelet.json", kubelet)?;
        }
        put(directory, "pods.json", &self.listed.to_json())?;
        put(directory, "ledger.json", &self.ledger)?;
        put(directory, "usage.json", &self.usage)?;
        put(directory, "capture.json", &self.capture)
    }

    /// Reads a directory.
    ///
    /// # Errors
    /// A file is missing or of another version.
    pub fn read(directory: &Utf8Path) -> Result<Captured, DirectoryError> {
        let capture: Capture = get(directory, "capture.json")?;
        if capture.schema != SCHEMA {
            let says = format!("schema {}, and this version reads {SCHEMA}", capture.schema);
            return Err(DirectoryError::Malformed(directory.join("capture.json"), says));
        }
        let kubelet = directory.join("kubelet.json").exists().then(|| get(directory, "kubelet.json")).transpose()?;
        let path = directory.join("pods.json");
        let text = fs_err::read_to_string(&path).map_err(|e| DirectoryError::Io(path.clone(), e))?;
        let listed = read_pods(&text).map_err(|e| DirectoryError::Malformed(path, e))?;
        let (ledger, usage) = (get(directory, "ledger.json")?, get(directory, "usage.json")?);
        Ok(Captured { capture, kubelet, listed, ledger, usage })
    }

    /// The kubelet's version.
    ///
    /// # Errors
    /// A sentence: it is not known, or none that this program knows.
    pub fn version(&self) -> Result<Version, String> {
        let text = self.capture.node.kubelet.as_deref();
        let text = text.ok_or("the kubelet's version is not known: give --kubernetes")?;
        text.parse().map_err(|e: crate::kubelet::UnknownVersion| e.to_string())
    }

    /// What the kubelet saw of the node.
    ///
    /// # Errors
    /// A sentence: the memory is not known.
    pub fn facts(&self) -> Result<NodeFacts, String> {
        let CapturedNode { memory, swap, page_size, cpus, kernel, cgroup_driver, swap_controller, kubepods, .. } =
            &self.capture.node;
        let memory = memory.ok_or("the node's memory is not known")?;
        let mut numbers = kernel.iter().flat_map(|k| k.split(|c: char| !c.is_ascii_digit())).map(|n| n.parse().ok());
        let kernel = numbers.next().flatten().zip(numbers.next().flatten());
        // With slices the name of kubepods says what is above it; plain directories do not, and the configuration has to.
        let stem = kubepods.as_deref().and_then(|path| path.rsplit('/').next()?.strip_suffix("-kubepods.slice"));
        Ok(NodeFacts {
            page_size: (*page_size).max(1),
            swap_controller: *swap_controller,
            cpu_millis: cpus.and_then(|cpus| cpus.checked_mul(1000)),
            kernel,
            cgroup_driver: cgroup_driver.unwrap_or_default(),
            cgroup_root: stem.map_or_else(String::new, |stem| format!("/{}", stem.replace('-', "/"))),
            ..NodeFacts::new(memory, *swap)
        })
    }

    /// Which roles should have a cgroup: those that the list says run, and pause containers where the runtime has them.
    pub fn alive(&self) -> impl Fn(&Role) -> bool + use<> {
        let running = |listed: &ListedPod| {
            let pod = listed.pod.name().to_owned();
            let lasting = || listed.pod.lasting().map(|c| c.name.clone()).collect();
            let names = listed.running.clone().unwrap_or_else(lasting);
            names.into_iter().map(move |container| (pod.clone(), container)).collect::<Vec<_>>()
        };
        let running: BTreeSet<(String, String)> = self.listed.pods.iter().flat_map(running).collect();
        let there: BTreeSet<Role> = self.ledger.entries.iter().map(|e| e.role.clone()).collect();
        let of_crio = |e: &&crate::record::LedgerEntry| {
            place(&e.path).and_then(|p| p.container).is_some_and(|c| c.runtime == Runtime::Crio)
        };
        let crio = self.ledger.entries.iter().any(|e| of_crio(&e));
        move |role| match role {
            _ if there.contains(role) => true,
            Role::Container { pod, container } => running.contains(&(pod.clone(), container.clone())),
            Role::Pod { pod } => running.iter().any(|(p, _)| p == pod),
            Role::Sandbox { pod } => !crio && running.iter().any(|(p, _)| p == pod),
            Role::Kubepods | Role::Qos { .. } => true,
            Role::Node | Role::System { .. } => false,
        }
    }
}

fn put(directory: &Utf8Path, name: &str, value: &impl serde::Serialize) -> Result<(), DirectoryError> {
    let path = directory.join(name);
    let mut text = serde_json::to_vec_pretty(value).map_err(|e| DirectoryError::Malformed(path.clone(), e.to_string()))?;
    text.push(b'\n');
    fs_err::write(&path, text).map_err(|e| DirectoryError::Io(path, e))
}

fn get<T: DeserializeOwned>(directory: &Utf8Path, name: &str) -> Result<T, DirectoryError> {
    let path = directory.join(name);
    let text = fs_err::read_to_string(&path).map_err(|e| DirectoryError::Io(path.clone(), e))?;
    serde_json::from_str(&text).map_err(|e| DirectoryError::Malformed(path, format!("line {}: {e}", e.line())))
}
