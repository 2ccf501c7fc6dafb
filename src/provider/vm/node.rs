//! The node: a throwaway VM with Debian, containerd and a kubelet that has not started yet, its checkpoint, and forks of it.

use super::VmError;
use super::channel::{Channel, ChannelError};
use crate::provider::FileError;
use crate::provider::cache::{Cache, hex};
use crate::provider::image::System;
use crate::provider::lease::Lease;
use crate::provider::machine::{MachineError, Monitor, Qemu, Stage, in_path, run_with_deadline};
use fs_err as fs;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A node's files in the folder it runs in.
const DISK: &str = "disk.qcow2";
const SEED: &str = "seed.tar";
const STATE: &str = "state";
const PORT: &str = "port";

/// From power-on to a running containerd. A minute alone on two cores; the compilers of a busy machine make it several.
const BOOT: Duration = Duration::from_secs(15 * 60);
/// Everything a run may do with the node.
const LIFE: Duration = Duration::from_secs(3 * 60 * 60);
/// One question to a node that is up.
pub(in crate::provider) const ANSWER: Duration = Duration::from_secs(180);

/// What the hardware of a node is, and so what a checkpoint depends on beside its image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// RAM in bytes, of which the kernel takes a little: MemTotal is smaller.
    pub memory: u64,
    /// Bytes of each swap disk, in the order they are switched on.
    pub swap: Vec<u64>,
    /// Virtual processors.
    pub processors: u8,
    /// More of the kernel's command line.
    pub kernel_arguments: Vec<String>,
}

/// What a VM is started with beside its hardware.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// Its hardware.
    pub shape: &'a Shape,
    /// The programs of this machine.
    pub tools: &'a Tools,
    /// What it boots.
    pub system: &'a System,
    /// A TCP port of the VM that a free one of the host's loopback leads to.
    pub forward: Option<u16>,
}

/// A running node. Dropping it ends the VM.
#[derive(Debug)]
pub struct Node {
    monitor: Monitor,
    channel: Channel,
}

impl Shape {
    /// The key of a checkpoint of this shape.
    #[must_use]
    pub fn key(&self, system: &System, seed: &[u8], tools: &Tools) -> String {
        let seed = hex(&Sha256::digest(seed));
        let parts = json!({ "shape": self, "image": system.key, "seed": seed, "qemu": tools.qemu.hash, "format": 4 });
        hex(&Sha256::digest(parts.to_string()))
    }

    fn swap_disks(&self, dir: &Path) -> Result<(), VmError> {
        for (number, bytes) in self.swap.iter().enumerate() {
            fs::File::create(dir.join(swap_file(number)))?.set_len(*bytes)?;
        }
        Ok(())
    }
}

impl Start<'_> {
    /// The VM without what differs between boot and restore. Paths are relative to `dir`, where it runs.
    fn command(&self, dir: &Path) -> Result<Command, VmError> {
        let Start { shape, tools, system, forward } = self;
        let mut command = Command::new(&tools.qemu.program);
        let stderr = fs::File::create(dir.join("qemu.stderr"))?.into_parts().0;
        command.current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-M", "pc", "-display", "none", "-qmp", "stdio"]);
        // A plain old processor: without wide vectors there is nothing slow to emulate. Without cmpxchg16b, because QEMU before 8.0 leaves
        // garbage in its flags: an interrupt right behind it restores them, and the kernel dies of a double fault once in an hour.
        command.args(["-accel", "tcg,thread=multi,tb-size=1024", "-cpu", "Westmere,-cx16"]);
        command.args(["-smp", &shape.processors.to_string(), "-m", &format!("{}M", shape.memory >> 20)]);
        command.args(["-chardev", "file,id=console,path=console.log", "-serial", "chardev:console"]);
        command.arg("-kernel").arg(system.kernel()).arg("-initrd").arg(system.initrd());
        let arguments = [
            "root=/dev/vda rw console=ttyS0 net.ifnames=0 mitigations=off quiet systemd.show_status=auto",
            // A kernel in trouble ends QEMU at once, instead of a node that no longer answers.
            "panic=-1 oops=panic",
            // A console with a getty hangs up whatever else writes to it.
            "systemd.mask=serial-getty@ttyS0.service systemd.mask=getty@tty1.service",
            // systemd gives up on a device after 90 s, and a slow machine's udev has not got to the port by then. The deadline is ours.
            "systemd.default_device_timeout_sec=infinity systemd.default_timeout_start_sec=infinity",
        ];
        let arguments =
            arguments.into_iter().chain(shape.kernel_arguments.iter().map(String::as_str)).collect::<Vec<_>>().join(" ");
        command.args(["-append", &arguments]);
        // The state is thrown away with the run: nothing need reach the platters.
        command.args(["-drive", &format!("file={DISK},if=virtio,format=qcow2,cache=unsafe")]);
        if dir.join(SEED).exists() {
            command.args(["-drive", &format!("file={SEED},if=virtio,format=raw,readonly=on")]);
        }
        for number in 0..shape.swap.len() {
            command.args(["-drive", &format!("file={},if=virtio,format=raw,cache=unsafe", swap_file(number))]);
        }
        // Port 0: the system gives a free one, so no other process can take it in between.
        let forward = forward.map(|port| format!(",hostfwd=tcp:127.0.0.1:0-10.0.2.15:{port}")).unwrap_or_default();
        command.args(["-netdev", &format!("user,id=net{forward}"), "-device", "virtio-net-pci,netdev=net,romfile="]);
        command.args(["-device", "virtio-rng-pci", "-device", "virtio-serial-pci"]);
        command.args(["-chardev", &format!("socket,id=port,path={PORT},server=on,wait=off")]);
        command.args(["-device", "virtserialport,chardev=port,name=highwater"]);
        Ok(command)
    }
}

