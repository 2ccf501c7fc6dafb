//! Leases: everything that is created is written down first, so that a later process can remove it.
//!
//! A lease is a file of JSON lines in the state directory (`$XDG_STATE_HOME/highwater/leases`), written by one process, its owner, which
//! holds a lock on the file for as long as it lives; the kernel drops the lock with the process, so a lease without a lock is stale.
//! A line says that a resource is about to exist (`{"id":1,"hold":{...}}`) or that it is gone (`{"id":1,"gone":true}`). A process is
//! known before its pid is: it carries the lease's token in its environment. Its pid follows with its start time and the boot it belongs
//! to, so that a pid that was given to another process is never killed.

mod process;
mod reap;

pub use process::Identity;
pub use reap::{Leftover, Removed, leftovers};

use super::FileError;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Environment variable that marks a leased process.
pub const ENV_TOKEN: &str = "HIGHWATER_LEASE";

/// Something that must not outlive its owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Resource {
    /// A process that will carry this token in its environment; its group goes with it.
    Token(String),
    /// The process of a token, once it runs.
    Process(Identity),
    /// A file.
    File(PathBuf),
    /// A directory with all it contains.
    Directory(PathBuf),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Line {
    id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hold: Option<Resource>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    gone: bool,
}

/// An owner's lease. Clones write to the same file; when the last clone and the last [`Held`] go and nothing is held, the file goes.
#[derive(Debug, Clone)]
pub struct Lease {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    name: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    next: u32,
    held: u32,
}

/// A resource on a lease. Dropping it removes files and directories; a process must be ended by who waits for it.
#[derive(Debug)]
#[must_use = "dropping it removes the resource"]
pub struct Held {
    lease: Lease,
    id: u32,
    remove: Option<Resource>,
}

/// The state directory: `$XDG_STATE_HOME/highwater`, by default `~/.local/state/highwater`.
pub fn state_dir() -> PathBuf {
    use etcetera::BaseStrategy;
    let base = etcetera::base_strategy::Xdg::new().ok().and_then(|xdg| xdg.state_dir());
    base.unwrap_or_else(std::env::temp_dir).join("highwater")
}

impl Lease {
    /// Opens a lease for this process in a state directory.
    ///
    /// # Errors
    /// When the file cannot be created and locked.
    pub fn open(state: &Path) -> Result<Lease, FileError> {
        let dir = state.join("leases");
        fs::create_dir_all(&dir).map_err(FileError::at(&dir))?;
        let own = Identity::of(std::process::id()).ok_or_else(|| {
            FileError::at("/proc/self/stat")(std::io::Error::other("cannot read the start time of this process"))
        })?;
        for number in 0u32.. {
            let name = format!("{}-{}-{number}", own.pid, own.started);
            let path = dir.join(format!("{name}.jsonl"));
            match File::options().create_new(true).append(true).read(true).open(&path) {
                Ok(file) => {
                    file.lock().map_err(FileError::at(&path))?;
                    let state = Mutex::new(State { file, next: 0, held: 0 });
                    return Ok(Lease { shared: Arc::new(Shared { path, name, state }) });
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(FileError::at(&path)(error)),
            }
        }
        unreachable!("the loop ends with a free name")
    }

    /// Where the lease is written.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Announces a file. Create it only after this returned.
    ///
    /// # Errors
    /// When the lease cannot be written; then nothing may be created.
    pub fn file(&self, path: &Path) -> Result<Held, FileError> {
        let resource = Resource::File(std::path::absolute(path).map_err(FileError::at(path))?);
        self.hold(resource.clone(), Some(resource))
    }

    /// Announces a directory. Create it only after this returned.
    ///
    /// # Errors
    /// As for [`Lease::file`].
    pub fn directory(&self, path: &Path) -> Result<Held, FileError> {
        let resource = Resource::Directory(std::path::absolute(path).map_err(FileError::at(path))?);
        self.hold(resource.clone(), Some(resource))
    }

    /// Announces a process; gives the token to put into its environment as [`ENV_TOKEN`].
    ///
    /// # Errors
    /// As for [`Lease::file`].
    pub fn process(&self) -> Result<(Held, String), FileError> {
        let id = self.shared.state.lock().expect("no panic while held").next;
        let token = format!("{}-{id}-{}", self.shared.name, Identity::boot());
        Ok((self.hold(Resource::Token(token.clone()), None)?, token))
    }

    fn hold(&self, resource: Resource, remove: Option<Resource>) -> Result<Held, FileError> {
        let mut state = self.shared.state.lock().expect("no panic while held");
        let id = state.next;
        state.next += 1;
        self.write(&mut state, &Line { id, hold: Some(resource), gone: false })?;
        state.held += 1;
        Ok(Held { lease: self.clone(), id, remove })
    }

    fn write(&self, state: &mut State, line: &Line) -> Result<(), FileError> {
        let mut text = serde_json::to_string(line).expect("a lease line is plain data");
        text.push('\n');
        // One write of one line: a reader sees all of it or nothing.
        state.file.write_all(text.as_bytes()).map_err(FileError::at(&self.shared.path))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // What could not be removed stays written down for `highwater clean`.
        if self.state.get_mut().is_ok_and(|state| state.held == 0) {
            _ = fs::remove_file(&self.path);
        }
    }
}

impl Held {
    /// Writes down which process carries the token.
    ///
    /// # Errors
    /// When the lease cannot be written.
    pub fn is_process(&self, identity: Identity) -> Result<(), FileError> {
        let mut state = self.lease.shared.state.lock().expect("no panic while held");
        self.lease.write(&mut state, &Line { id: self.id, hold: Some(Resource::Process(identity)), gone: false })
    }

