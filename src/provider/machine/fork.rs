//! One arm: a machine that continues at the checkpoint with its own input, and ends by itself.

use super::boot::BootFiles;
use super::qemu::{CONSOLE, Qemu, Ram};
use super::qmp::Monitor;
use super::ram::MemoryFile;
use super::{Hardware, MachineError, Stage};
use crate::provider::FileError;
use crate::provider::lease::Lease;
use crate::record::shm::Region;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What an arm is given.
#[derive(Debug, Clone, Copy)]
pub struct ForkInput<'a> {
    /// The guest program, a static ELF file.
    pub program: &'a Path,
    /// The order, as the guest program reads it.
    pub order: &'a [u8],
    /// An existing directory for the console and QEMU's stderr.
    pub dir: &'a Path,
    /// The wall-clock guard: an arm that takes longer is faulty.
    pub guard: Duration,
}

/// A running arm. Dropping it kills it.
#[derive(Debug)]
pub struct Fork {
    monitor: Monitor,
    region: Region,
    dir: PathBuf,
    began: Instant,
    restored: Instant,
    _shared: MemoryFile,
}

/// What came back.
#[derive(Debug)]
pub struct ForkOutput {
    /// The guest's log: frames, see [`crate::record::decode_frames`].
    pub frames: Vec<u8>,
    /// The console.
    pub console: PathBuf,
    /// Wall time from the call to the continued guest: process, memory, state of the devices.
    pub restore: Duration,
    /// Wall time of the running guest.
    pub run: Duration,
    /// Wall time to take the output over.
    pub transfer: Duration,
}

impl Fork {
    /// Starts an arm of the checkpoint in a directory.
    pub(crate) fn start(
        qemu: &Qemu,
        hardware: &Hardware,
        checkpoint: &Path,
        input: ForkInput<'_>,
        lease: &Lease,
    ) -> Result<Fork, MachineError> {
        let began = Instant::now();
        let program = std::fs::read(input.program).map_err(FileError::at(input.program))?;
        let shared = MemoryFile::new("highwater-shared", hardware.shared as u64)?;
        let region = Region::create(&shared.file, hardware.shared, &program, input.order)?;
        let ram = checkpoint.join(BootFiles::RAM);
        let mut command = qemu.command(hardware, input.dir, &Ram::Private(&ram), &shared.path_in_child())?;
        command.args(["-S", "-incoming", "defer"]);
        let mut monitor = Monitor::start(command, input.dir, lease, &[shared.fd()], Stage::Restore, input.guard)?;
        monitor.execute("migrate-set-capabilities", json!({ "capabilities": [{ "capability": "events", "state": true }] }))?;
        let state = checkpoint.join(BootFiles::STATE).display().to_string().replace('\'', r"'\''");
        monitor.execute("migrate-incoming", json!({ "uri": format!("exec:cat '{state}'") }))?;
        loop {
            monitor.event("MIGRATION")?;
            let answer = monitor.execute("query-migrate", json!({}))?;
            match answer["status"].as_str() {
                Some("completed") => break,
                Some("failed") => {
                    return Err(MachineError::Refused {
                        command: "migrate-incoming".into(),
                        reason: "the state does not fit".into(),
                    });
                }
                _ => {}
            }
        }
        monitor.execute("cont", json!({}))?;
        monitor.enter(Stage::Run);
        Ok(Fork { monitor, region, dir: input.dir.to_owned(), began, restored: Instant::now(), _shared: shared })
    }

    /// QEMU's process id.
    pub fn pid(&self) -> u32 {
        self.monitor.pid()
    }

    /// Waits for the end of the arm. About every `every`, `watch` is given the output that is new since the last time; it may
    /// begin and end inside a frame.
    ///
    /// # Errors
    /// [`MachineError`] when the arm did not end by itself.
    pub fn wait(self, every: Duration, watch: &mut dyn FnMut(&[u8])) -> Result<ForkOutput, MachineError> {
        let mut seen = 0;
        self.monitor.wait_end(every, &mut || {
            if let Ok(new) = self.region.frames(seen) {
                seen += new.len();
                watch(new);
            }
        })?;
        let ended = Instant::now();
        let frames = self.region.frames(0)?.to_vec();
        Ok(ForkOutput {
            frames,
            console: self.dir.join(CONSOLE),
            restore: self.restored - self.began,
            run: ended - self.restored,
            transfer: ended.elapsed(),
        })
    }
}
