//! The virtual machine: QEMU's command line, its monitor, booting to a checkpoint and forking it.
//!
//! Why the results are exact: one vCPU whose clock counts instructions, no device that hears of the host, and QEMU's record mode, in which the
//! device loop never runs while the vCPU does. The memory of a checkpoint is a sparse file that every fork maps privately, so a fork copies
//! only what it changes; the state of the devices is some 13 KiB.

mod boot;
mod error;
mod fork;
mod initramfs;
mod process;
mod qemu;
mod qmp;
mod ram;

pub use boot::{BootFiles, BootInput, boot};
pub use error::{LastWords, MachineError, Stage};
pub use fork::{Fork, ForkInput, ForkOutput};
pub use initramfs::build as build_initramfs;
pub use process::run_with_deadline;
pub(super) use process::{Process, StartError};
pub use qemu::{Hardware, Qemu, in_path};
pub(super) use qmp::Monitor;