fn swap_file(number: usize) -> String {
    format!("swap{number}.raw")
}

impl Node {
    /// Boots a node up to a running containerd with its images imported and saves it into `dir`, which must be empty.
    ///
    /// # Errors
    /// The VM does not boot in time or ends; the node refuses a step.
    pub fn make_checkpoint(
        start: &Start<'_>,
        seed: &[u8],
        dir: &Path,
        lease: &Lease,
        progress: &dyn Fn(&str),
    ) -> Result<(), VmError> {
        progress("booting the node");
        let mut node = Node::boot(start, Some(seed), dir, lease)?;
        node.step("until systemctl is-active -q containerd; do sleep 0.5; done", BOOT)?;
        progress("importing images");
        node.step("ctr -n k8s.io images import --local /dev/vdb", ANSWER)?;
        // The kubelet's program is then in the page cache of every fork.
        node.step("kubelet --version && sync", ANSWER)?;
        progress("saving the checkpoint");
        node.save(start, dir)
    }

    /// Boots a VM in `dir`, which must be empty, until it answers.
    ///
    /// # Errors
    /// It does not boot in time or ends.
    pub fn boot(start: &Start<'_>, seed: Option<&[u8]>, dir: &Path, lease: &Lease) -> Result<Node, VmError> {
        if let Some(seed) = seed {
            fs::write(dir.join(SEED), seed)?;
        }
        overlay(start.tools, &start.system.disk(), "raw", &dir.join(DISK))?;
        start.shape.swap_disks(dir)?;
        Node::power_on(start.command(dir)?, dir, lease, BOOT)
    }

    /// Starts QEMU and waits until the node answers.
    fn power_on(command: Command, dir: &Path, lease: &Lease, deadline: Duration) -> Result<Node, VmError> {
        let mut monitor = Monitor::start(command, dir, lease, &[], Stage::Boot, deadline)?;
        match Channel::open(&dir.join(PORT), deadline) {
            Ok(channel) => Ok(Node { monitor, channel }),
            Err(ChannelError::Deadline { .. }) => Err(monitor.hung().into()),
            Err(error) => Err(blame(&mut monitor, error)),
        }
    }

    /// Starts a fork of a checkpoint in `dir`, which must be empty.
    ///
    /// # Errors
    /// The checkpoint cannot be restored; the node does not answer.
    pub fn fork(start: &Start<'_>, checkpoint: &Path, dir: &Path, lease: &Lease) -> Result<Node, VmError> {
        if checkpoint.join(SEED).exists() {
            fs::copy(checkpoint.join(SEED), dir.join(SEED))?;
        }
        overlay(start.tools, &checkpoint.join(DISK), "qcow2", &dir.join(DISK))?;
        start.shape.swap_disks(dir)?;
        let mut command = start.command(dir)?;
        fs::os::unix::fs::symlink(checkpoint.join(STATE), dir.join(STATE))?;
        command.args(["-S", "-incoming", "defer"]);
        let mut monitor = Monitor::start(command, dir, lease, &[], Stage::Restore, LIFE)?;
        monitor.migrate("migrate-incoming", "exec:cat state")?;
        monitor.execute("cont", json!({}))?;
        monitor.enter(Stage::Run);
        let channel = Channel::open(&dir.join(PORT), ANSWER).map_err(|error| blame(&mut monitor, error))?;
        let mut node = Node { monitor, channel };
        // The node's clock stood still since the checkpoint.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        node.step(&format!("date -s @{} >/dev/null", now.as_secs()), ANSWER)?;
        Ok(node)
    }

    /// Runs a script on the node.
    ///
    /// # Errors
    /// A status other than 0, no answer before the deadline.
    pub fn step(&mut self, script: &str, deadline: Duration) -> Result<String, VmError> {
        self.channel.run(script, deadline).map_err(|error| blame(&mut self.monitor, error))
    }

    /// Writes a file on the node.
    ///
    /// # Errors
    /// As for [`Node::step`].
    pub fn put(&mut self, path: &str, content: &str) -> Result<(), VmError> {
        self.channel.put(path, content, ANSWER).map_err(|error| blame(&mut self.monitor, error))
    }

    /// Fails with its last words when the VM has ended.
    ///
    /// # Errors
    /// It is not running any more.
    pub fn check(&mut self) -> Result<(), VmError> {
        Ok(self.monitor.check()?)
    }

