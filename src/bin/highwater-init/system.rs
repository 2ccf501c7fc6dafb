//! Mounts, modules, the loopback interface and the PCI device of the shared memory.

use crate::named;
use highwater::record::shm::{PCI_DEVICE, PCI_VENDOR};
use rustix::mount::MountFlags;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

pub fn mount_basics() -> io::Result<()> {
    for (kind, at) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        fs::create_dir_all(at).map_err(named(at))?;
        mount(kind, at, kind, "")?;
    }
    Ok(())
}

pub fn mount(source: &str, at: &str, kind: &str, options: &str) -> io::Result<()> {
    let options = CString::new(options)?;
    rustix::mount::mount(source, at, kind, MountFlags::empty(), Some(options.as_c_str()))
        .map_err(|e| named(&format!("cannot mount {kind} on {at}"))(e.into()))
}

pub fn load_module(path: &str, compressed: bool) -> io::Result<()> {
    // MODULE_INIT_COMPRESSED_FILE: the kernel unpacks the file itself.
    let flags = if compressed { 4 } else { 0 };
    // The devices are made one by one later; by default null_blk would make one at once.
    let parameters = if path.contains("null_blk") { c"nr_devices=0" } else { c"" };
    let file = fs::File::open(path).map_err(named(path))?;
    rustix::system::finit_module(&file, parameters, flags).map_err(|e| named(&format!("cannot load {path}"))(e.into()))
}

pub fn loopback_up() -> io::Result<()> {
    // struct ifreq: the interface's name, then the flags, in 40 bytes.
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        flags: i16,
        rest: [u8; 22],
    }
    const SIOCGIFFLAGS: u64 = 0x8913;
    const SIOCSIFFLAGS: u64 = 0x8914;
    const IFF_UP: i16 = 1;
    unsafe extern "C" {
        fn ioctl(fd: i32, request: u64, argument: *mut Request) -> i32;
    }
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    let mut request = Request { name: [0; 16], flags: 0, rest: [0; 22] };
    request.name[..2].copy_from_slice(b"lo");
    for code in [SIOCGIFFLAGS, SIOCSIFFLAGS] {
        // SAFETY: the kernel reads and writes at most the 40 bytes of the request, which outlives the call.
        if unsafe { ioctl(socket.as_raw_fd(), code, &mut request) } != 0 {
            return Err(named("cannot bring lo up")(io::Error::last_os_error()));
        }
        request.flags |= IFF_UP;
    }
    Ok(())
}

/// Path of the file that maps the shared memory.
pub fn shared_memory() -> io::Result<String> {
    let devices = "/sys/bus/pci/devices";
    for entry in fs::read_dir(devices).map_err(named(devices))? {
        let path = entry?.path();
        let is = |file: &str, id: u16| fs::read_to_string(path.join(file)).is_ok_and(|t| t.trim() == format!("{id:#06x}"));
        if is("vendor", PCI_VENDOR) && is("device", PCI_DEVICE) {
            fs::write(path.join("enable"), "1").map_err(named("cannot enable the shared memory device"))?;
            return Ok(path.join("resource2").to_string_lossy().into_owned());
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, "no PCI device carries the shared memory"))
}

pub fn kernel_release() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned())
}

pub fn uptime_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let since_boot = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
    since_boot.as_nanos() as u64
}
