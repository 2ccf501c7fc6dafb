//! Removing what dead owners left.

use super::{Identity, Line, Resource};
use crate::provider::FileError;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a killed process may take to go.
const GRACE: Duration = Duration::from_secs(5);

/// A stale lease and what it still names.
#[derive(Debug)]
pub struct Leftover {
    path: PathBuf,
    resources: Vec<Resource>,
    // Held so that two cleaners do not work on the same lease.
    _lock: File,
}

/// What cleaning one lease did.
#[derive(Debug, Default)]
pub struct Removed {
    /// One line for each thing that was there and is gone.
    pub done: Vec<String>,
    /// One line for each thing that is still there, with the reason.
    pub failed: Vec<String>,
}

/// The leases in a state directory whose owner is dead.
///
/// # Errors
/// When the directory or a lease cannot be read. A directory that does not exist holds no leases.
pub fn leftovers(state: &Path) -> Result<Vec<Leftover>, FileError> {
    let dir = state.join("leases");
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(FileError::at(&dir)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(FileError::at(&dir))?.path();
        let file = match File::options().read(true).write(true).open(&path) {
            Ok(file) => file,
            // Its owner ended just now and took it along.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(FileError::at(&path)(error)),
        };
        if file.try_lock().is_err() {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(FileError::at(&path))?;
        found.push(Leftover { path, resources: still_held(&text), _lock: file });
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// What the lines name and do not say to be gone. A last line that was cut off by the owner's death announces nothing that exists.
fn still_held(text: &str) -> Vec<Resource> {
    let mut held: BTreeMap<u32, Vec<Resource>> = BTreeMap::new();
    for line in text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
        if line.gone {
            held.remove(&line.id);
        } else if let Some(resource) = line.hold {
            held.entry(line.id).or_default().push(resource);
        }
    }
    let mut resources: Vec<_> = held.into_values().flatten().collect();
    // Processes first: they might write into the directories.
    resources.sort_by_key(|resource| matches!(resource, Resource::File(_) | Resource::Directory(_)));
    resources
}

impl Leftover {
    /// What the lease still names.
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// Removes everything, and the lease when nothing is left.
    pub fn clean(self) -> Removed {
        let mut removed = Removed::default();
        for resource in &self.resources {
            match remove(resource) {
                Ok(true) => removed.done.push(describe(resource)),
                Ok(false) => {}
                Err(error) => removed.failed.push(format!("{}: {error}", describe(resource))),
            }
        }
        if removed.failed.is_empty()
            && let Err(error) = fs::remove_file(&self.path)
        {
            removed.failed.push(format!("lease {}: {error}", self.path.display()));
        }
        removed
    }
}

fn describe(resource: &Resource) -> String {
    match resource {
        Resource::Token(token) => format!("process of lease {token}"),
        Resource::Process(identity) => format!("process {}", identity.pid),
        Resource::File(path) => format!("file {}", path.display()),
        Resource::Directory(path) => format!("directory {}", path.display()),
    }
}

/// Removes one resource; false when there was nothing.
pub(super) fn remove(resource: &Resource) -> io::Result<bool> {
    let gone_is_fine = |result: io::Result<()>| match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    };
    match resource {
        Resource::File(path) => gone_is_fine(fs::remove_file(path)),
        Resource::Directory(path) => gone_is_fine(fs::remove_dir_all(path)),
        Resource::Process(identity) => kill(identity),
        Resource::Token(token) => {
            let mut any = false;
            for identity in Identity::with_token(token) {
                any |= kill(&identity)?;
            }
            Ok(any)
        }
    }
}

fn kill(identity: &Identity) -> io::Result<bool> {
    let Some(pid) = Pid::from_raw(identity.pid.cast_signed()) else { return Ok(false) };
    // The descriptor pins the process before its identity is checked, so the pid cannot change hands in between.
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(rustix::io::Errno::SRCH) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    if !identity.runs() {
        return Ok(false);
    }
    // Leased children lead their own group; a token may also have been inherited by a member.
    if rustix::process::getpgid(Some(pid)).is_ok_and(|group| group == pid) {
        _ = kill_process_group(pid, Signal::KILL);
    }
    match pidfd_send_signal(&process, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => return Err(error.into()),
    }
    let timeout = rustix::time::Timespec { tv_sec: GRACE.as_secs().cast_signed(), tv_nsec: 0 };
    let mut ended = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
    if rustix::event::poll(&mut ended, Some(&timeout))? == 0 {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "it survived SIGKILL for 5 s"));
    }
    Ok(true)
}
