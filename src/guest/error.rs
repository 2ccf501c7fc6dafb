//! Why the guest itself failed. Every variant ends the run as a fault.

use crate::cgroup::TreeError;
use crate::record::shm::ShmError;
use std::io;

/// A failure of the guest, never of a workload.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The init stub did not say something.
    #[error("the environment variable {variable} is missing: highwater-node guest is started by highwater-init only")]
    Environment {
        /// Its name.
        variable: &'static str,
    },
    /// The input cannot be read.
    #[error("the {what} cannot be read: {reason}")]
    Input {
        /// Which.
        what: &'static str,
        /// The parser's reason.
        reason: String,
    },
    /// The order is of another version.
    #[error(
        "the order has schema {found}, this guest program reads {}: highwater and highwater-node are of different builds",
        crate::record::SCHEMA
    )]
    Schema {
        /// Its schema.
        found: u32,
    },
    /// The shared memory is not usable.
    #[error(transparent)]
    Shm(#[from] ShmError),
    /// The cgroup tree is not usable.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The system refused something.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A load client failed.
    #[error(transparent)]
    Client(#[from] crate::load::ClientError),
    /// The order names a pod that it does not hold.
    #[error("the order's {place} names the pod {pod:?}, which it does not hold")]
    UnknownPod {
        /// Where.
        place: &'static str,
        /// The name.
        pod: String,
    },
    /// A thread of the guest panicked.
    #[error("the thread {0} panicked")]
    Panicked(String),
}

/// Adds what was tried to a system error.
pub(super) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> GuestError {
    let what = what.into();
    |source| GuestError::System { what, source }
}
