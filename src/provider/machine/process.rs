//! Child processes that cannot outlive this one: leased, in their own group, and killed by the kernel when their parent dies.

use crate::provider::lease::{ENV_TOKEN, Held, Identity, Lease};
use crate::provider::{FileError, interrupt};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Read};
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

/// A running child. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    group: Pid,
    held: Option<Held>,
    ended: bool,
}

impl Process {
    /// Starts a command under a lease, with these descriptors inherited.
    pub fn start(mut command: Command, lease: &Lease, inherit: &[RawFd]) -> Result<Process, StartError> {
        let (held, token) = lease.process()?;
        command.env(ENV_TOKEN, token);
        let child = spawn(command, inherit).map_err(StartError::Spawn)?;
        let group = Pid::from_child(&child);
        interrupt::register(group);
        let identity = Identity::of(child.id());
        let process = Process { child, group, held: Some(held), ended: false };
        if let (Some(identity), Some(held)) = (identity, &process.held) {
            held.is_process(identity)?;
        }
        Ok(process)
    }

    /// The pipes and the pid.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the whole group; no error when it has already ended.
    pub fn kill(&mut self) {
        if !self.ended {
            _ = kill_process_group(self.group, Signal::KILL);
        }
    }

    /// Waits for the end. The caller knows that it is near: the pipes are closed, or [`Process::kill`] was called.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        // Once reaped the pid may be another's, so the interrupt handler must forget it first.
        interrupt::forget(self.group);
        let status = self.child.wait()?;
        self.ended = true;
        if let Some(held) = self.held.take() {
            held.release();
        }
        Ok(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.ended {
            self.kill();
            _ = self.wait();
        }
    }
}

/// Why a child did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system refused.
    #[error(transparent)]
    Spawn(io::Error),
    /// The lease could not be written.
    #[error(transparent)]
    Lease(#[from] FileError),
}

type Job = (Command, Vec<RawFd>, mpsc::SyncSender<io::Result<Child>>);

/// Spawns from one thread that lives as long as this process: the kernel's "parent death signal" is sent when the *thread* that
/// forked ends, and callers' threads come and go.
fn spawn(mut command: Command, inherit: &[RawFd]) -> io::Result<Child> {
    static SPAWNER: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (send, receive) = mpsc::channel::<Job>();
        let work = move || {
            while let Ok((mut command, inherit, reply)) = receive.recv() {
                let parent = std::process::id();
                // SAFETY: between fork and exec only system calls are made, which allocate nothing and take no lock.
                unsafe {
                    command.pre_exec(move || {
                        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                        // The parent may have died before the line above.
                        if rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned()) != Some(parent) {
                            return Err(io::Error::other("the parent died"));
                        }
                        for fd in &inherit {
                            let fd = rustix::fd::BorrowedFd::borrow_raw(*fd);
                            rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
                        }
                        Ok(())
                    });
                }
                // A caller that has given up does not hear of it; the child then ends with its pipes.
                _ = reply.send(command.spawn());
            }
        };
        std::thread::Builder::new().name("spawner".into()).spawn(work).expect("the process can start one thread");
        send
    });
    command.process_group(0);
    let (reply, answer) = mpsc::sync_channel(1);
    spawner.send((command, inherit.to_vec(), reply)).map_err(|_| io::Error::other("the spawner ended"))?;
    answer.recv().map_err(|_| io::Error::other("the spawner ended"))?
}

/// Runs a tool to its end and collects what it prints; kills it at the deadline.
///
/// # Errors
/// When it cannot be started, or with [`io::ErrorKind::TimedOut`].
pub fn run_with_deadline(command: &mut Command, deadline: Duration) -> io::Result<Output> {
    let mut owned = Command::new(command.get_program());
    owned.args(command.get_args()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).env("LC_ALL", "C");
    owned.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(dir) = command.get_current_dir() {
        owned.current_dir(dir);
    }
    let mut child = spawn(owned, &[])?;
    let group = Pid::from_child(&child);
    interrupt::register(group);
    let (send, receive) = mpsc::channel();
    let read = |mut pipe: Box<dyn Read + Send>| {
        let send = send.clone();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let result = pipe.read_to_end(&mut bytes).map(|_| bytes);
            _ = send.send(());
            result
        })
    };
    let stdout = read(Box::new(child.stdout.take().expect("piped")));
    let stderr = read(Box::new(child.stderr.take().expect("piped")));
    let until = std::time::Instant::now() + deadline;
    // Both pipes end with the process and its children; only then is it reaped.
    let in_time = (0..2).all(|_| receive.recv_timeout(until.saturating_duration_since(std::time::Instant::now())).is_ok());
    if !in_time {
        _ = kill_process_group(group, Signal::KILL);
    }
    interrupt::forget(group);
    let status = child.wait()?;
    if !in_time {
        return Err(io::Error::new(io::ErrorKind::TimedOut, format!("no end within {} s", deadline.as_secs())));
    }
    let joined = |thread: std::thread::JoinHandle<io::Result<Vec<u8>>>| thread.join().expect("a reader does not panic");
    Ok(Output { status, stdout: joined(stdout)?, stderr: joined(stderr)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_status_come_back() {
        let output =
            run_with_deadline(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]), Duration::from_secs(20));
        let output = output.unwrap();
        assert_eq!((output.status.code(), &output.stdout[..], &output.stderr[..]), (Some(3), &b"out\n"[..], &b"err\n"[..]));
    }

    #[test]
    fn a_tool_that_hangs_is_killed_with_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & sleep 1000"]);
        let error = run_with_deadline(&mut command, Duration::from_millis(200)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
