//! A file system tree that is only read: the machine's own, or one that is captured or mounted elsewhere.
//!
//! Every path is resolved inside the tree by the kernel (openat2, RESOLVE_IN_ROOT), so no link in it leads out. Only regular files are
//! read, and of each only so much.

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The most that is read of one file.
const MOST: u64 = 8 << 20;

/// A tree.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    directory: OwnedFd,
}

/// A tree that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}", path.display())]
pub struct RootError {
    path: PathBuf,
    source: std::io::Error,
}

impl Root {
    /// Opens a tree.
    ///
    /// # Errors
    /// It is no directory, or the kernel is older than 5.6 and has no openat2.
    pub fn open(path: impl AsRef<Path>) -> Result<Root, RootError> {
        let path = path.as_ref().to_owned();
        let error = |e: Errno| RootError { path: path.clone(), source: e.into() };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let directory = rustix::fs::open(&path, flags, Mode::empty()).map_err(error)?;
        openat2(&directory, ".", flags, Mode::empty(), ResolveFlags::IN_ROOT).map_err(error)?;
        Ok(Root { path, directory })
    }

    /// Whether it is the machine's own.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.path == Path::new("/")
    }

    /// A file's text; bytes that are not UTF-8 become replacement characters. None when it is not there or cannot be read.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        self.bytes(path)
            .map(|bytes| String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
    }

    /// A file's text without white space around it.
    #[must_use]
    pub fn line(&self, path: &str) -> Option<String> {
        self.text(path).map(|text| text.trim().to_owned())
    }

    fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        // Not blocking: a pipe in a captured tree must not hang the reader.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.at(path, flags)?;
        if FileType::from_raw_mode(fstat(&file).ok()?.st_mode) != FileType::RegularFile {
            return None;
        }
        let mut bytes = Vec::new();
        File::from(file).take(MOST).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Whether there is something at a path.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        self.at(path, OFlags::PATH | OFlags::CLOEXEC).is_some()
    }

    /// The names in a directory, in order, with whether each is a directory. Names that are not UTF-8 are left out.
    #[must_use]
    pub fn names(&self, path: &str) -> Vec<(String, bool)> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY;
        let Some(dir) = self.at(path, flags).and_then(|fd| Dir::read_from(fd.as_fd()).ok()) else { return Vec::new() };
        let named = |entry: rustix::fs::DirEntry| {
            let name = entry.file_name().to_str().ok()?.to_owned();
            (name != "." && name != "..").then(|| (name, entry.file_type() == FileType::Directory))
        };
        let mut names: Vec<_> = dir.filter_map(|entry| named(entry.ok()?)).collect();
        names.sort_unstable();
        names
    }

    fn at(&self, path: &str, flags: OFlags) -> Option<OwnedFd> {
        let inside = path.trim_start_matches('/');
        let inside = if inside.is_empty() { "." } else { inside };
        openat2(&self.directory, inside, flags, Mode::empty(), ResolveFlags::IN_ROOT).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_link_leads_out_and_a_pipe_does_not_hang() {
        let outside = tempfile::tempdir().unwrap();
        let tree = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "s").unwrap();
        std::fs::write(tree.path().join("plain"), "p \n").unwrap();
        symlink(outside.path().join("secret"), tree.path().join("absolute")).unwrap();
        symlink("../../../../../../../../etc/hostname", tree.path().join("upwards")).unwrap();
        symlink("/plain", tree.path().join("inside")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, tree.path().join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let root = Root::open(tree.path()).unwrap();
        assert_eq!(root.line("/plain").as_deref(), Some("p"));
        assert_eq!(root.line("/inside").as_deref(), Some("p"));
        for path in ["/absolute", "/upwards", "/pipe", "/nothing", "/"] {
            assert_eq!(root.text(path), None, "{path}");
        }
        assert_eq!(root.names("/").len(), 5);
        assert!(Root::open(tree.path().join("plain")).is_err());
    }
}
