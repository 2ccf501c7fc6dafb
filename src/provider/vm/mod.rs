//! The provider `vm`: a real kubelet, containerd and runc in a throwaway VM, with its control plane beside it as host processes.
//!
//! No Docker, no root, no registry. The VM is booted once per image and shape up to a running containerd and saved; every session forks
//! that checkpoint, starts a control plane of its own and joins the node to it, so each starts on the identical node.

mod capture;
mod channel;
mod control_plane;
mod node;
mod observed;
mod pki;
mod process;
mod session;

pub use capture::CaptureError;
pub use channel::ChannelError;
pub(super) use node::{ANSWER, Node, Start};
pub use node::{Shape, Tools};
pub(super) use pki::Authority;
pub use session::{NODE, Session};

use super::FileError;
use super::api::ApiError;
use super::machine::{LastWords, MachineError};
use std::process::ExitStatus;

/// The cache's kind of checkpoints of this provider.
pub const KIND: &str = "vm-checkpoints";

/// The least that a Debian with containerd and a kubelet runs in, bytes.
pub const LEAST_MEMORY: u64 = 1 << 30;

/// Why there is no real node, or why it did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// qemu-img is missing.
    #[error("qemu-img was not found: install it (Debian: apt-get install qemu-utils)")]
    NoQemuImg,
    /// qemu-img refused.
    #[error("qemu-img cannot make the node's disk: {0}")]
    Overlay(String),
    /// A process of the control plane could not be started.
    #[error("{name} cannot be started: {source}")]
    Start {
        /// The program.
        name: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// A process of the control plane ended.
    #[error("{name} ended ({status}); its last words:\n{tail}")]
    Ended {
        /// The program.
        name: &'static str,
        /// How.
        status: ExitStatus,
        /// The end of its log.
        tail: String,
    },
    /// The kubelet does not stay up.
    #[error("the kubelet refuses to run; its own words:\n{0}")]
    Kubelet(String),
    /// The user asked to stop.
    #[error("interrupted; everything that was created has been removed")]
    Interrupted,
    /// The VM.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The port to the node.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The node runs and does not answer.
    #[error("{error}{last}")]
    Silent {
        /// What was asked, and how long it had.
        error: ChannelError,
        /// Console and stderr.
        last: LastWords,
    },
    /// The API.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The ledger.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The observer did not do what it was told.
    #[error("the observer of the node: {0}")]
    Observer(String),
    /// Certificates.
    #[error("a certificate cannot be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A file, with its path.
    #[error(transparent)]
    File(#[from] FileError),
    /// Reading or writing a file.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}
