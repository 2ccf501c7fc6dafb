//! The offload neighbour: a pool on the host for what a GPU does not hold, and the transfers between it and the GPU through pinned buffers.
//!
//! The pool is the footprint and is 0 unless asked for. Transfers and buffers are the same whatever its size, so a pool of 0 is the placebo.

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
    /// `--per-gpu` (pool bytes, 0) `--gpus` (1) · `--pinned=off|on` (the pool) · `--transfer` (bytes moved to a random place of the pool and
    /// read from another, through pinned buffers of this size, 1Mi) `--every` (100ms) · `--link` (bytes a second, 25G) · `--report-every` (1s).
    pub(super) fn parse(mut args: Args) -> Result<Settings, ArgsError> {
        let settings = Settings {
            per_gpu: args.size("per-gpu")?.unwrap_or(0),
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

/// Moves until it is ended.
///
/// # Errors
/// The system refuses the memory, or to pin it.
pub fn run(settings: &Settings) -> Result<(), WorkloadError> {
    signals::end_on_sigterm(143);
    let len = settings.per_gpu.saturating_mul(settings.gpus);
    let mut random = seed();
    let block = |len: usize, pinned: bool, what: &str| -> Result<Block, WorkloadError> {
        let mut block = Block::anonymous(len).map_err(system(format!("map {what} of {len} bytes")))?;
        if pinned {
            block.pin().map_err(system(format!("pin {what} of {len} bytes")))?;
        }
        block.fill(0, len, random);
        Ok(block)
    };
    let transfer = if len == 0 { settings.transfer } else { settings.transfer.min(len) };
    let (outgoing, mut incoming) = (block(transfer, true, "a buffer")?, block(transfer, true, "a buffer")?);
    let mut pool = (len > 0).then(|| block(len, settings.pinned, "a pool")).transpose()?;
    let places = len.div_ceil(transfer).max(1);
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
    for number in 0u32.. {
        sleep((begin + settings.every.saturating_mul(number)).saturating_duration_since(Instant::now()));
        let started = Instant::now();
        let [to, from] = [(); 2].map(|()| split_mix(&mut random) as usize % places * transfer);
        match &mut pool {
            Some(pool) => {
                pool.copy(to, &outgoing, 0, transfer);
                incoming.copy(0, pool, from, transfer);
            }
            // The same bytes go from buffer to buffer.
            None => [(); 2].into_iter().for_each(|()| incoming.copy(0, &outgoing, 0, transfer)),
        }
        rest(settings.link.time(2 * transfer as u64), started);
        latency.lock().unwrap_or_else(PoisonError::into_inner).record(started.elapsed());
    }
    Ok(())
}