    /// The port of the host's loopback that leads to [`Start::forward`].
    ///
    /// # Errors
    /// The monitor does not name one.
    pub fn forwarded(&mut self) -> Result<u16, VmError> {
        let command = "human-monitor-command";
        let text = self.monitor.execute(command, json!({ "command-line": "info usernet" }))?;
        let line = text.as_str().unwrap_or_default().lines().find(|line| line.contains("HOST_FORWARD"));
        // Protocol, descriptor, source address, source port, …
        line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok()).ok_or_else(|| {
            MachineError::Refused { command: command.to_owned(), reason: "info usernet names no forwarded port".to_owned() }
                .into()
        })
    }

    /// Waits until the VM ends.
    ///
    /// # Errors
    /// How it ended; none of the ways is a good one.
    pub fn wait(self) -> Result<(), VmError> {
        Ok(self.monitor.wait_end(LIFE, &mut || ())?)
    }

    /// Saves the VM into `dir`, where it runs, and ends it.
    ///
    /// # Errors
    /// QEMU refuses.
    pub fn save(self, start: &Start<'_>, dir: &Path) -> Result<(), VmError> {
        let Node { mut monitor, channel } = self;
        drop(channel);
        monitor.enter(Stage::Save);
        monitor.execute("stop", json!({}))?;
        monitor.migrate("migrate", &format!("exec:cat > {STATE}"))?;
        monitor.quit()?;
        for number in 0..start.shape.swap.len() {
            fs::remove_file(dir.join(swap_file(number)))?;
        }
        Ok(())
    }
}

/// What is behind an error of the channel: a VM that ended or went silent says more by its own last words.
fn blame(monitor: &mut Monitor, error: ChannelError) -> VmError {
    match error {
        error if error.is_end() => monitor.ended().into(),
        ChannelError::Deadline { .. } => VmError::Silent { error, last: monitor.last_words() },
        error => error.into(),
    }
}

/// The programs of this machine that a node needs.
#[derive(Debug, Clone)]
pub struct Tools {
    qemu: Qemu,
    qemu_img: PathBuf,
}

impl Tools {
    /// Finds them.
    ///
    /// # Errors
    /// QEMU or qemu-img is not installed.
    pub fn find(cache: &Cache) -> Result<Tools, VmError> {
        Ok(Tools { qemu: Qemu::find(cache)?, qemu_img: in_path("qemu-img".as_ref()).ok_or(VmError::NoQemuImg)? })
    }
}

/// Makes an empty overlay over a disk.
fn overlay(tools: &Tools, base: &Path, format: &str, disk: &Path) -> Result<(), VmError> {
    let mut command = Command::new(&tools.qemu_img);
    command.args(["create", "-q", "-f", "qcow2", "-F", format, "-b"]).arg(base).arg(disk);
    let output = run_with_deadline(&mut command, Duration::from_secs(60)).map_err(FileError::at(disk))?;
    if output.status.success() {
        return Ok(());
    }
    Err(VmError::Overlay(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::cache::cache_dir;
    use crate::provider::image::Store;
    use crate::provider::machine::MachineError;

    /// Powers a node of the newest image on with these arguments for its kernel and for QEMU; nothing where there is no image.
    #[expect(clippy::print_stdout, reason = "a test says that it is left out")]
    fn dies(kernel: &str, qemu: &[&str], deadline: Duration) -> Option<VmError> {
        let cache = Cache::at(cache_dir());
        let Some(image) = Store::new(&cache_dir()).list().unwrap().pop() else {
            println!("LEFT OUT: the cache has no node image: highwater image build 1.37");
            return None;
        };
        let (dir, tools) = (tempfile::tempdir().unwrap(), Tools::find(&cache).unwrap());
        let lease = Lease::open(dir.path()).unwrap();
        fs::write(dir.path().join(SEED), [0; 512]).unwrap();
        let system = image.system();
        overlay(&tools, &system.disk(), "raw", &dir.path().join(DISK)).unwrap();
        let shape = Shape { memory: 512 << 20, swap: vec![], processors: 1, kernel_arguments: vec![kernel.to_owned()] };
        let start = Start { shape: &shape, tools: &tools, system: &system, forward: None };
        let mut command = start.command(dir.path()).unwrap();
        command.args(qemu);
        Some(Node::power_on(command, dir.path(), &lease, deadline).map(drop).unwrap_err())
    }

    #[test]
    fn a_node_that_never_boots_is_told_by_its_deadline() {
        // A processor that is never let go.
        let Some(error) = dies("", &["-S"], Duration::from_secs(4)) else { return };
        assert!(matches!(error, VmError::Machine(MachineError::Hung { stage: Stage::Boot, .. })), "{error}");
        assert!(error.to_string().contains("did not finish within 4 s of wall time while booting"), "{error}");
    }

    #[test]
    fn a_node_whose_kernel_panics_ends_with_the_kernels_words() {
        let Some(error) = dies("init=/bin/false", &[], BOOT) else { return };
        assert!(matches!(error, VmError::Machine(MachineError::Panicked { stage: Stage::Boot, .. })), "{error}");
        assert!(error.to_string().contains("Attempted to kill init"), "{error}");
    }
}
