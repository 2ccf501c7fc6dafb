//! QEMU: finding it, and the one command line that is exact.

use super::MachineError;
use crate::provider::cache::Cache;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The guest's console in the working directory of a machine.
pub const CONSOLE: &str = "console.log";
/// QEMU's stderr in the working directory of a machine.
pub const STDERR: &str = "qemu.stderr";

/// The preloaded library in the working directory of a machine.
pub const PRELOAD: &str = "preload.so";

/// A QEMU system emulator for x86-64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qemu {
    /// The program.
    pub program: PathBuf,
    /// Its version, for example 7.2.22.
    pub version: String,
    /// SHA-256 of the program.
    pub hash: String,
    /// A library to start it with; without the one that stops its wall clock, runs under memory pressure are not exact.
    pub preload: Option<PathBuf>,
}

/// What a machine is made of; equal at boot and at every fork.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Hardware {
    /// Bytes of RAM, devices and ballast included; a multiple of 1 MiB.
    pub ram: u64,
    /// One instruction takes 2^shift virtual nanoseconds.
    pub icount_shift: u8,
    /// Bytes of shared memory; a power of two, as a PCI resource must be.
    pub shared: usize,
}

/// Where the memory of a machine comes from.
#[derive(Debug, Clone)]
pub enum Ram<'a> {
    /// A file that the machine changes.
    Shared(&'a Path),
    /// A file that it reads, its own changes staying private.
    Private(&'a Path),
}

impl Qemu {
    /// Finds QEMU: `HIGHWATER_QEMU`, else qemu-system-x86_64 in PATH.
    ///
    /// # Errors
    /// [`MachineError::NoQemu`] or [`MachineError::BadQemu`].
    pub fn find(cache: &Cache) -> Result<Qemu, MachineError> {
        let name = std::env::var_os("HIGHWATER_QEMU").unwrap_or_else(|| "qemu-system-x86_64".into());
        Self::at(&name, cache)
    }

    /// The QEMU of this name or path.
    ///
    /// # Errors
    /// As for [`Qemu::find`].
    pub fn at(name: &std::ffi::OsStr, cache: &Cache) -> Result<Qemu, MachineError> {
        let missing = || MachineError::NoQemu { program: name.display().to_string() };
        let program = in_path(name).ok_or_else(missing)?;
        let bad = |reason: String| MachineError::BadQemu { program: program.display().to_string(), reason };
        // The version is remembered with the binary: asking costs a twentieth of a second at every run.
        let hash = cache.hash(&program)?;
        let memo = cache.root().join("hashes").join(format!("version-{hash}"));
        if let Ok(version) = std::fs::read_to_string(&memo) {
            return Ok(Qemu { program, version, hash, preload: None });
        }
        let output = super::run_with_deadline(Command::new(&program).arg("--version"), Duration::from_secs(20));
        let output = output.map_err(|e| if e.kind() == io::ErrorKind::NotFound { missing() } else { bad(e.to_string()) })?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text
            .split("QEMU emulator version ")
            .nth(1)
            .and_then(|rest| rest.split([' ', '\n', '(']).next())
            .unwrap_or_default()
            .to_owned();
        if version.is_empty() {
            let said = [text, String::from_utf8_lossy(&output.stderr)].concat();
            return Err(bad(format!("--version does not name QEMU ({})", said.lines().next().unwrap_or("no output"))));
        }
        _ = std::fs::write(&memo, &version);
        Ok(Qemu { program, version, hash, preload: None })
    }

    /// The command of a machine, working in `dir`; the shared memory is an inherited descriptor. The monitor is on stdin and stdout.
    pub(super) fn command(&self, hardware: &Hardware, dir: &Path, ram: &Ram<'_>, shared: &Path) -> Result<Command, MachineError> {
        let mut command = Command::new(&self.program);
        let stderr = dir.join(STDERR);
        let stderr = std::fs::File::create(&stderr).map_err(crate::provider::FileError::at(stderr))?;
        command.current_dir(dir).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).stderr(stderr);
        if let Some(library) = &self.preload {
            // By a name without blanks or colons, which would end it; the loader looks from the working directory.
            std::os::unix::fs::symlink(library, dir.join(PRELOAD)).map_err(crate::provider::FileError::at(dir.join(PRELOAD)))?;
            command.env("LD_PRELOAD", Path::new(".").join(PRELOAD));
        }
        command.args(hardware.arguments());
        let (path, share) = match ram {
            Ram::Shared(path) => (path, "on"),
            Ram::Private(path) => (path, "off"),
        };
        command.arg("-object").arg(backend("ram", hardware.ram, path, share));
        command.arg("-object").arg(backend("shared", hardware.shared as u64, shared, "on"));
        Ok(command)
    }
}

impl Hardware {
    /// Everything of the command line that the guest can notice; part of a checkpoint's key.
    ///
    /// `rr=record` is not for its log, which nobody reads. Without it the device loop may run between a vCPU's halt and the booking of the
    /// instructions it executed; it then moves the clock too far, by up to a microsecond, and on a busy host 7 of 12 equal runs with
    /// 10 000 sleeps differed. In record mode the two exclude each other: 36 of 36 were identical.
    pub fn arguments(&self) -> Vec<String> {
        let icount = format!("shift={},sleep=off,align=off,rr=record,rrfile=/dev/null", self.icount_shift);
        let megabytes = format!("{}M", self.ram >> 20);
        let words = [
            // The state of the devices is saved without the frame that a migration between hosts has.
            ["-M", "pc,memory-backend=ram,suppress-vmdesc=on"],
            ["-global", "migration.send-configuration=off"],
            ["-global", "migration.store-global-state=off"],
            ["-accel", "tcg"],
            ["-icount", &icount],
            ["-rtc", "base=2026-01-01,clock=vm"],
            ["-cpu", "qemu64"],
            ["-smp", "1"],
            ["-m", &megabytes],
            ["-display", "none"],
            ["-device", "pvpanic"],
            ["-action", "panic=pause"],
            ["-device", "isa-debug-exit,iobase=0xf4,iosize=4"],
            ["-device", "ivshmem-plain,memdev=shared,master=on"],
            ["-chardev", "file,id=console,path=console.log"],
            ["-serial", "chardev:console"],
            ["-qmp", "stdio"],
        ];
        let flags = ["-nodefaults", "-no-user-config", "-no-reboot"];
        flags.iter().chain(words.iter().flatten()).map(|word| (*word).to_owned()).collect()
    }
}

fn backend(id: &str, size: u64, path: &Path, share: &str) -> OsString {
    let mut text = OsString::from(format!("memory-backend-file,id={id},size={size},share={share},mem-path="));
    // A comma separates options; doubled it is a comma.
    text.push(path.display().to_string().replace(',', ",,"));
    text
}

/// The program of this name in PATH or in the folders that PATH of ordinary users leaves out, or at this path.
pub fn in_path(name: &std::ffi::OsStr) -> Option<PathBuf> {
    let direct = Path::new(name);
    if direct.components().count() > 1 {
        return direct.is_file().then(|| direct.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|dir| dir.join(name)).find(|path| path.is_file())
}
