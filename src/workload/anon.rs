//! The allocator: anonymous memory of a size, filled, then held and touched in a pattern, or grown step by step; beside it, when asked for,
//! memory that is never touched again and a file in the page cache, so that one process has the shape of a captured one.

use super::files;
use super::memory::{Block, LINE, seed, split_mix};
use super::{Args, ArgsError, WorkloadError, signals, system};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What is touched after the memory was filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Everything, from the beginning to the end, again and again: the working set is the whole size.
    Hot,
    /// Nothing: memory that was needed once.
    Cold,
    /// Pages at random.
    Random,
}

/// Settings of `anon`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    size: usize,
    step: usize,
    every: Duration,
    pattern: Pattern,
    rate: usize,
    window: usize,
    zero: bool,
    hold: Option<Duration>,
    then_exit: i32,
    delay: Duration,
    cold: usize,
    file: Option<PathBuf>,
    make: Option<usize>,
}

impl Settings {
    /// `--size` `--pattern=hot|cold|random` `--rate` (bytes a second to touch) `--step --every` (grow instead of filling at once)
    /// `--window` (footprint cap: the same work in a part of the memory) `--fill=random|zero` `--delay` `--hold` `--exit`
    /// `--cold` (filled first and never touched again) `--file --make` (read once before the rest, so that it is page cache).
    pub(super) fn parse(mut args: Args) -> Result<Settings, ArgsError> {
        let size = args.required_size("size")?;
        let pattern = match args.word("pattern", &["hot", "cold", "random"])? {
            "hot" => Pattern::Hot,
            "cold" => Pattern::Cold,
            _ => Pattern::Random,
        };
        let settings = Settings {
            size,
            pattern,
            step: args.size("step")?.unwrap_or(size).max(1),
            every: args.duration("every")?.unwrap_or(Duration::from_secs(1)),
            rate: args.size("rate")?.unwrap_or(64 << 20).max(LINE),
            window: args.size("window")?.unwrap_or(size).max(1),
            zero: args.word("fill", &["random", "zero"])? == "zero",
            hold: args.duration("hold")?,
            then_exit: i32::try_from(args.number("exit", 0)?.unwrap_or(0) & 0xff).unwrap_or(0),
            delay: args.duration("delay")?.unwrap_or(Duration::ZERO),
            cold: args.size("cold")?.unwrap_or(0),
            file: args.text("file")?.map(PathBuf::from),
            make: args.size("make")?,
        };
        args.finish()?;
        Ok(settings)
    }
}

// Work is handed out in slices this long, so that a rate is kept without spinning.
const SLICE: Duration = Duration::from_millis(20);

/// Runs until the hold time is over, or for ever.
pub fn run(settings: &Settings) -> Result<(), WorkloadError> {
    signals::end_on_sigterm(143);
    sleep(settings.delay);
    let window = settings.window.min(settings.size);
    let mut block = Block::anonymous(window).map_err(system(format!("map {window} bytes")))?;
    let mut state = seed();
    let _file = settings.file.as_ref().map(|path| cached(path, settings.make)).transpose()?;
    let _cold = match settings.cold {
        0 => None,
        bytes => {
            let mut cold = Block::anonymous(bytes).map_err(system(format!("map {bytes} bytes")))?;
            fill(&mut cold, 0, bytes, settings.zero, &mut state);
            Some(cold)
        }
    };
    let begin = Instant::now();
    let mut filled = 0;
    let mut touched_until = begin;
    let mut at = 0;
    let mut full_since = None;
    loop {
        let now = Instant::now();
        let steps_due =
            usize::try_from(now.duration_since(begin).as_nanos() / settings.every.as_nanos().max(1)).unwrap_or(usize::MAX);
        let due = settings.step.saturating_mul(steps_due.saturating_add(1)).min(settings.size);
        if due > filled {
            fill(&mut block, filled, due - filled, settings.zero, &mut state);
            filled = due;
        }
        if filled == settings.size {
            let since = *full_since.get_or_insert_with(Instant::now);
            if settings.hold.is_some_and(|hold| since.elapsed() >= hold) {
                std::process::exit(settings.then_exit);
            }
        }
        if settings.pattern == Pattern::Cold {
            let next_step =
                (filled < settings.size).then(|| settings.every.saturating_mul(u32::try_from(steps_due + 1).unwrap_or(u32::MAX)));
            let hold_end = full_since.zip(settings.hold).map(|(since, hold)| since + hold);
            match next_step.map(|after| begin + after).or(hold_end) {
                Some(until) => sleep(until.saturating_duration_since(Instant::now())),
                None => loop {
                    std::thread::park();
                },
            }
            continue;
        }
        let owed = settings.rate as f64 * now.duration_since(touched_until).as_secs_f64();
        touched_until = now;
        touch(&block, filled.min(window), owed as usize, settings.pattern, &mut at, &mut state);
        sleep(SLICE.saturating_sub(now.elapsed()));
    }
}

/// Reads a file once and keeps it open.
fn cached(path: &std::path::Path, make: Option<usize>) -> Result<File, WorkloadError> {
    let file = files::open(path, make, seed())?;
    let mut piece = vec![0; 128 << 10];
    let mut at = 0;
    loop {
        match file.read_at(&mut piece, at).map_err(system(format!("read {}", path.display())))? {
            0 => return Ok(file),
            read => at += read as u64,
        }
    }
}

// The same bytes are written whatever the window is, so a placebo does the work without the footprint.
fn fill(block: &mut Block, from: usize, len: usize, zero: bool, state: &mut u64) {
    let mut done = 0;
    while done < len {
        let at = (from + done) % block.len();
        let part = (len - done).min(block.len() - at);
        if zero {
            block.fill_zero(at, part);
        } else {
            block.fill(at, part, split_mix(state));
        }
        done += part;
    }
}

fn touch(block: &Block, size: usize, owed: usize, pattern: Pattern, at: &mut usize, state: &mut u64) {
    const PAGE: usize = 4096;
    // At most once around: a workload that the node slowed down does not owe what it could not do.
    let mut left = owed.min(size);
    while left > 0 {
        if pattern == Pattern::Random {
            let page = split_mix(state) as usize % size.div_ceil(PAGE);
            block.touch(page * PAGE, PAGE);
            left = left.saturating_sub(PAGE);
        } else {
            let part = left.min(size - *at);
            block.touch(*at, part);
            *at = (*at + part) % size;
            left -= part;
        }
    }
}
