//! Loaders: workers that each read a whole checkpoint, mapped or with read(2), from disk or from the page cache.

use super::files;
use super::memory::{Block, seed};
use super::report::Line;
use super::{Args, ArgsError, WorkloadError, signals, system};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    // Lazily, through a mapping: the pages are page cache, which can be reclaimed.
    Mapped,
    // The whole file into anonymous memory, as `eager` loading and torch.load do.
    Read,
    // Through one buffer of a piece's size.
    Chunked,
}

/// Settings of `loader`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    file: PathBuf,
    make: Option<usize>,
    mode: Mode,
    workers: usize,
    passes: u64,
    cold: bool,
    hold: Option<Duration>,
}

impl Settings {
    /// `--file` `--make` (its size; it is made when it is not there) · `--mode=mmap|read|chunked` · `--workers` (tensor-parallel ranks, each
    /// reads everything, 1) · `--passes` (1) · `--cache=cold|warm` (before each pass) · `--hold` (after the last; for ever without it).
    pub(super) fn parse(mut args: Args) -> Result<Settings, ArgsError> {
        let settings = Settings {
            file: args.required_text("file")?.into(),
            make: args.size("make")?,
            mode: match args.word("mode", &["mmap", "read", "chunked"])? {
                "mmap" => Mode::Mapped,
                "read" => Mode::Read,
                _ => Mode::Chunked,
            },
            workers: args.number("workers", 1)?.map_or(1, |n| usize::try_from(n).unwrap_or(usize::MAX)),
            passes: args.number("passes", 1)?.unwrap_or(1),
            cold: args.word("cache", &["cold", "warm"])? == "cold",
            hold: args.duration("hold")?,
        };
        args.finish()?;
        Ok(settings)
    }
}

const CHUNK: usize = 4 << 20;

/// Loads, keeps what was loaded, and ends with 0 after the hold time.
///
/// # Errors
/// The file cannot be read, or memory not mapped.
pub fn run(settings: &Settings) -> Result<(), WorkloadError> {
    signals::end_on_sigterm(143);
    let file = files::open(&settings.file, settings.make, seed())?;
    let reading = || format!("read {}", settings.file.display());
    let size = file.metadata().map_err(system(reading()))?.len() as usize;
    let begin = Instant::now();
    let mut kept = Vec::new();
    for pass in 1..=settings.passes {
        kept.clear();
        if settings.cold {
            files::forget(&file).map_err(system(reading()))?;
        }
        let started = Instant::now();
        let results = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..settings.workers).map(|_| scope.spawn(|| load(&file, size, settings.mode))).collect();
            workers.into_iter().map(|worker| worker.join().expect("a loader does not panic")).collect::<Vec<_>>()
        });
        for result in results {
            kept.extend(result.map_err(system(reading()))?);
        }
        let bytes = (size as u64).saturating_mul(settings.workers as u64);
        Line::new(begin.elapsed())
            .count("passes", pass)
            .count("pass_bytes", bytes)
            .micros("pass_us", started.elapsed().as_nanos() as u64)
            .print();
    }
    match settings.hold {
        Some(hold) => std::thread::sleep(hold),
        None => loop {
            std::thread::park();
        },
    }
    drop(kept);
    Ok(())
}

fn load(file: &File, size: usize, mode: Mode) -> std::io::Result<Option<Block>> {
    if mode == Mode::Mapped {
        let mapped = Block::of_file(file)?;
        if let Some(mapped) = &mapped {
            mapped.touch(0, size);
        }
        return Ok(mapped);
    }
    let mut memory = Block::anonymous(if mode == Mode::Read { size } else { CHUNK.min(size) })?;
    let mut done = 0;
    while done < size {
        let part = CHUNK.min(size - done);
        let at = if mode == Mode::Read { done } else { 0 };
        file.read_exact_at(memory.bytes_mut(at, part), done as u64)?;
        done += part;
    }
    Ok((mode == Mode::Read).then_some(memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_reads_the_whole_file() {
        let path = std::env::temp_dir().join(format!("highwater-loader-{}", std::process::id()));
        let file = files::open(&path, Some(CHUNK + 5000), 1).unwrap();
        let content = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let read = load(&file, content.len(), Mode::Read).unwrap().unwrap();
        assert!(read.bytes(0, content.len()) == content);
        let mapped = load(&file, content.len(), Mode::Mapped).unwrap().unwrap();
        assert!(mapped.bytes(0, content.len()) == content);
        assert!(load(&file, content.len(), Mode::Chunked).unwrap().is_none(), "nothing is kept");
    }
}
