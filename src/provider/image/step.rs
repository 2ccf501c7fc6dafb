//! One external command of a build: leased, with a deadline, and its last words in the error.

use crate::provider::lease::Lease;
use crate::provider::machine::{Process, StartError};
use crate::provider::{FileError, interrupt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How much of a failed command's output an error shows.
const LAST_LINES: usize = 15;

/// Why a command of a build did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// It could not be started.
    #[error("{what}: cannot start {program}: {source}")]
    Start {
        /// What the step was for.
        what: String,
        /// The program.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// It ended badly.
    #[error("{what} failed ({status}):\n{tail}\nthe whole log: {}", .log.display())]
    Failed {
        /// What the step was for.
        what: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of its output.
        tail: String,
        /// All of its output.
        log: PathBuf,
    },
    /// It did not end in time and was killed.
    #[error("{what} did not end within {} s:\n{tail}\nthe whole log: {}", .deadline.as_secs(), .log.display())]
    Deadline {
        /// What the step was for.
        what: String,
        /// How long it had.
        deadline: Duration,
        /// The end of its output.
        tail: String,
        /// All of its output.
        log: PathBuf,
    },
    /// The user asked to stop.
    #[error("interrupted; what was compiled before is kept")]
    Interrupted,
    /// The lease could not be written.
    #[error(transparent)]
    Lease(FileError),
    /// Its log could not be written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Runs a command to its end with its output in `log`.
///
/// # Errors
/// It cannot be started, ends with another status than 0, or not before the deadline.
pub(super) fn run(what: &str, mut command: Command, log: &Path, deadline: Duration, lease: &Lease) -> Result<(), StepError> {
    let file = fs_err::File::create(log)?.into_parts().0;
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let mut process = Process::start(command, lease, &[]).map_err(|error| match error {
        StartError::Lease(error) => StepError::Lease(error),
        StartError::Spawn(source) => StepError::Start { what: what.to_owned(), program, source },
    })?;
    let in_time = ends(&mut process, deadline)?;
    if !in_time {
        process.kill();
    }
    let status = process.wait()?;
    if in_time && status.success() {
        return Ok(());
    }
    if interrupt::requested() {
        return Err(StepError::Interrupted);
    }
    let (what, tail, log) = (what.to_owned(), tail(log), log.to_owned());
    Err(if in_time { StepError::Failed { what, status, tail, log } } else { StepError::Deadline { what, deadline, tail, log } })
}

/// Waits for the end of a child through a pidfd; false past the deadline.
fn ends(process: &mut Process, deadline: Duration) -> std::io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let pid = rustix::process::Pid::from_child(process.child());
    let fd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    let ends = Instant::now() + deadline;
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn tail(log: &Path) -> String {
    let text = fs_err::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, deadline: Duration) -> Result<(), StepError> {
        let dir = tempfile::tempdir().unwrap();
        let lease = Lease::open(dir.path()).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run("the step", command, &dir.path().join("log"), deadline, &lease)
    }

    #[test]
    fn a_failing_command_shows_its_last_words() {
        let error = shell("echo first; echo last >&2; exit 3", Duration::from_secs(20)).unwrap_err();
        assert!(matches!(&error, StepError::Failed { tail, .. } if tail == "first\nlast"), "{error}");
        assert!(shell("exit 0", Duration::from_secs(20)).is_ok());
    }

    #[test]
    fn a_command_past_its_deadline_is_killed_with_its_children() {
        let start = Instant::now();
        let error = shell("sleep 60 & sleep 60", Duration::from_millis(200)).unwrap_err();
        assert!(matches!(error, StepError::Deadline { .. }), "{error}");
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let lease = Lease::open(dir.path()).unwrap();
        let error = run("x", Command::new("/nowhere/hw"), &dir.path().join("log"), Duration::from_secs(1), &lease).unwrap_err();
        assert!(error.to_string().contains("/nowhere/hw"), "{error}");
    }
}
