//! The offload neighbour: a pool on the host for what a GPU does not hold, written and read at a rate, pinned or not.

use super::gpu::{Link, rest};
use super::latency::Latency;
use super::memory::{Block, seed, split_mix};
use super::report::{self, Line};
use super::{Args, ArgsError, WorkloadError, signals, system};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Settings of `offload`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    per_gpu: usize,
    gpus: usize,
    pinned: bool,
    transfer: usize,
    every: Duration,
    link: Link,
    report_every: Duration,
}

impl Settings {
    /// `--per-gpu` (pool bytes) `--gpus` (1) · `--pinned=off|on` · `--transfer` (bytes moved to a random place and read from another, 1Mi)
    /// `--every` (100ms) · `--link` (bytes a second, 25G) · `--report-every` (1s).
    pub(super) fn parse(mut args: Args) -> Result<Settings, ArgsError> {
        let settings = Settings {
            per_gpu: args.required_size("per-gpu")?,
            gpus: args.number("gpus", 1)?.map_or(1, |n| usize::try_from(n).unwrap_or(usize::MAX)),
            pinned: args.word("pinned", &["off", "on"])? == "on",
            transfer: args.size("transfer")?.unwrap_or(1 << 20).max(1),
            every: args.duration("every")?.unwrap_or(Duration::from_millis(100)),
            link: Link { bytes_per_s: args.size("link")?.unwrap_or(25_000_000_000).max(1) as u64 },
            report_every: args.duration("report-every")?.unwrap_or(Duration::from_secs(1)),
        };
        args.finish()?;
        Ok(settings)
    }
}

/// Moves until it is ended. With a pool of 0 it only waits.
///
/// # Errors
/// The system refuses the memory, or to pin it.
pub fn run(settings: &Settings) -> Result<(), WorkloadError> {
    signals::end_on_sigterm(143);
    let len = settings.per_gpu.saturating_mul(settings.gpus);
    if len == 0 {
        loop {
            std::thread::park();
        }
    }
    let mut pool = Block::anonymous(len).map_err(system(format!("map a pool of {len} bytes")))?;
    if settings.pinned {
        pool.pin().map_err(system(format!("pin a pool of {len} bytes")))?;
    }
    let mut random = seed();
    pool.fill(0, len, random);
    let transfer = settings.transfer.min(pool.len());
    let mut device = Block::anonymous(transfer).map_err(system("map a staging buffer"))?;
    device.fill(0, transfer, random);
    let latency = Arc::new(Mutex::new(Latency::new()));
    let begin = Instant::now();
    report::every(settings.report_every, {
        let latency = Arc::clone(&latency);
        move || {
            let latency = latency.lock().unwrap_or_else(PoisonError::into_inner);
            let moved = latency.count() * 2 * transfer as u64;
            latency.add_to(Line::new(begin.elapsed()).count("moved_bytes", moved), "transfer").print();
        }
    })?;
    let places = pool.len().div_ceil(transfer);
    for number in 0u32.. {
        sleep((begin + settings.every.saturating_mul(number)).saturating_duration_since(Instant::now()));
        let started = Instant::now();
        pool.copy(split_mix(&mut random) as usize % places * transfer, &device, 0, transfer);
        pool.touch(split_mix(&mut random) as usize % places * transfer, transfer);
        rest(settings.link.time(2 * transfer as u64), started);
        latency.lock().unwrap_or_else(PoisonError::into_inner).record(started.elapsed());
    }
    Ok(())
}
