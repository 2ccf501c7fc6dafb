//! A process that was started inside a cgroup.

use super::GuestError;
use super::error::system;
use super::namespaces::{Bind, Network, bind_volumes};
use crate::cgroup::Tree;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// What to start.
#[derive(Debug)]
pub struct Start<'a> {
    /// Arguments of this same program.
    pub args: &'a [String],
    /// The whole environment.
    pub env: &'a [(String, String)],
    /// The cgroup to start it in.
    pub cgroup: &'a str,
    /// Its oom_score_adj.
    pub oom_score_adj: i32,
    /// Its pod's network.
    pub network: &'a Network,
    /// Its volumes.
    pub binds: &'a [Bind],
}

/// A running child.
#[derive(Debug)]
pub struct Process {
    /// Its id.
    pub pid: Pid,
    /// The cgroup it was started in.
    pub cgroup: String,
    pidfd: OwnedFd,
    output: OwnedFd,
    line: Vec<u8>,
    closed: bool,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Its status, when it exited.
    pub code: Option<i32>,
    /// The signal, when one killed it.
    pub signal: Option<i32>,
}

// Longer lines are cut: one without an end must not fill the output.
const LONGEST_LINE: usize = 4096;

impl Process {
    /// Starts a process. It joins its cgroup after the fork and before the exec, so that the exec and all later pages are charged there, which is
    /// what runc does.
    ///
    /// # Errors
    /// The system refuses.
    pub fn start(tree: &Tree, start: &Start<'_>) -> Result<Process, GuestError> {
        let what = || format!("start {:?} in {}", start.args, start.cgroup);
        let inner = || -> io::Result<Process> {
            let procs = std::fs::File::options().write(true).open(tree.file(start.cgroup, "cgroup.procs"))?;
            let (output, input) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK)?;
            // Only this end must not block; the child writes as to any pipe.
            rustix::fs::fcntl_setfl(&input, rustix::fs::OFlags::empty())?;
            let adjustment = start.oom_score_adj.to_string();
            let network = start.network.as_fd().as_raw_fd();
            let binds = start.binds.to_vec();
            let mut command = Command::new("/proc/self/exe");
            command.arg0("highwater-node").args(start.args).env_clear().envs(start.env.iter().map(|(k, v)| (k, v)));
            command.stdin(Stdio::null()).stdout(Stdio::from(input.try_clone()?)).stderr(Stdio::from(input));
            let prepare = move || -> io::Result<()> {
                rustix::io::write(&procs, b"0")?;
                let score = rustix::fs::open(c"/proc/self/oom_score_adj", rustix::fs::OFlags::WRONLY, rustix::fs::Mode::empty())?;
                rustix::io::write(&score, adjustment.as_bytes())?;
                // SAFETY: the parent keeps the namespace's descriptor open until the child has been started.
                let network = unsafe { BorrowedFd::borrow_raw(network) };
                rustix::thread::move_into_link_name_space(network, Some(rustix::thread::LinkNameSpaceType::Network))?;
                bind_volumes(&binds)
            };
            // SAFETY: the closure makes system calls on prepared data only; it allocates nothing and takes no lock.
            unsafe { command.pre_exec(prepare) };
            let child = command.spawn()?;
            let pid = Pid::from_child(&child);
            let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
            Ok(Process { pid, cgroup: start.cgroup.to_owned(), pidfd, output, line: Vec::new(), closed: false })
        };
        inner().map_err(system(what()))
    }

    /// Readable when the process has ended.
    pub fn exit_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Readable when it wrote something; None when nothing more can come.
    pub fn output_fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.closed).then(|| self.output.as_fd())
    }

    /// Reads the lines written so far.
    pub fn read_lines(&mut self, line: &mut dyn FnMut(String)) {
        let mut piece = [0; 4096];
        loop {
            match rustix::io::read(&self.output, &mut piece[..]) {
                Ok(0) => self.closed = true,
                Ok(n) => {
                    for byte in &piece[..n] {
                        if *byte == b'\n' || self.line.len() == LONGEST_LINE {
                            line(String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned());
                        }
                        if *byte != b'\n' {
                            self.line.push(*byte);
                        }
                    }
                    continue;
                }
                Err(_) => return,
            }
            if !self.line.is_empty() {
                line(String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned());
            }
            return;
        }
    }

    /// Sends a signal; a process that has ended does not mind.
    pub fn signal(&self, signal: Signal) {
        _ = pidfd_send_signal(&self.pidfd, signal);
    }

    /// Takes its exit, if it has ended.
    ///
    /// # Errors
    /// It is no child of this process.
    pub fn try_wait(&self) -> Result<Option<Exit>, GuestError> {
        let waited =
            waitpid(Some(self.pid), WaitOptions::NOHANG).map_err(|e| system("wait for a container's process")(e.into()))?;
        Ok(waited.map(|(_, status)| Exit { code: status.exit_status(), signal: status.terminating_signal() }))
    }
}
