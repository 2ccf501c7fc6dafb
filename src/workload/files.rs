//! Files that workloads read: made once, with incompressible content, and put out of the page cache.

use super::memory::Block;
use super::{WorkloadError, system};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::{self, Write as _};
use std::num::NonZeroU64;
use std::path::Path;

const PIECE: usize = 1 << 20;

/// Opens a file for reading; makes it first when it is not there with this size.
///
/// # Errors
/// It cannot be made or opened.
pub fn open(path: &Path, size: Option<usize>, seed: u64) -> Result<File, WorkloadError> {
    let what = |verb: &str| format!("{verb} {}", path.display());
    if let Some(size) = size
        && path.metadata().map_or(0, |found| found.len()) != size as u64
    {
        make(path, size, seed).map_err(system(what("make")))?;
    }
    File::open(path).map_err(system(what("open")))
}

fn make(path: &Path, size: usize, seed: u64) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut file = File::create(path)?;
    let mut piece = Block::anonymous(PIECE)?;
    let mut left = size;
    while left > 0 {
        let part = left.min(PIECE);
        piece.fill(0, part, seed.wrapping_add(left as u64));
        file.write_all(piece.bytes(0, part))?;
        left -= part;
    }
    file.sync_all()?;
    forget(&file)
}

/// Puts a file's clean pages out of the page cache.
///
/// # Errors
/// What fadvise says.
pub fn forget(file: &File) -> io::Result<()> {
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}

/// The same for a stretch that was read.
///
/// # Errors
/// What fadvise says.
pub fn forget_part(file: &File, at: u64, len: u64) -> io::Result<()> {
    Ok(fadvise(file, at, NonZeroU64::new(len), Advice::DontNeed)?)
}

/// Asks the kernel to read a stretch, `piece` bytes at a time.
///
/// # Errors
/// What fadvise says.
pub fn will_need(file: &File, at: u64, len: u64, piece: u64) -> io::Result<()> {
    for from in (at..at + len).step_by(piece as usize) {
        fadvise(file, from, NonZeroU64::new(piece.min(at + len - from)), Advice::WillNeed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_once() {
        let directory = std::env::temp_dir().join(format!("highwater-files-{}", std::process::id()));
        let path = directory.join("checkpoint");
        open(&path, Some(PIECE + 100), 3).unwrap();
        let first = std::fs::read(&path).unwrap();
        assert_eq!(first.len(), PIECE + 100);
        open(&path, Some(PIECE + 100), 4).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), first, "it was there");
        assert!(open(&directory.join("none"), None, 0).is_err());
        std::fs::remove_dir_all(directory).unwrap();
    }
}
