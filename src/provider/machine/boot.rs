//! Booting a machine once, up to the checkpoint, and saving it.

use super::qemu::{Qemu, Ram};
use super::qmp::Monitor;
use super::ram::{Image, MemoryFile, store};
use super::{Hardware, MachineError, Stage};
use crate::provider::FileError;
use crate::provider::lease::Lease;
use crate::record::NodeFacts;
use crate::record::shm::Region;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// What is booted.
#[derive(Debug, Clone, Copy)]
pub struct BootInput<'a> {
    /// QEMU.
    pub qemu: &'a Qemu,
    /// The machine.
    pub hardware: &'a Hardware,
    /// The bzImage.
    pub kernel: &'a Path,
    /// Content of the initramfs.
    pub initramfs: &'a [u8],
    /// The kernel's command line.
    pub command_line: &'a str,
    /// The wall-clock guard.
    pub guard: Duration,
}

/// Names of a checkpoint's files in its directory.
#[derive(Debug, Clone, Copy)]
pub struct BootFiles;

impl BootFiles {
    /// Guest memory, sparse.
    pub const RAM: &'static str = "ram";
    /// State of the devices.
    pub const STATE: &'static str = "state";
    /// [`NodeFacts`] as JSON.
    pub const FACTS: &'static str = "facts.json";
}

/// Boots into an empty directory, which then holds [`BootFiles`]; returns what the guest reported and the identity of its memory.
///
/// # Errors
/// [`MachineError`]; the directory is then of no use.
pub fn boot(
    input: BootInput<'_>,
    dir: &Path,
    lease: &Lease,
    progress: &dyn Fn(&str),
) -> Result<(NodeFacts, Image), MachineError> {
    let BootInput { qemu, hardware, .. } = input;
    // The memory of the booting machine is not on disk: the kernel would write gigabytes of it back while it still changes.
    let memory = MemoryFile::new("highwater-ram", hardware.ram)?;
    let shared = MemoryFile::new("highwater-shared", hardware.shared as u64)?;
    let region = Region::create(&shared.file, hardware.shared, &[], &[])?;
    let initrd = dir.join("initrd");
    std::fs::write(&initrd, input.initramfs).map_err(FileError::at(&initrd))?;

    let mut command = qemu.command(hardware, dir, &Ram::Shared(&memory.path_in_child()), &shared.path_in_child())?;
    command.arg("-kernel").arg(input.kernel).args(["-initrd", "initrd", "-append", input.command_line]);
    progress("booting the node");
    let mut monitor = Monitor::start(command, dir, lease, &[memory.fd(), shared.fd()], Stage::Boot, input.guard)?;
    monitor.event("GUEST_PANICKED")?;

    progress("saving the checkpoint");
    monitor.enter(Stage::Save);
    // Devices without memory, written before the answer comes. The usual migration runs in a thread of its own, which record mode forbids.
    monitor.execute("xen-save-devices-state", json!({ "filename": BootFiles::STATE, "live": false }))?;
    monitor.quit()?;

    let text = region.frames(0)?;
    let facts = serde_json::from_slice(text).map_err(|error| MachineError::Facts { reason: error.to_string() })?;
    let path = dir.join(BootFiles::FACTS);
    std::fs::write(&path, text).map_err(FileError::at(&path))?;
    let image = store(&memory, hardware.ram, &dir.join(BootFiles::RAM))?;
    std::fs::remove_file(&initrd).map_err(FileError::at(&initrd))?;
    Ok((facts, image))
}
