//! The endpoint `throwaway`: dockerd in a VM with a kernel, memory and swap disks of its own, reached on loopback with certificates both ways.
//!
//! The VM is booted once per machine and shape up to an answering dockerd and saved; every start forks that checkpoint, so nothing that
//! is done in one is in the next. The certificates belong to the checkpoint: its folder in the cache, which only its user may read, holds
//! the client's, and pruning the checkpoint ends them.

use super::{DockerError, Endpoint};
use crate::provider::cache::{Cache, Entry};
use crate::provider::image;
use crate::provider::lease::Lease;
use crate::provider::vm::{ANSWER, Authority, Node, Shape, Start, Tools, VmError};
use fs_err as fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// The cache's kind of these checkpoints.
pub const KIND: &str = "docker-checkpoints";

/// Where dockerd listens in the VM (Docker's own choice for TLS).
const PORT: u16 = 2376;
/// The client's files, in the checkpoint's folder; named as the docker command wants them.
const CERTIFICATES: &str = "certificates";
/// dockerd starts in half a minute under emulation.
const START: Duration = Duration::from_secs(10 * 60);

/// A running VM with dockerd. Dropping it ends the VM.
#[derive(Debug)]
pub struct Throwaway {
    node: Node,
    endpoint: Endpoint,
    /// Keep the checkpoint and the disk below it from being pruned.
    _kept: [Entry; 2],
}

impl Throwaway {
    /// Forks the VM, building its disk and booting it first when the cache has none. `dir` is an empty folder for what it writes.
    ///
    /// # Errors
    /// The disk cannot be built, the VM does not boot, dockerd does not start.
    pub fn start(
        shape: &Shape,
        cache: &Cache,
        lease: &Lease,
        dir: &Path,
        progress: &dyn Fn(&str),
    ) -> Result<Throwaway, DockerError> {
        let tools = Tools::find(cache)?;
        let (disk, system) = image::docker(cache, lease, progress)?;
        let start = Start { shape, tools: &tools, system: &system, forward: Some(PORT) };
        let key = shape.key(&system, &[], &tools);
        let checkpoint = cache.entry(KIND, &key, lease, |entry| make(&start, entry, lease, progress))?;
        progress("forking the machine with dockerd");
        let mut node = Node::fork(&start, &checkpoint.path, dir, lease)?;
        for number in 0..shape.swap.len() {
            let disk = format!("/dev/vd{}", char::from(b'b' + u8::try_from(number).unwrap_or(u8::MAX)));
            node.step(&format!("mkswap -q {disk} && swapon {disk}"), ANSWER)?;
        }
        let address = format!("tcp://127.0.0.1:{}", node.forwarded()?);
        let endpoint = Endpoint { address, certificates: Some(checkpoint.path.join(CERTIFICATES)) };
        Ok(Throwaway { node, endpoint, _kept: [checkpoint, disk] })
    }

    /// Where its dockerd answers.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Waits until the VM ends.
    ///
    /// # Errors
    /// How it ended; an interrupt is one of the ways.
    pub fn wait(self) -> Result<(), DockerError> {
        Ok(self.node.wait()?)
    }
}

/// Boots up to an answering dockerd and saves that.
fn make(start: &Start<'_>, dir: &Path, lease: &Lease, progress: &dyn Fn(&str)) -> Result<(), DockerError> {
    fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))?;
    let authority = Authority::new("highwater throwaway Docker").map_err(VmError::from)?;
    let server = authority.server("dockerd", &["127.0.0.1", "localhost"]).map_err(VmError::from)?;
    let client = authority.client("highwater", "highwater").map_err(VmError::from)?;
    let own = dir.join(CERTIFICATES);
    fs::create_dir(&own)?;
    for (name, text) in [("ca.pem", authority.pem()), ("cert.pem", &client.cert), ("key.pem", &client.key)] {
        fs::write(own.join(name), text)?;
    }
    progress("booting the machine with dockerd");
    let mut node = Node::boot(start, None, dir, lease)?;
    for (name, text) in [("ca.pem", authority.pem()), ("cert.pem", &server.cert), ("key.pem", &server.key)] {
        node.put(&format!("/etc/docker/tls/{name}"), text)?;
    }
    progress("starting dockerd");
    // systemd returns when dockerd says that it is ready.
    node.step("systemctl start docker && sync", START)?;
    progress("saving the checkpoint");
    Ok(node.save(start, dir)?)
}
