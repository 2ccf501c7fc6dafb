//! Before the first cgroup: kernel settings and swap.

use super::GuestError;
use super::error::system;
use crate::record::{Order, SwapOn};
use std::ffi::CString;
use std::io;

const SWAP_FLAG_PREFER: i32 = 0x8000;

/// Applies the order's settings and switches its swap devices on.
///
/// # Errors
/// A setting or device that the kernel does not take: the node would not be the one the lab asked for.
pub fn prepare(order: &Order) -> Result<(), GuestError> {
    for setting in &order.settings {
        let what = || format!("write {:?} to {}", setting.value, setting.path);
        if !["/proc/sys/", "/sys/"].iter().any(|root| setting.path.starts_with(root)) {
            return Err(system(what())(io::Error::other("settings are below /proc/sys and /sys only")));
        }
        std::fs::write(&setting.path, &setting.value).map_err(system(what()))?;
    }
    order.swap.iter().try_for_each(swap_on)
}

fn swap_on(swap: &SwapOn) -> Result<(), GuestError> {
    let path = format!("/dev/{}", swap.device);
    let fail = system(format!("switch swap on {path} on"));
    let Ok(name) = CString::new(path) else { return Err(fail(io::Error::other("its name holds a NUL"))) };
    let flags = swap.priority.map_or(0, |priority| SWAP_FLAG_PREFER | i32::from(priority & 0x7fff));
    // SAFETY: the name is a C string that outlives the call.
    if unsafe { libc::swapon(name.as_ptr(), flags) } == 0 { Ok(()) } else { Err(fail(io::Error::last_os_error())) }
}
