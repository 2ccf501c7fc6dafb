//! Puts images into a containerd directory on this machine, so that a node finds them there when it starts.

use super::oci::{OneProgram, archive};
use super::{ImageError, step};
use crate::provider::lease::Lease;
use crate::provider::machine::{Process, StartError};
use fs_err as fs;
use std::collections::BTreeMap;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// It starts in a second; the rest is for busy machines.
const START: Duration = Duration::from_secs(120);
const IMPORT: Duration = Duration::from_secs(10 * 60);

/// Runs the node's own containerd with `directory` as its root and imports the images. `work` holds what is needed meanwhile.
///
/// # Errors
/// containerd does not start, or refuses the images.
pub(super) fn import(
    images: &[OneProgram<'_>],
    programs: &BTreeMap<String, PathBuf>,
    directory: &Path,
    work: &Path,
    lease: &Lease,
) -> Result<(), ImageError> {
    // A socket's path is at most 108 bytes long, and that of a cache may be longer.
    let sockets = tempfile::Builder::new().prefix("hw-").tempdir()?;
    let (socket, ready, log) = (sockets.path().join("containerd"), sockets.path().join("ready"), work.join("containerd.log"));
    let (config, state, images_file) = (work.join("containerd.toml"), work.join("state"), work.join("images.tar"));
    fs::write(
        &config,
        format!(
            "version = 3\nroot = {directory:?}\nstate = {state:?}\n\
             disabled_plugins = [\"io.containerd.cri.v1.images\", \"io.containerd.cri.v1.runtime\", \"io.containerd.grpc.v1.cri\"]\n\
             [plugins.'io.containerd.server.v1.grpc']\n  address = {socket:?}\n\
             [plugins.'io.containerd.server.v1.ttrpc']\n  address = {:?}\n",
            sockets.path().join("ttrpc")
        ),
    )?;
    fs::write(&images_file, archive(images)?)?;
    let mut containerd = start(&programs["containerd"], &config, &socket, &ready, &log, lease)?;
    let mut ctr = Command::new(&programs["ctr"]);
    ctr.arg("--address").arg(&socket).args(["--namespace", "k8s.io", "images", "import", "--local"]).arg(&images_file);
    step::run("importing the node's images", ctr, &work.join("import.log"), IMPORT, lease)?;
    containerd.kill();
    containerd.wait()?;
    Ok(())
}

/// Starts containerd and waits until it says that it is ready, as it says to systemd (sd_notify(3)).
fn start(program: &Path, config: &Path, socket: &Path, ready: &Path, log: &Path, lease: &Lease) -> Result<Process, ImageError> {
    let notices = UnixDatagram::bind(ready)?;
    let file = fs::File::create(log)?.into_parts().0;
    let mut command = Command::new(program);
    command.arg("--config").arg(config).arg("--address").arg(socket).env("NOTIFY_SOCKET", ready);
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let process = Process::start(command, lease, &[]).map_err(|error| match error {
        StartError::Lease(error) => step::StepError::Lease(error),
        StartError::Spawn(source) => {
            step::StepError::Start { what: "starting containerd".to_owned(), program: program.display().to_string(), source }
        }
    })?;
    let until = Instant::now() + START;
    let mut notice = [0; 4096];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let late = || ImageError::Runtime { deadline: START, log: log.to_owned() };
        if left.is_zero() {
            return Err(late());
        }
        notices.set_read_timeout(Some(left))?;
        match notices.recv(&mut notice) {
            Ok(length) if notice[..length].split(|byte| *byte == b'\n').any(|line| line == b"READY=1") => return Ok(process),
            Ok(_) => {}
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => return Err(late()),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
}
