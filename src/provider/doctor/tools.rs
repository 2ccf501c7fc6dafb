//! Programs and endpoints of this machine, asked with a deadline each.

use crate::provider::machine::run_with_deadline;
use serde::Serialize;
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
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
    /// mke2fs is there, for labs with a data disk.
    pub mke2fs: bool,
    /// Why there is no usable kernel for the deterministic node, if there is none.
    pub kernel: Result<String, String>,
    /// Why there are no node programs, if there are none.
    pub programs: Result<(), String>,
    /// The Docker API.
    pub docker: Result<DockerFacts, String>,
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
            mke2fs: false,
            kernel: Err(unknown()),
            programs: Err(unknown()),
            docker: Err(unknown()),
            kind: None,
            containerd: None,
            crio: None,
            kubeconfig: None,
            cache_free: None,
        }
    }
}

/// A Docker endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DockerFacts {
    /// Where it answers.
    pub endpoint: String,
    /// Engine version.
    pub version: String,
    /// "1" or "2".
    pub cgroup_version: String,
    /// Kernel of the machine it runs on.
    pub kernel: String,
    /// Bytes of memory of that machine.
    pub memory: u64,
    /// It can limit swap.
    pub swap_limit: bool,
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

/// Asks the Docker API at `DOCKER_HOST` or its usual socket.
pub fn docker() -> Result<DockerFacts, String> {
    let host = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".into());
    let Some(socket) = host.strip_prefix("unix://") else {
        return Err(format!("DOCKER_HOST is {host}; only unix sockets are asked by doctor"));
    };
    let info = get(Path::new(socket), "/info").map_err(|error| format!("no Docker API at {host}: {error}"))?;
    let text = |key: &str| info[key].as_str().unwrap_or("unknown").to_owned();
    Ok(DockerFacts {
        version: text("ServerVersion"),
        cgroup_version: text("CgroupVersion"),
        kernel: text("KernelVersion"),
        memory: info["MemTotal"].as_u64().unwrap_or(0),
        swap_limit: info["SwapLimit"].as_bool().unwrap_or(false),
        endpoint: host,
    })
}

fn get(socket: &Path, path: &str) -> std::io::Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // HTTP/1.0: the answer ends with the connection and is not chunked.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: docker\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).map_err(|error| std::io::Error::other(format!("its answer is not JSON ({error})")))
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
