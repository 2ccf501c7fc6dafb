//! The hog: grows at a rate and never gives back, as a leaking or unlimited neighbour does.

use super::memory::{Block, seed};
use super::report::{self, Line};
use super::{Args, ArgsError, WorkloadError, signals, system};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Settings of `hog`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    rate: usize,
    most: Option<usize>,
    window: Option<usize>,
    delay: Duration,
    report_every: Duration,
}

impl Settings {
    /// `--rate` (bytes a second it grows) · `--max` (then it holds; without it only the kernel stops it) · `--window` (the placebo: the same
    /// writes into so much memory) · `--delay` · `--report-every` (1s).
    pub(super) fn parse(mut args: Args) -> Result<Settings, ArgsError> {
        let settings = Settings {
            rate: args.required_size("rate")?.max(1),
            most: args.size("max")?,
            window: args.size("window")?,
            delay: args.duration("delay")?.unwrap_or(Duration::ZERO),
            report_every: args.duration("report-every")?.unwrap_or(Duration::from_secs(1)),
        };
        args.finish()?;
        Ok(settings)
    }
}

const TICK: Duration = Duration::from_millis(20);

/// Grows until it is ended. It does not owe what it could not write in time, so pressure slows it down.
///
/// # Errors
/// The system has no address space left.
pub fn run(settings: &Settings) -> Result<(), WorkloadError> {
    signals::end_on_sigterm(143);
    sleep(settings.delay);
    let grown = Arc::new(AtomicU64::new(0));
    let begin = Instant::now();
    report::every(settings.report_every, {
        let grown = Arc::clone(&grown);
        move || Line::new(begin.elapsed()).count("grown_bytes", grown.load(Ordering::Relaxed)).print()
    })?;
    let piece = (settings.rate as f64 * TICK.as_secs_f64()) as usize;
    let piece = piece.max(1).next_multiple_of(4096);
    let per_piece = Duration::from_secs_f64(piece as f64 / settings.rate as f64);
    let mut pieces: Vec<Block> = Vec::new();
    for number in 0u64.. {
        let written = number.saturating_mul(piece as u64);
        if settings.most.is_some_and(|most| written >= most as u64) {
            break;
        }
        let tick = Instant::now();
        if settings.window.is_some_and(|window| pieces.len() * piece >= window) {
            let at = number as usize % pieces.len();
            pieces[at].fill(0, piece, seed().wrapping_add(number));
        } else {
            let mut block = Block::anonymous(piece).map_err(system(format!("map {piece} bytes")))?;
            block.fill(0, piece, seed().wrapping_add(number));
            pieces.push(block);
        }
        grown.store(written + piece as u64, Ordering::Relaxed);
        sleep(per_piece.saturating_sub(tick.elapsed()));
    }
    loop {
        std::thread::park();
    }
}
