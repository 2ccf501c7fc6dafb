//! Real-time priorities and locked memory: what measures is never late and never swapped.

use super::GuestError;
use super::error::system;
use rustix::mm::MlockAllFlags;
use std::io;

/// Priority of the sampler.
pub const SAMPLER: i32 = 30;
/// Priority of load clients.
pub const LOAD: i32 = 20;
/// Priority of the main thread.
pub const MAIN: i32 = 10;

/// Gives the calling thread SCHED_FIFO. What it forks is ordinary again (SCHED_RESET_ON_FORK).
///
/// # Errors
/// Without the right to do so.
pub fn become_realtime(priority: i32) -> Result<(), GuestError> {
    // SAFETY: all fields of the structure are plain numbers.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    // SAFETY: the structure outlives the call.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(system(format!("take the real-time priority {priority}"))(io::Error::last_os_error())) }
}

/// Keeps every page of this process in memory once it is used. Children do not inherit it.
///
/// # Errors
/// Without the right to do so.
pub fn never_swap() -> Result<(), GuestError> {
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    rustix::mm::mlockall(flags).map_err(|e| system("lock this process in memory")(e.into()))
}
