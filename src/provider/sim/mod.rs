//! The provider `sim`: the deterministic node, booted once per shape, kept in the cache and forked into arms.

mod ext4;
mod order;
mod shape;

pub use ext4::Ext4Error;
pub use order::{OrderError, order, shapes};
pub use shape::{Device, Profile, Shape, ShapeError};

use super::cache::{Cache, Entry, hex};
use super::kernel::{Kernel, KernelError, KernelSource};
use super::lease::Lease;
use super::machine::{self, BootFiles, BootInput, Fork, ForkInput, Hardware, MachineError, Qemu};
use super::{FileError, NodePrograms, ProgramError};
use crate::record::NodeFacts;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// The cache's kind of these entries.
pub const KIND: &str = "checkpoints";
/// Boots take seconds; on the slowest machine seen a minute and a half with large disks.
const BOOT_GUARD: Duration = Duration::from_secs(600);
/// Changes when the content of an entry changes in a way its key would not show.
const FORMAT: &str = "checkpoint 1";

/// What a node is built from: may move every outcome, so it is part of the substrate identity.
#[derive(Debug)]
pub struct Substrate {
    /// QEMU.
    pub qemu: Qemu,
    /// The kernel.
    pub kernel: Kernel,
    /// The programs that run inside.
    pub programs: NodePrograms,
}

/// A booted node, ready to be forked.
#[derive(Debug)]
pub struct Checkpoint {
    /// What the guest measured before the checkpoint.
    pub facts: NodeFacts,
    /// What identifies it.
    pub identity: Identity,
    /// True when it was in the cache: nothing was booted.
    pub warm: bool,
    hardware: Hardware,
    qemu: Qemu,
    entry: Entry,
    lease: Lease,
}

/// Where the results of a checkpoint's arms come from. Equal identities and equal input give equal bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Identity {
    /// SHA-256 of all that went into the boot.
    pub key: String,
    /// SHA-256 of the booted memory: equal keys must give equal memory, on every machine.
    pub memory: String,
    /// QEMU's version.
    pub qemu: String,
    /// SHA-256 of QEMU's program.
    pub qemu_hash: String,
    /// `uname -r`.
    pub kernel: String,
    /// SHA-256 of the kernel image.
    pub kernel_hash: String,
}

/// Why there is no node.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The node cannot exist.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// No file system for a disk.
    #[error(transparent)]
    Ext4(#[from] Ext4Error),
    /// No kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// No node programs.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The machine failed.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Substrate {
    /// Finds everything a node is built from; fetches the kernel when it is not in the cache.
    ///
    /// # Errors
    /// [`SimError`], each with what to install.
    pub fn find(kernel: &KernelSource, cache: &Cache, lease: &Lease, progress: &dyn Fn(&str)) -> Result<Substrate, SimError> {
        let programs = NodePrograms::find()?;
        let clock = programs.clock.canonicalize().map_err(FileError::at(&programs.clock))?;
        let qemu = Qemu { preload: Some(clock), ..Qemu::find(cache)? };
        let kernel = Kernel::find(kernel, cache, lease, progress)?;
        Ok(Substrate { qemu, kernel, programs })
    }
}

/// Boots a node of this shape, or finds it booted in the cache.
///
/// # Errors
/// [`SimError`].
pub fn prepare(
    shape: &Shape,
    substrate: &Substrate,
    cache: &Cache,
    lease: &Lease,
    progress: &dyn Fn(&str),
) -> Result<Checkpoint, SimError> {
    shape.validate()?;
    let hardware = shape.hardware();
    let disks = shape.devices.iter().filter(|device| device.ext4);
    let disks =
        disks.map(|device| Ok((device.name.as_str(), ext4::blocks(device.size)?))).collect::<Result<Vec<_>, SimError>>()?;
    let initramfs = machine::build_initramfs(&substrate.programs.init, &substrate.kernel, &shape.boot_conf(), &disks)?;
    let command_line = shape.command_line();
    let Qemu { version, hash, .. } = &substrate.qemu;
    let clock = cache.hash(&substrate.programs.clock)?;
    let words = [FORMAT, version, hash, &clock, &substrate.kernel.hash, &command_line, &hex(&Sha256::digest(&initramfs))];
    let words = words.into_iter().map(str::to_owned).chain(hardware.arguments()).chain([hardware.shared.to_string()]);
    let key = hex(&Sha256::digest(words.collect::<Vec<_>>().join("\0")));

    let entry = cache.entry(KIND, &key, lease, |dir| -> Result<(), SimError> {
        shape.check_host(&hardware)?;
        let input = BootInput {
            qemu: &substrate.qemu,
            hardware: &hardware,
            kernel: &substrate.kernel.image,
            initramfs: &initramfs,
            command_line: &command_line,
            guard: BOOT_GUARD,
        };
        let (_, image) = machine::boot(input, dir, lease, progress)?;
        let identity = Identity {
            key: key.clone(),
            memory: image.hash,
            qemu: version.clone(),
            qemu_hash: hash.clone(),
            kernel: substrate.kernel.release.clone(),
            kernel_hash: substrate.kernel.hash.clone(),
        };
        let path = dir.join("identity.json");
        let text = serde_json::to_string(&identity).expect("an identity is plain data");
        std::fs::write(&path, text).map_err(FileError::at(&path))?;
        Ok(())
    })?;
    let facts = read_json(&entry, BootFiles::FACTS)?;
    let identity = read_json(&entry, "identity.json")?;
    Ok(Checkpoint { facts, identity, warm: entry.warm, hardware, qemu: substrate.qemu.clone(), entry, lease: lease.clone() })
}

fn read_json<T: serde::de::DeserializeOwned>(entry: &Entry, name: &str) -> Result<T, MachineError> {
    let path = entry.path.join(name);
    let bytes = std::fs::read(&path).map_err(FileError::at(&path))?;
    serde_json::from_slice(&bytes).map_err(|error| MachineError::Facts { reason: format!("{}: {error}", path.display()) })
}

impl Checkpoint {
    /// Starts an arm. Arms are independent; run as many at a time as there are cores.
    ///
    /// # Errors
    /// [`MachineError`].
    pub fn fork(&self, input: ForkInput<'_>) -> Result<Fork, MachineError> {
        Fork::start(&self.qemu, &self.hardware, &self.entry.path, input, &self.lease)
    }
}
