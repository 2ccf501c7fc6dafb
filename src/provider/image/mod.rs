//! Node images: a disk with a real kubelet and containerd, and the control plane that goes beside it, built from a pinned recipe.
//!
//! A recipe is data (`node-images/`): Go modules with their sums, Debian packages, files laid over the root file system. Built images
//! sit in the cache under the hash of everything that went into them.

mod build;
mod container;
mod debian;
mod docker;
mod go;
pub mod oci;

mod recipe;
mod runtime;
mod step;
mod store;

pub use build::{Options, build};
pub use container::{ContainerImage, container};
pub use docker::{KIND as DOCKER_KIND, docker, docker_state};
pub use recipe::{Build, Command, ContainerForm, ControlImage, Debian, Form, Place, Recipe, RecipeError, VERSIONS};
pub use step::StepError;
pub use store::{Image, Manifest, Store, System};

use std::path::PathBuf;

/// Why an image could not be built or read.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The recipe itself.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// Tools of this machine are missing; all of them at once.
    #[error("building a node image needs {}", .0.join("; "))]
    Missing(Vec<String>),
    /// A step of the build failed.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The user's own programs are incomplete.
    #[error("{} lacks {}: put the programs of the release there, or leave --binaries away to build them", .dir.display(), .names.join(", "))]
    Binaries {
        /// The folder.
        dir: PathBuf,
        /// What is not in it.
        names: Vec<String>,
    },
    /// The images could not be put into the node's runtime.
    #[error("containerd did not start to take the node's images within {} s; its log: {}", .deadline.as_secs(), .log.display())]
    Runtime {
        /// How long it had.
        deadline: std::time::Duration,
        /// What it said.
        log: PathBuf,
    },
    /// A file, with its path.
    #[error(transparent)]
    File(#[from] crate::provider::FileError),
    /// Reading or writing a file.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// An image in the cache whose manifest cannot be read.
    #[error("{}: {reason}; remove it with `highwater image prune --all`", .path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}
