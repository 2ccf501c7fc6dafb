//! Two I/O ports by which the guest speaks to the machine it runs in: one pauses it, one ends it.

use std::io;

/// Port of QEMU's pvpanic device; bit 0 pauses the machine at this very instruction.
pub const PAUSE_PORT: u16 = 0x505;
/// Port of QEMU's isa-debug-exit device; any write ends the machine.
pub const END_PORT: u16 = 0xf4;
/// What the guest writes to [`END_PORT`] when its script ended. Any other end of the machine is a fault.
pub const END_VALUE: u8 = 0x2a;
/// Exit status of QEMU after [`END_VALUE`] was written.
pub const END_STATUS: i32 = ((END_VALUE as i32) << 1) | 1;

/// Pauses the machine; returns when the host lets it continue.
///
/// # Errors
/// Without the right to use ports (CAP_SYS_RAWIO), which PID 1 of the guest has.
pub fn pause() -> io::Result<()> {
    allow(PAUSE_PORT)?;
    // SAFETY: the write reaches a device of the virtual machine and touches no memory of this process.
    unsafe { std::arch::asm!("out dx, al", in("dx") PAUSE_PORT, in("al") 1u8, options(nostack, preserves_flags)) };
    Ok(())
}

/// Ends the machine at once. All output must have been published before.
///
/// # Errors
/// Without the right to use ports, or when this is not the machine Highwater started and so goes on.
pub fn end() -> io::Result<()> {
    allow(END_PORT)?;
    allow(PAUSE_PORT)?;
    // QEMU 7.2 exits within the first write. Newer ones only ask their main loop to, and the guest would run on for an unknown
    // time; the next instruction therefore pauses it.
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "out dx, al",
            "mov edx, {pause}",
            "mov al, 1",
            "out dx, al",
            pause = const PAUSE_PORT,
            inout("dx") END_PORT => _,
            inout("al") END_VALUE => _,
            options(nostack, preserves_flags)
        );
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "the machine has no exit device: it was not started by highwater"))
}

fn allow(port: u16) -> io::Result<()> {
    unsafe extern "C" {
        fn ioperm(from: std::ffi::c_ulong, count: std::ffi::c_ulong, turn_on: std::ffi::c_int) -> std::ffi::c_int;
    }
    // SAFETY: ioperm only changes which ports this thread may use.
    if unsafe { ioperm(port.into(), 1, 1) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
