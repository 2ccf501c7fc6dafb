//! A KVM that really boots: some nested ones accept a machine and then never run a stock kernel.

use crate::provider::kernel::Kernel;
use crate::provider::lease::Lease;
use crate::provider::machine::{Qemu, build_initramfs, run_with_deadline};
use crate::provider::{FileError, NodePrograms};
use serde::Serialize;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A kernel under a working KVM reaches its first program in about a second.
const DEADLINE: Duration = Duration::from_secs(15);

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum KvmProbe {
    /// A stock kernel reached its first program.
    Boots {
        /// In this many milliseconds.
        millis: u64,
    },
    /// Nothing within the deadline.
    Hangs {
        /// The deadline in seconds.
        seconds: u64,
    },
    /// QEMU or the kernel ended early.
    Fails {
        /// QEMU's reason.
        reason: String,
    },
    /// Not tried.
    NotTried {
        /// Why.
        reason: String,
    },
}

/// Boots the kernel of the deterministic node under KVM to its first program, the init stub, which finds nothing to do and ends it.
pub fn probe(root: &Path, qemu: &Qemu, kernel: &Kernel, programs: &NodePrograms, lease: &Lease) -> Result<KvmProbe, FileError> {
    let device = root.join("dev/kvm");
    if let Err(error) = std::fs::File::options().read(true).write(true).open(&device) {
        let reason = match error.kind() {
            io::ErrorKind::NotFound => "there is no /dev/kvm".to_owned(),
            _ => format!("/dev/kvm cannot be opened: {error}"),
        };
        return Ok(KvmProbe::NotTried { reason });
    }
    let dir = lease.path().with_extension("kvm");
    let held = lease.directory(&dir)?;
    std::fs::create_dir(&dir).map_err(FileError::at(&dir))?;
    let initrd = dir.join("initrd");
    // Without its line for memory the stub stops at once, says so on the console, and the kernel panics for want of an init.
    let content = build_initramfs(&programs.init, kernel, "stop here\n", &[])?;
    std::fs::write(&initrd, content).map_err(FileError::at(&initrd))?;
    let mut command = Command::new(&qemu.program);
    command.current_dir(&dir);
    command.args(["-M", "pc", "-accel", "kvm", "-m", "256M", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    command.args([
        "-serial",
        "file:console",
        "-initrd",
        "initrd",
        "-append",
        "console=ttyS0 rdinit=/init quiet panic=-1",
        "-kernel",
    ]);
    command.arg(std::path::absolute(&kernel.image).map_err(FileError::at(&kernel.image))?);
    let began = Instant::now();
    let ended = run_with_deadline(&mut command, DEADLINE);
    let millis = began.elapsed().as_millis() as u64;
    let console = std::fs::read(dir.join("console")).unwrap_or_default();
    let reached = String::from_utf8_lossy(&console).contains("highwater-init:");
    drop(held);
    Ok(match ended {
        _ if reached => KvmProbe::Boots { millis },
        Err(error) if error.kind() == io::ErrorKind::TimedOut => KvmProbe::Hangs { seconds: DEADLINE.as_secs() },
        Err(error) => KvmProbe::Fails { reason: error.to_string() },
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            KvmProbe::Fails { reason: stderr.lines().last().unwrap_or("the kernel ended before its first program").to_owned() }
        }
    })
}