    /// Ends the lease without removing the resource: it was handed over, or has ended by itself.
    pub fn release(mut self) {
        self.remove = None;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.remove.take().is_some_and(|resource| reap::remove(&resource).is_err()) {
            return;
        }
        let mut state = self.lease.shared.state.lock().expect("no panic while held");
        state.held -= 1;
        _ = self.lease.write(&mut state, &Line { id: self.id, hold: None, gone: true });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    /// A lease as a killed owner leaves it: the lines, and nobody who holds the lock.
    fn abandoned(state: &Path, lines: &[Line]) {
        let dir = state.join("leases");
        fs::create_dir_all(&dir).unwrap();
        let text: String = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
        fs::write(dir.join("1-1-0.jsonl"), text + "{\"id\":9,\"hold\":{\"fi").unwrap();
    }

    fn clean(state: &Path) -> Removed {
        let mut all = leftovers(state).unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0).clean()
    }

    fn hold(id: u32, resource: Resource) -> Line {
        Line { id, hold: Some(resource), gone: false }
    }

    #[test]
    fn an_owner_that_ends_well_leaves_nothing_and_while_it_lives_nobody_cleans() {
        let state = tempfile::tempdir().unwrap();
        let lease = Lease::open(state.path()).unwrap();
        let path = state.path().join("file");
        let held = lease.file(&path).unwrap();
        fs::write(&path, "x").unwrap();
        assert!(leftovers(state.path()).unwrap().is_empty());
        drop(held);
        assert!(!path.exists());
        let kept = lease.file(&path).unwrap();
        fs::write(&path, "x").unwrap();
        kept.release();
        assert!(path.exists());
        let file = lease.path().to_owned();
        drop(lease);
        assert!(!file.exists());
    }

    #[test]
    fn a_dead_owners_files_are_removed_and_what_was_gone_stays_alone() {
        let state = tempfile::tempdir().unwrap();
        let (dir, reused) = (state.path().join("dir"), state.path().join("reused"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("inside"), "x").unwrap();
        fs::write(&reused, "another's").unwrap();
        let lines = [
            hold(0, Resource::Directory(dir.clone())),
            hold(1, Resource::File(reused.clone())),
            Line { id: 1, hold: None, gone: true },
            hold(2, Resource::File(state.path().join("never-created"))),
        ];
        abandoned(state.path(), &lines);
        let removed = clean(state.path());
        assert_eq!((removed.done.len(), removed.failed.len()), (1, 0), "{removed:?}");
        assert!(!dir.exists() && reused.exists());
        assert!(leftovers(state.path()).unwrap().is_empty());
    }

    #[test]
    fn a_process_is_killed_only_when_it_is_the_one() {
        let state = tempfile::tempdir().unwrap();
        // It echoes before it is looked for: only then has its exec published the environment. Without this test its input ends, and so does it.
        let mut child = Command::new("cat")
            .env(ENV_TOKEN, "token-of-this-test")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let identity = Identity::of(child.id()).unwrap();
        let other = Identity { started: identity.started + 1, ..identity.clone() };
        abandoned(state.path(), &[hold(0, Resource::Process(other))]);
        assert_eq!(clean(state.path()).done, Vec::<String>::new());
        assert!(child.try_wait().unwrap().is_none(), "a pid used again is another process");
        // Killed between the spawn and the note of its pid: the token finds it.
        abandoned(state.path(), &[hold(0, Resource::Token("token-of-this-test".into()))]);
        assert_eq!(clean(state.path()).done.len(), 1);
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}
