//! The pause process: holds a pod's sandbox and does nothing until it is told to end.

/// Waits for a signal. SIGTERM ends the process with status 0, as Kubernetes' own pause does.
pub fn run() {
    super::signals::end_on_sigterm(0);
    loop {
        // An interruption by a signal that does not end the process is no reason to leave.
        rustix::event::pause();
    }
}
