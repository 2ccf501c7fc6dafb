//! SIGTERM: the first process of a container's PID namespace ignores it unless it asks for it.

use std::sync::atomic::{AtomicI32, Ordering};

static STATUS: AtomicI32 = AtomicI32::new(0);

extern "C" fn end(_signal: libc::c_int) {
    // SAFETY: _exit is async-signal-safe.
    unsafe { libc::_exit(STATUS.load(Ordering::Relaxed)) }
}

/// Ends the process with `status` when SIGTERM comes.
pub fn end_on_sigterm(status: i32) {
    STATUS.store(status, Ordering::Relaxed);
    let handler: extern "C" fn(libc::c_int) = end;
    // SAFETY: the handler only loads an atomic and calls _exit.
    unsafe { libc::signal(libc::SIGTERM, handler as libc::sighandler_t) };
}
