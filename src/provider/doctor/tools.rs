//! Programs and endpoints of this machine, asked with a deadline each.

use crate::provider::docker::{Engine, EngineFacts, Wanted};
use crate::provider::machine::run_with_deadline;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(5);

/// What is installed. `None` is not there; the text is the version it names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolFacts {
    /// QEMU.
    pub qemu: Option<String>,
    /// qemu-img is there, for disks over disks.
    pub qemu_img: bool,
    /// mke2fs is there, for labs with a data disk.
    pub mke2fs: bool,
    /// Why there is no usable kernel for the deterministic node, if there is none.
    pub kernel: Result<String, String>,
    /// Why there are no node programs, if there are none.
    pub programs: Result<(), String>,
    /// The Docker API.
    pub docker: Result<EngineFacts, String>,
    /// Why a throwaway Docker cannot be started here, if it cannot.
    pub throwaway: Result<String, String>,
    /// The `kind` command.
    pub kind: Option<String>,
    /// `containerd --version` of this machine.
    pub containerd: Option<String>,
    /// `crio --version` of this machine.
    pub crio: Option<String>,
    /// A kubeconfig file.
    pub kubeconfig: Option<PathBuf>,
    /// Bytes free where the cache is.
    pub cache_free: Option<u64>,
}

impl Default for ToolFacts {
    fn default() -> ToolFacts {
        let unknown = || "not looked for".to_owned();
        ToolFacts {
            qemu: None,
            qemu_img: false,
            mke2fs: false,
            kernel: Err(unknown()),
            programs: Err(unknown()),
            docker: Err(unknown()),
            throwaway: Err(unknown()),
            kind: None,
            containerd: None,
            crio: None,
            kubeconfig: None,
            cache_free: None,
        }
    }
}

/// The version a program prints: the first word that begins with a digit, after an optional `v`.
pub fn version_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = run_with_deadline(Command::new(program).args(arguments), PATIENCE).ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |word: &str| {
        let word = word.trim_start_matches('v').trim_end_matches([',', ';']);
        (word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.')).then(|| word.to_owned())
    };
    output.status.success().then(|| text.split_whitespace().find_map(number).unwrap_or_else(|| "unknown version".into()))
}

/// Asks the Docker at `DOCKER_HOST` or its usual socket.
pub fn docker() -> Result<EngineFacts, String> {
    let endpoint = Wanted::Default.endpoint(|name| std::env::var(name).ok()).map_err(|error| error.to_string())?;
    let endpoint = endpoint.ok_or("no address")?;
    Engine::connect(&endpoint).and_then(|engine| engine.facts()).map_err(|error| error.to_string())
}

/// The kubeconfig that would be used.
pub fn kubeconfig() -> Option<PathBuf> {
    let named = std::env::var_os("KUBECONFIG").map(PathBuf::from);
    named.or_else(|| Some(std::env::home_dir()?.join(".kube/config"))).filter(|path| path.is_file())
}

/// Bytes free for this user on the disk of the nearest existing parent.
pub fn disk_free(path: &Path) -> Option<u64> {
    let existing = path.ancestors().find(|dir| dir.is_dir())?;
    let stat = rustix::fs::statvfs(existing).ok()?;
    Some(stat.f_bavail * stat.f_frsize)
}
