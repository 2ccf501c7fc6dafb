//! Network and mount namespaces: each pod has a loopback of its own, each container its own view of mounts.

use super::GuestError;
use super::error::system;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;

const OWN: &str = "/proc/thread-self/ns/net";

/// A network namespace with its loopback up, kept by a file descriptor. A thread of PID 1 makes it, so its memory is not the pod's, as with
/// a container runtime.
#[derive(Debug)]
pub struct Network {
    namespace: OwnedFd,
}

impl Network {
    /// Makes one.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn create() -> Result<Network, GuestError> {
        let made = std::thread::spawn(|| -> io::Result<OwnedFd> {
            // SAFETY: a new network namespace for this thread changes nothing that other code relies on.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET)? };
            loopback_up()?;
            Ok(own()?)
        });
        let namespace = made.join().map_err(|_| GuestError::Panicked("network".to_owned()))?;
        namespace.map(|namespace| Network { namespace }).map_err(system("make a network namespace"))
    }

    /// The one that a process is in.
    ///
    /// # Errors
    /// There is no such process.
    pub fn of(pid: u32) -> io::Result<Network> {
        Ok(Network { namespace: std::fs::File::open(format!("/proc/{pid}/ns/net"))?.into() })
    }

    /// Moves the calling thread there for good.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// Does something there, for example opens a socket, and comes back.
    ///
    /// # Errors
    /// The kernel refuses, or `work` fails.
    pub fn within<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let home = own()?;
        self.enter()?;
        let result = work();
        move_into_link_name_space(home.as_fd(), Some(LinkNameSpaceType::Network))?;
        result
    }

    /// The descriptor, for a child to enter.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }
}

fn own() -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(OWN, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

fn loopback_up() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: all fields of the structure are plain numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l'.cast_signed();
    request.ifr_name[1] = b'o'.cast_signed();
    for (code, flag) in [(libc::SIOCGIFFLAGS, libc::IFF_UP), (libc::SIOCSIFFLAGS, 0)] {
        // SAFETY: the kernel reads and writes at most the structure, which outlives the call.
        if unsafe { libc::ioctl(socket.as_raw_fd(), code, &raw mut request) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both calls use the flags member of the union.
        unsafe { request.ifr_ifru.ifru_flags |= flag as libc::c_short };
    }
    Ok(())
}

/// Where a volume appears in a container.
#[derive(Debug, Clone)]
pub struct Bind {
    /// The directory on the node.
    pub from: CString,
    /// The directory in the container. Exists on the node too, empty.
    pub to: CString,
}

/// Gives the calling process its own view of mounts and binds volumes into it. Between fork and exec: no allocation.
///
/// # Errors
/// The kernel refuses.
pub fn bind_volumes(binds: &[Bind]) -> rustix::io::Result<()> {
    // SAFETY: called in a child that has one thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS)? };
    rustix::mount::mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    for bind in binds {
        rustix::mount::mount_bind(bind.from.as_c_str(), bind.to.as_c_str())?;
    }
    Ok(())
}

/// Mounts a tmpfs for a memory-backed volume. `noswap` (kernel 6.4) is asked for as the kubelet does when the node swaps; an older kernel
/// refuses it and gets it without.
///
/// # Errors
/// The kernel refuses.
pub fn mount_memory(at: &str, size: Option<u64>, noswap: bool) -> io::Result<()> {
    let size = size.map_or(String::new(), |bytes| format!("size={bytes}"));
    let attempt = |options: String| {
        let options = CString::new(options)?;
        rustix::mount::mount("tmpfs", at, "tmpfs", MountFlags::empty(), Some(options.as_c_str())).map_err(io::Error::from)
    };
    let with_noswap = if size.is_empty() { "noswap".to_owned() } else { format!("{size},noswap") };
    if noswap && attempt(with_noswap).is_ok() { Ok(()) } else { attempt(size) }
}
