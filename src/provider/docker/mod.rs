//! The Docker API: where a daemon answers, what it says of itself, and a daemon in a throwaway VM. The only module that names bollard.

mod endpoint;
mod engine;
mod throwaway;

pub use endpoint::{Endpoint, EndpointError, Wanted};
pub use engine::{Engine, EngineFacts};
pub use throwaway::{KIND, Throwaway};

use super::image::ImageError;
use super::vm::VmError;

/// Why there is no Docker to work with.
#[derive(Debug, thiserror::Error)]
pub enum DockerError {
    /// The address makes no sense.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// Nobody answers there.
    #[error(
        "no Docker at {address} ({reason}): start it, set DOCKER_HOST to where it is, or use a throwaway one: --docker throwaway"
    )]
    Nobody {
        /// Where.
        address: String,
        /// The system's reason.
        reason: String,
    },
    /// The socket is there and this user may not use it.
    #[error(
        "Docker's socket {address} is not open to this user: join its group (usermod -aG docker USER, then log in again), \
         or use a throwaway Docker: --docker throwaway"
    )]
    Permission {
        /// Where.
        address: String,
    },
    /// It answered too late or not at all.
    #[error("Docker at {address} did not answer within {seconds} s")]
    Silent {
        /// Where.
        address: String,
        /// How long it had.
        seconds: u64,
    },
    /// It answered an error, or something that is not Docker.
    #[error("Docker at {address}: {reason}")]
    Refused {
        /// Where.
        address: String,
        /// Its words.
        reason: String,
    },
    /// Its machine of the throwaway endpoint cannot be built.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The VM of the throwaway endpoint.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// A file, with its path.
    #[error(transparent)]
    File(#[from] super::FileError),
    /// Reading or writing a file.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}
