//! Stops the wall clock of QEMU: not a module, but a library preloaded into it, which makes `gettimeofday` answer always the same.
//!
//! QEMU resizes its software TLB by this clock (a window of 100 ms in `tlb_mmu_resize_locked`). What the TLB holds decides when a page's
//! accessed bit is set again after the kernel cleared it, and reclaim reads that bit: under memory pressure equal runs drifted apart by the
//! host's speed. With a clock that stands still the TLB only grows, by what the guest does. Nothing else of ours reads this clock in
//! QEMU: the guest's clocks count instructions, and its waits use the monotonic clock.
#![no_std]

/// 2026-01-01T00:00:00Z, the start of the guest's clock.
const NOW: [i64; 2] = [1_767_225_600, 0];

/// # Safety
/// `now` is null or points to a `struct timeval`, as the C library's function demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(now: *mut [i64; 2], _zone: *mut u8) -> i32 {
    if !now.is_null() {
        // SAFETY: the caller's promise.
        unsafe { now.write(NOW) };
    }
    0
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
