//! The kernel log, for the OOM killer's own account.

use super::GuestError;
use super::error::system;
use crate::cgroup::parse_oom_line;
use crate::record::EventKind;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;

/// /dev/kmsg, read from where it stood when this was opened.
#[derive(Debug)]
pub struct KernelLog {
    file: OwnedFd,
}

impl KernelLog {
    /// Opens it at its end.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open() -> Result<KernelLog, GuestError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open("/dev/kmsg", flags, Mode::empty()).map_err(|e| system("open /dev/kmsg")(e.into()))?;
        rustix::fs::seek(&file, SeekFrom::End(0)).map_err(|e| system("seek in /dev/kmsg")(e.into()))?;
        Ok(KernelLog { file })
    }

    /// Readable when there is a new record.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Gives the OOM kills among the new records.
    pub fn oom_kills(&self, found: &mut dyn FnMut(EventKind)) {
        // One read gives one record; 8 KiB hold the longest.
        let mut record = [0; 8192];
        loop {
            match rustix::io::read(&self.file, &mut record[..]) {
                Ok(n) if n > 0 => {
                    if let Some(line) = parse_oom_line(&String::from_utf8_lossy(&record[..n])) {
                        let crate::cgroup::OomLine { constraint, oom_memcg, task_memcg, task, .. } = line;
                        found(EventKind::OomKill { constraint, oom_memcg, task_memcg, task });
                    }
                }
                // Records were overwritten before they were read; the next read goes on after them.
                Err(Errno::PIPE | Errno::INTR) => {}
                _ => return,
            }
        }
    }
}
