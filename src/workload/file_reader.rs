//! The file reader: reads a file at a rate, again and again, and so fills the page cache.

use super::files;
use super::memory::{Block, seed, split_mix};
use super::report::{self, Line};
use super::{Args, ArgsError, WorkloadError, signals, system};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Settings of `file-reader`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    file: PathBuf,
    make: Option<usize>,
    random: bool,
    rate: usize,
    chunk: usize,
    window: Option<usize>,
    report_every: Duration,
}

impl Settings {
    /// `--file` `--make` (its size; it is made when it is not there) · `--pattern=sequential|random` · `--rate` (bytes a second, 64Mi) ·
    /// `--chunk` (bytes a read, 128Ki) · `--window` (the placebo: the same reads, within so much of the file) · `--report-every` (1s).
    pub(super) fn parse(mut args: Args) -> Result<Settings, ArgsError> {
        let settings = Settings {
            file: args.required_text("file")?.into(),
            make: args.size("make")?,
            random: args.word("pattern", &["sequential", "random"])? == "random",
            rate: args.size("rate")?.unwrap_or(64 << 20).max(1),
            chunk: args.size("chunk")?.unwrap_or(128 << 10).max(1),
            window: args.size("window")?,
            report_every: args.duration("report-every")?.unwrap_or(Duration::from_secs(1)),
        };
        args.finish()?;
        Ok(settings)
    }
}

/// Reads until it is ended. It does not owe what it could not read in time.
///
/// # Errors
/// The file cannot be read.
pub fn run(settings: &Settings) -> Result<(), WorkloadError> {
    signals::end_on_sigterm(143);
    let file = files::open(&settings.file, settings.make, seed())?;
    let reading = || format!("read {}", settings.file.display());
    let size = file.metadata().map_err(system(reading()))?.len();
    let size = settings.window.map_or(size, |window| size.min(window as u64));
    let done = Arc::new(AtomicU64::new(0));
    let begin = Instant::now();
    report::every(settings.report_every, {
        let done = Arc::clone(&done);
        move || Line::new(begin.elapsed()).count("read_bytes", done.load(Ordering::Relaxed)).print()
    })?;
    let mut buffer = Block::anonymous(settings.chunk).map_err(system("map a buffer"))?;
    let pause = Duration::from_secs_f64(settings.chunk as f64 / settings.rate as f64);
    let chunks = size.div_ceil(settings.chunk as u64).max(1);
    let mut random = seed();
    for number in 0u64.. {
        let started = Instant::now();
        let chunk = if settings.random { split_mix(&mut random) } else { number } % chunks;
        let read = file.read_at(buffer.bytes_mut(0, settings.chunk), chunk * settings.chunk as u64).map_err(system(reading()))?;
        done.fetch_add(read as u64, Ordering::Relaxed);
        sleep(pause.saturating_sub(started.elapsed()));
    }
    Ok(())
}
