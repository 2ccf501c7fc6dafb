//! Guest memory as files: in memory while it boots, sparse in the cache afterwards.

use crate::provider::FileError;
use crate::provider::cache::hex;
use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const PAGE: usize = 4096;
const CHUNK: usize = 1 << 20;

/// A file that exists only in memory and goes with its last descriptor: nothing to clean up, and no disk is written.
#[derive(Debug)]
pub struct MemoryFile {
    pub file: File,
}

impl MemoryFile {
    pub fn new(name: &str, size: u64) -> Result<MemoryFile, FileError> {
        let create = || -> std::io::Result<File> {
            let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
            file.set_len(size)?;
            Ok(file)
        };
        Ok(MemoryFile { file: create().map_err(FileError::at(name))? })
    }

    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// The path by which a child that inherits the descriptor opens it.
    pub fn path_in_child(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.fd()).into()
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Bytes that are not zero pages.
    pub stored: u64,
    /// SHA-256 over offset and content of every page that is not zero.
    pub hash: String,
}

/// Copies memory into a sparse file: pages of zeros become holes, which read as zeros and take no disk.
pub fn store(memory: &MemoryFile, size: u64, to: &Path) -> Result<Image, FileError> {
    let target = File::create_new(to).map_err(FileError::at(to))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    let mut stored = 0;
    let mut at = 0;
    while at < size {
        // Memory that the guest never touched is a hole already.
        match seek(&memory.file, SeekFrom::Data(at)) {
            Ok(data) => at = data,
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(FileError::at("guest memory")(error.into())),
        }
        let length = CHUNK.min((size - at) as usize);
        memory.file.read_exact_at(&mut buffer[..length], at).map_err(FileError::at("guest memory"))?;
        let mut page = 0;
        while page < length {
            let run = buffer[page..length].chunks(PAGE).take_while(|chunk| !is_zero(chunk)).map(<[u8]>::len).sum::<usize>();
            if run == 0 {
                page += PAGE;
                continue;
            }
            let content = &buffer[page..page + run];
            target.write_all_at(content, at + page as u64).map_err(FileError::at(to))?;
            for (i, chunk) in content.chunks(PAGE).enumerate() {
                hasher.update((at + (page + i * PAGE) as u64).to_le_bytes());
                hasher.update(chunk);
            }
            stored += run as u64;
            page += run;
        }
        at += length as u64;
    }
    target.set_len(size).and_then(|()| target.sync_all()).map_err(FileError::at(to))?;
    Ok(Image { stored, hash: hex(&hasher.finalize()) })
}

fn is_zero(page: &[u8]) -> bool {
    page.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_zeros_become_holes_and_the_content_stays() {
        let size = 8 * CHUNK as u64;
        let memory = MemoryFile::new("test", size).unwrap();
        memory.file.write_all_at(&[7; 3 * PAGE], 2 * CHUNK as u64 - PAGE as u64).unwrap();
        memory.file.write_all_at(&vec![0; CHUNK], 5 * CHUNK as u64).unwrap();
        memory.file.write_all_at(&[1], size - 1).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ram");
        let image = store(&memory, size, &path).unwrap();
        assert_eq!(image.stored, 4 * PAGE as u64);
        let mut expected = vec![0; size as usize];
        memory.file.read_exact_at(&mut expected, 0).unwrap();
        assert!(std::fs::read(&path).unwrap() == expected);
        let again = store(&memory, size, &dir.path().join("again")).unwrap();
        assert_eq!(image, again);
    }
}
