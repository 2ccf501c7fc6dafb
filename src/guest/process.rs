//! A process that was started inside a cgroup.

use super::GuestError;
use super::error::system;
use super::namespaces::{Bind, Network, bind_volumes};
use crate::cgroup::Tree;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid};
use std::ffi::{CStr, CString};
use std::io;

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
    /// The parent does not wait for the exec: a child without CPU time or memory must not hold up the node. One that cannot get as far as
    /// the exec says why on its output and ends with status 128, as a container runtime reports it.
    ///
    /// # Errors
    /// The system refuses.
    pub fn start(tree: &Tree, start: &Start<'_>) -> Result<Process, GuestError> {
        Process::fork(tree, start).map_err(system(format!("start {:?} in {}", start.args, start.cgroup)))
    }

    fn fork(tree: &Tree, start: &Start<'_>) -> io::Result<Process> {
        let procs = std::fs::File::options().write(true).open(tree.file(start.cgroup, "cgroup.procs"))?;
        let nothing = std::fs::File::open("/dev/null")?;
        let (output, input) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        // Only this end must not block; the child writes as to any pipe.
        rustix::fs::fcntl_setfl(&output, OFlags::NONBLOCK)?;
        let text = |text: &str| CString::new(text).map_err(io::Error::other);
        let program = text(&std::env::current_exe()?.to_string_lossy())?;
        let args = std::iter::once(Ok(program.clone())).chain(start.args.iter().map(|arg| text(arg)));
        let args = args.collect::<io::Result<Vec<_>>>()?;
        let env = start.env.iter().map(|(name, value)| text(&format!("{name}={value}"))).collect::<io::Result<Vec<_>>>()?;
        let child = Child {
            streams: [nothing.as_fd(), input.as_fd(), input.as_fd()],
            procs: procs.as_fd(),
            oom_score_adj: start.oom_score_adj.to_string(),
            network: start.network.as_fd(),
            binds: start.binds,
            program: &program,
            args: pointers(&args),
            env: pointers(&env),
        };
        // SAFETY: the child makes system calls on prepared data only; it allocates nothing, takes no lock and never returns.
        let pid = match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()),
            0 => child.run(),
            pid => Pid::from_raw(pid).expect("a child's id is positive"),
        };
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Process { pid, cgroup: start.cgroup.to_owned(), pidfd, output, line: Vec::new(), closed: false })
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

// What the child needs between fork and exec.
struct Child<'a> {
    streams: [BorrowedFd<'a>; 3],
    procs: BorrowedFd<'a>,
    oom_score_adj: String,
    network: BorrowedFd<'a>,
    binds: &'a [Bind],
    program: &'a CStr,
    args: Vec<*const libc::c_char>,
    env: Vec<*const libc::c_char>,
}

fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

impl Child<'_> {
    fn run(&self) -> ! {
        if let Err((what, errno)) = self.exec() {
            // Formatting could allocate, so the number stands for itself.
            let mut digits = [b'0'; 4];
            let mut code = errno.raw_os_error();
            for digit in digits.iter_mut().rev() {
                *digit = b'0' + (code % 10) as u8;
                code /= 10;
            }
            for part in [b"highwater-node: cannot ", what, b": error ", &digits[..], b"\n"] {
                _ = rustix::io::write(self.streams[2], part);
            }
        }
        // SAFETY: ends this process without running anything of the parent's.
        unsafe { libc::_exit(128) }
    }

    fn exec(&self) -> Result<(), (&'static [u8], Errno)> {
        for (number, stream) in (0..).zip(self.streams) {
            // SAFETY: dup2 on descriptors of this process.
            if unsafe { libc::dup2(stream.as_raw_fd(), number) } < 0 {
                return Err((b"connect its output", last_errno()));
            }
        }
        rustix::io::write(self.procs, b"0").map_err(|e| (&b"join its cgroup"[..], e))?;
        let score = rustix::fs::open(c"/proc/self/oom_score_adj", OFlags::WRONLY, Mode::empty());
        let score = score.map_err(|e| (&b"open its oom_score_adj"[..], e))?;
        rustix::io::write(&score, self.oom_score_adj.as_bytes()).map_err(|e| (&b"set its oom_score_adj"[..], e))?;
        let network = Some(rustix::thread::LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(self.network, network).map_err(|e| (&b"enter its network"[..], e))?;
        bind_volumes(self.binds).map_err(|e| (&b"mount its volumes"[..], e))?;
        // SAFETY: Rust ignores SIGPIPE; programs expect the default. The arrays end with null and outlive the call, which does not return.
        unsafe {
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            libc::execve(self.program.as_ptr(), self.args.as_ptr(), self.env.as_ptr());
        }
        Err((b"execute the program", last_errno()))
    }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}
