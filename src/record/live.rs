//! What the guests of a run have said so far, for a process that looks on while another one writes the run.
//!
//! `live/ARM.bin` grows by the frames of the arm's guest as the host takes them over, and goes once they are sorted into the arm's files.
//! `live/writer` is locked by the process that writes the run; the kernel drops the lock with the process. Nothing of it is left in a
//! finished run.

use super::run::{RunDir, RunError, frames};
use super::{Frame, ReadError};
use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};

const WRITER: &str = "live/writer";

fn of(arm: &str) -> String {
    format!("live/{arm}.bin")
}

/// The mark that a process writes this run. Dropping it takes the mark away.
#[derive(Debug)]
pub struct Writing {
    run: RunDir,
    _lock: File,
}

/// An arm whose frames others may follow. Dropping it takes them away.
#[derive(Debug)]
pub struct LiveArm {
    run: RunDir,
    arm: String,
    file: File,
}

/// A look at an arm that is being written.
#[derive(Debug)]
pub struct Follow {
    file: File,
    growing: Growing,
}

/// A stream of frames that grows: gives those that are complete.
#[derive(Debug, Default)]
pub struct Growing {
    pending: Vec<u8>,
}

impl RunDir {
    /// Marks the run as being written by this process.
    ///
    /// # Errors
    /// As the file system says.
    pub fn writing(&self) -> Result<Writing, RunError> {
        let file = self.created(WRITER)?;
        file.lock().map_err(|source| RunError::Io { path: self.file(WRITER), source })?;
        Ok(Writing { run: self.clone(), _lock: file })
    }

    /// Whether a process that lives writes this run.
    #[must_use]
    pub fn is_written(&self) -> bool {
        let lock = File::open(self.file(WRITER)).map(|file| file.try_lock_shared());
        matches!(lock, Ok(Err(TryLockError::WouldBlock)))
    }

    /// Begins the frames of an arm.
    ///
    /// # Errors
    /// As the file system says.
    pub fn live(&self, arm: &str) -> Result<LiveArm, RunError> {
        Ok(LiveArm { file: self.created(&of(arm))?, run: self.clone(), arm: arm.to_owned() })
    }

    /// Opens the frames of an arm that is being written; none when it is not.
    #[must_use]
    pub fn follow(&self, arm: &str) -> Option<Follow> {
        Some(Follow { file: File::open(self.file(&of(arm))).ok()?, growing: Growing::default() })
    }

    fn created(&self, name: &str) -> Result<File, RunError> {
        let file = fs::create_dir_all(self.file("live")).and_then(|()| File::create(self.file(name)));
        file.map_err(|source| RunError::Io { path: self.file(name), source })
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(self.run.file("live"));
    }
}

impl LiveArm {
    /// More of the guest's output.
    ///
    /// # Errors
    /// As the file system says.
    pub fn put(&mut self, new: &[u8]) -> Result<(), RunError> {
        self.file.write_all(new).map_err(|source| RunError::Io { path: self.run.file(&of(&self.arm)), source })
    }
}

impl Drop for LiveArm {
    fn drop(&mut self) {
        _ = fs::remove_file(self.run.file(&of(&self.arm)));
        // The folder of a seed's run goes with its last arm; that of the run itself holds the mark.
        _ = fs::remove_dir(self.run.file("live"));
    }
}

impl Follow {
    /// The frames that came since the last look.
    ///
    /// # Errors
    /// A frame that cannot be decoded.
    pub fn new_frames(&mut self) -> Result<Vec<Frame>, ReadError> {
        let mut new = Vec::new();
        // What cannot be read now is read at the next look.
        _ = self.file.read_to_end(&mut new);
        self.growing.see(&new)
    }
}

impl Growing {
    /// More bytes; they may begin and end inside a frame.
    ///
    /// # Errors
    /// A frame that cannot be decoded.
    pub fn see(&mut self, new: &[u8]) -> Result<Vec<Frame>, ReadError> {
        self.pending.extend_from_slice(new);
        let whole = whole(&self.pending);
        let found = frames(&self.pending[..whole]).collect();
        self.pending.drain(..whole);
        found
    }
}

/// Bytes of the frames that are complete.
fn whole(bytes: &[u8]) -> usize {
    let mut end = 0;
    while let Some(head) = bytes[end..].first_chunk::<4>() {
        let next = end + 4 + u32::from_le_bytes(*head) as usize;
        if next > bytes.len() {
            break;
        }
        end = next;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::encode_frame;
    use camino::Utf8Path;

    #[test]
    fn a_reader_follows_what_is_written_and_nothing_of_it_stays() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(Utf8Path::from_path(dir.path()).unwrap()).unwrap();
        assert!(!run.is_written() && run.follow("a").is_none());
        let writing = run.writing().unwrap();
        assert!(run.is_written());
        let mut bytes = Vec::new();
        for at_ns in [1, 2] {
            encode_frame(&Frame::Done { at_ns, busy_ns: 0 }, &mut bytes);
        }
        let mut live = run.live("a").unwrap();
        let mut follow = run.follow("a").unwrap();
        // One frame and a part of the next.
        live.put(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(follow.new_frames().unwrap(), [Frame::Done { at_ns: 1, busy_ns: 0 }]);
        live.put(&bytes[bytes.len() - 1..]).unwrap();
        drop(live);
        assert!(run.follow("a").is_none(), "it is gone for who comes now");
        assert_eq!(follow.new_frames().unwrap(), [Frame::Done { at_ns: 2, busy_ns: 0 }], "and there for who was there");
        drop(writing);
        assert!(!run.is_written() && run.path().read_dir_utf8().unwrap().next().is_none());
    }
}
