//! Where a node comes from: the deterministic VM, an existing node, leases of what was created, and clean-up.

pub mod api;
pub mod attach;
pub mod cache;
pub mod docker;
pub mod doctor;
pub mod image;
pub mod interrupt;
pub mod kernel;
pub mod lease;
pub mod machine;
mod programs;
pub mod sim;
pub mod vm;

pub use programs::{NodePrograms, ProgramError};

use std::io;
use std::path::{Path, PathBuf};

/// A file operation that failed, with its path.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// No room left.
    #[error("no space left on the disk that holds {}: free some, or point XDG_CACHE_HOME or --out at a larger one", path.display())]
    DiskFull {
        /// What was written.
        path: PathBuf,
    },
    /// Anything else.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl FileError {
    /// For `map_err`: names the file of an I/O error and tells a full disk apart.
    pub fn at(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> FileError {
        let path = path.as_ref().to_owned();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FileError::DiskFull { path },
            _ => FileError::Io { path, source },
        }
    }
}
