//! Ctrl-C and its relatives: whoever waits for a child sees it end, and then asks here why.

use rustix::process::{Pid, Signal, kill_process_group};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);
static GROUPS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Ends all children with SIGKILL, now and any that start later. Their waits return, find [`requested`] and clean up as after any error.
pub fn request() {
    REQUESTED.store(true, Ordering::SeqCst);
    for group in GROUPS.lock().expect("no panic while held").iter() {
        // A child that has already ended is not an error.
        _ = kill_process_group(*group, Signal::KILL);
    }
}

/// True once the user asked to stop.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// Makes SIGINT, SIGTERM and SIGHUP call [`request`]; a second one ends the process at once, and `highwater clean` finds what is left.
///
/// # Errors
/// When no thread can be started.
pub fn listen() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let signals = runtime.block_on(async {
        std::io::Result::Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?))
    });
    let (mut interrupt, mut terminate, mut hangup) = signals?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                if requested() {
                    std::process::exit(130);
                }
                request();
            }
        });
    })?;
    Ok(())
}

/// Puts a child's process group under [`request`]; [`forget`] it before its pid is reaped.
pub(super) fn register(group: Pid) {
    GROUPS.lock().expect("no panic while held").push(group);
    if requested() {
        _ = kill_process_group(group, Signal::KILL);
    }
}

pub(super) fn forget(group: Pid) {
    GROUPS.lock().expect("no panic while held").retain(|g| *g != group);
}
