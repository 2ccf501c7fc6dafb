//! A process of the control plane: leased, its output in a log, its last words in the error.

use super::VmError;
use crate::provider::interrupt;
use crate::provider::lease::Lease;
use crate::provider::machine::{Process, StartError};
use fs_err as fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How much of a dead process's log an error shows.
const LAST_LINES: usize = 12;

/// A long-running process. Dropping it kills it.
#[derive(Debug)]
pub struct Daemon {
    name: &'static str,
    log: PathBuf,
    process: Process,
}

impl Daemon {
    /// Starts it with its output in `dir/NAME.log`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn(name: &'static str, mut command: Command, dir: &Path, lease: &Lease) -> Result<Daemon, VmError> {
        let log = dir.join(format!("{name}.log"));
        let file = fs::File::create(&log)?.into_parts().0;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let process = Process::start(command, lease, &[]).map_err(|error| match error {
            StartError::Lease(error) => VmError::File(error),
            StartError::Spawn(source) => VmError::Start { name, source },
        })?;
        Ok(Daemon { name, log, process })
    }

    /// Fails with its last words when it has ended.
    ///
    /// # Errors
    /// It is not running any more.
    pub fn check(&mut self) -> Result<(), VmError> {
        use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
        let pid = Pid::from_child(self.process.child());
        // Only looked at, not reaped: its pid stays its own until it is waited for.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(pid), look) {
            Ok(None) => Ok(()),
            _ if interrupt::requested() => Err(VmError::Interrupted),
            Ok(Some(_)) => {
                let status = self.process.wait()?;
                let text = fs::read(&self.log).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
                let lines: Vec<_> = text.lines().collect();
                let tail = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
                Err(VmError::Ended { name: self.name, status, tail })
            }
            Err(errno) => Err(VmError::Start { name: self.name, source: errno.into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_daemon_that_ends_shows_its_last_words() {
        let dir = tempfile::tempdir().unwrap();
        let lease = Lease::open(dir.path()).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo address already in use >&2; exit 1"]);
        let mut daemon = Daemon::spawn("etcd", command, dir.path(), &lease).unwrap();
        let begun = Instant::now();
        let error = loop {
            match daemon.check() {
                Ok(()) => assert!(begun.elapsed() < Duration::from_secs(20)),
                Err(error) => break error,
            }
            std::thread::yield_now();
        };
        assert!(matches!(&error, VmError::Ended { name: "etcd", tail, .. } if tail == "address already in use"), "{error}");
    }
}
