//! A device: what is allocated in it and how long it was busy.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// An allocation that the device's memory does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the modelled GPU has {free} bytes free, {what} needs {wanted}: give it more with --vram or the {what} less")]
pub struct OutOfMemory {
    what: &'static str,
    wanted: u64,
    free: u64,
}

/// The modelled device.
#[derive(Debug)]
pub struct Device {
    total: u64,
    used: Vec<(&'static str, u64)>,
    busy: Duration,
}

impl Device {
    /// A device with this many bytes of memory.
    pub fn new(total: u64) -> Device {
        Device { total, used: Vec::new(), busy: Duration::ZERO }
    }

    /// Bytes of memory.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Bytes allocated.
    pub fn used(&self) -> u64 {
        self.used.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Accounts for an allocation that lasts as long as the device.
    ///
    /// # Errors
    /// There is no room.
    pub fn allocate(&mut self, what: &'static str, bytes: u64) -> Result<(), OutOfMemory> {
        let free = self.total - self.used();
        if bytes > free {
            return Err(OutOfMemory { what, wanted: bytes, free });
        }
        self.used.push((what, bytes));
        Ok(())
    }

    /// Runs a kernel of this length that began at `since`: the calling thread sleeps what is left of it, and the device was busy. What the
    /// host takes longer (a late wake-up, a page that had to come back) is no busy time, so a starved host shows as a device that waits.
    pub fn run(&mut self, kernel: Duration, since: Instant) {
        rest(kernel, since);
        self.busy += kernel;
    }

    /// Sum of all kernels so far.
    pub fn busy(&self) -> Duration {
        self.busy
    }
}

/// Sleeps what is left of a transfer's time after the host's part of it: a host that is slower than the link decides.
pub fn rest(transfer: Duration, since: Instant) {
    sleep(transfer.saturating_sub(since.elapsed()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_accounted_and_refused_by_name() {
        let mut device = Device::new(100);
        device.allocate("weights", 60).unwrap();
        let refused = device.allocate("KV cache", 41).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the modelled GPU has 40 bytes free, KV cache needs 41: give it more with --vram or the KV cache less"
        );
        device.allocate("KV cache", 40).unwrap();
        assert_eq!((device.used(), device.total()), (100, 100));
    }

    #[test]
    fn only_kernels_are_busy_time() {
        let mut device = Device::new(0);
        let before = Instant::now();
        device.run(Duration::from_millis(2), before);
        rest(Duration::from_millis(3), before);
        assert!(before.elapsed() >= Duration::from_millis(3));
        assert_eq!(device.busy(), Duration::from_millis(2));
    }
}
