//! Loaders: tensor-parallel ranks, each a process, that each walk a whole safetensors checkpoint, as serving frameworks load it.
//!
//! With every pass the report says what the page cache held before (`found_bytes` of `checkpoint_bytes`), how long it took (`load_us`) and
//! what was read from the device (`device_bytes`), so a figure is never without the state of the cache it was measured in.

use super::files;
use super::memory::{Block, seed};
use super::report::Line;
use super::safetensors::{self, Make, Shard};
use super::{Args, ArgsError, WorkloadError, signals, system};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    // Tensor by tensor through a mapping: the pages are page cache, which can be reclaimed.
    Mapped,
    // A whole shard into anonymous memory, as `eager` loading does: at most one shard at a time.
    Read,
    // Through one buffer of a chunk's size.
    Chunked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cache {
    AsFound,
    Cold,
    Warm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefetch {
    No,
    // The kernel is asked to read each tensor before it is walked.
    WillNeed,
    // A thread reads into the page cache, each rank its share of the files.
    Read,
}

/// Settings of `loader`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    checkpoint: PathBuf,
    make: Option<Make>,
    mode: Mode,
    ranks: usize,
    passes: u64,
    cache: Cache,
    prefetch: Prefetch,
    drop_behind: bool,
    keep: bool,
    chunk: usize,
    hold: Option<Duration>,
    rank: Option<usize>,
}

impl Settings {
    /// `--checkpoint` (a directory) · `--make` (bytes; written when there is none) `--shards` (4) `--tensor` (bytes of one, 256Ki) ·
    /// `--mode=mmap|read|chunked` `--chunk` (4Mi) · `--ranks` (processes, each reads everything, 1) · `--passes` (1, 0 only makes it) ·
    /// `--cache=as-found|cold|warm` (before each pass) · `--prefetch=no|willneed|read` · `--drop-behind=off|on` (what was read leaves the page
    /// cache: each chunk, or each shard that was mapped) · `--keep=off|on` (read or mapped weights stay, as without a GPU) · `--hold` (after
    /// the last pass; for ever without it). `--rank` is what the loader gives its own processes.
    pub(super) fn parse(mut args: Args) -> Result<Settings, ArgsError> {
        let count = |number: Option<u64>, or| number.map_or(or, |n| usize::try_from(n).unwrap_or(usize::MAX));
        let (shards, tensor) = (count(args.number("shards", 1)?, 4), args.size("tensor")?.unwrap_or(256 << 10));
        let settings = Settings {
            checkpoint: args.required_text("checkpoint")?.into(),
            make: args.size("make")?.map(|bytes| Make { bytes, shards, tensor }),
            mode: match args.word("mode", &["mmap", "read", "chunked"])? {
                "mmap" => Mode::Mapped,
                "read" => Mode::Read,
                _ => Mode::Chunked,
            },
            ranks: count(args.number("ranks", 1)?, 1),
            passes: args.number("passes", 0)?.unwrap_or(1),
            cache: match args.word("cache", &["as-found", "cold", "warm"])? {
                "cold" => Cache::Cold,
                "warm" => Cache::Warm,
                _ => Cache::AsFound,
            },
            prefetch: match args.word("prefetch", &["no", "willneed", "read"])? {
                "willneed" => Prefetch::WillNeed,
                "read" => Prefetch::Read,
                _ => Prefetch::No,
            },
            drop_behind: args.word("drop-behind", &["off", "on"])? == "on",
            keep: args.word("keep", &["off", "on"])? == "on",
            chunk: args.size("chunk")?.unwrap_or(4 << 20).max(4096),
            hold: args.duration("hold")?,
            rank: args.number("rank", 0)?.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
        };
        args.finish()?;
        Ok(settings)
    }
}

// The kernel reads at most about this much for one advice, and forgets the rest.
const ADVICE: u64 = 128 << 10;

/// Loads, keeps what is to be kept, and ends with 0 after the hold time. `arguments` are those that the settings were read from.
///
/// # Errors
/// The checkpoint cannot be made or read, or a rank ended before it was done.
pub fn run(settings: &Settings, arguments: &[String]) -> Result<(), WorkloadError> {
    if let Some(rank) = settings.rank {
        return serve_as_rank(settings, rank);
    }
    signals::end_on_sigterm(143);
    if let Some(make) = settings.make {
        safetensors::make(&settings.checkpoint, make, seed())?;
    }
    let begin = Instant::now();
    let reading = || format!("read {}", settings.checkpoint.display());
    let mut ranks = Vec::new();
    for pass in 1..=settings.passes {
        ranks.clear();
        let shards = safetensors::open(&settings.checkpoint)?;
        let found = prepare(&shards, settings).map_err(system(reading()))?;
        let started = Instant::now();
        ranks = (0..settings.ranks).map(|rank| Rank::start(arguments, rank)).collect::<Result<Vec<_>, _>>()?;
        let mut device = 0;
        for rank in &mut ranks {
            device += rank.loaded()?;
        }
        let elapsed = started.elapsed().as_nanos() as u64;
        let size: usize = shards.iter().map(|shard| shard.len).sum();
        Line::new(begin.elapsed())
            .count("passes", pass)
            .count("ranks", settings.ranks as u64)
            .count("checkpoint_bytes", size as u64)
            .count("found_bytes", found)
            .micros("load_us", elapsed)
            .count("device_bytes", device)
            .print();
    }
    match settings.hold {
        Some(hold) => std::thread::sleep(hold),
        None => loop {
            std::thread::park();
        },
    }
    drop(ranks);
    Ok(())
}

// Brings the page cache into the state that is asked for, and says how many bytes of the checkpoint are in it.
fn prepare(shards: &[Shard], settings: &Settings) -> io::Result<u64> {
    let mut found = 0;
    for shard in shards {
        match settings.cache {
            Cache::AsFound => {}
            Cache::Cold => files::forget(&shard.file)?,
            Cache::Warm => read_through(&shard.file, shard.len, settings.chunk, false)?,
        }
        found += Block::of_file(&shard.file)?.map_or(Ok(0), |mapped| mapped.resident())?;
    }
    Ok(found)
}

// A rank: a process of its own, as the workers of serving frameworks are. Closing its input ends it and frees what it keeps.
#[derive(Debug)]
struct Rank {
    child: Child,
    number: usize,
}

impl Rank {
    fn start(arguments: &[String], number: usize) -> Result<Rank, WorkloadError> {
        let start = || {
            Command::new(std::env::current_exe()?)
                .args(arguments)
                .arg(format!("--rank={number}"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
        };
        start().map(|child| Rank { child, number }).map_err(system(format!("start rank {number}")))
    }

    // Waits until it has loaded; returns the bytes it read from the device.
    fn loaded(&mut self) -> Result<u64, WorkloadError> {
        let mut line = String::new();
        if let Some(output) = &mut self.child.stdout {
            BufReader::new(output).read_line(&mut line).map_err(system(format!("hear rank {}", self.number)))?;
        }
        let bytes = line.trim().strip_prefix("loaded ").and_then(|bytes| bytes.parse().ok());
        let problem = || format!("rank {} ended before it had loaded", self.number);
        bytes.ok_or_else(|| WorkloadError::Unfit { workload: "loader", problem: problem() })
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        _ = self.child.wait();
    }
}

fn serve_as_rank(settings: &Settings, rank: usize) -> Result<(), WorkloadError> {
    // SAFETY: only asks that this process does not outlive the one that started it.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let loading = |what: io::Error| system(format!("load {} as rank {rank}", settings.checkpoint.display()))(what);
    let shards = safetensors::open(&settings.checkpoint)?;
    let kept = std::thread::scope(|scope| {
        let mut mine = shards.iter().skip(rank).step_by(settings.ranks.max(1));
        let fetch = move || mine.try_for_each(|shard| read_through(&shard.file, shard.len, settings.chunk, false));
        let ahead = (settings.prefetch == Prefetch::Read).then(|| scope.spawn(fetch));
        let kept = shards.iter().map(|shard| load(shard, settings)).collect::<io::Result<Vec<_>>>()?;
        ahead.map_or(Ok(()), |ahead| ahead.join().expect("reading does not panic"))?;
        Ok(kept)
    })
    .map_err(loading)?;
    let device = device_bytes().map_err(system("read /proc/self/io"))?;
    let mut output = io::stdout().lock();
    writeln!(output, "loaded {device}").and_then(|()| output.flush()).map_err(loading)?;
    // Nothing comes; the end of input does.
    _ = io::stdin().read(&mut [0]);
    drop(kept);
    Ok(())
}

fn load(shard: &Shard, settings: &Settings) -> io::Result<Option<Block>> {
    let loaded = match settings.mode {
        Mode::Mapped => {
            let mapped = Block::of_file(&shard.file)?;
            for tensor in &shard.tensors {
                if settings.prefetch == Prefetch::WillNeed {
                    files::will_need(&shard.file, tensor.begin, tensor.len, ADVICE)?;
                }
                if let Some(mapped) = &mapped {
                    mapped.touch(tensor.begin as usize, tensor.len as usize);
                }
            }
            mapped.filter(|_| settings.keep)
        }
        Mode::Read => {
            let mut memory = Block::anonymous(shard.len)?;
            for at in (0..shard.len).step_by(settings.chunk) {
                let part = settings.chunk.min(shard.len - at);
                shard.file.read_exact_at(memory.bytes_mut(at, part), at as u64)?;
                if settings.drop_behind {
                    files::forget_part(&shard.file, at as u64, part as u64)?;
                }
            }
            Some(memory).filter(|_| settings.keep)
        }
        Mode::Chunked => {
            read_through(&shard.file, shard.len, settings.chunk, settings.drop_behind)?;
            None
        }
    };
    if settings.drop_behind {
        files::forget(&shard.file)?;
    }
    Ok(loaded)
}

fn read_through(file: &File, len: usize, chunk: usize, forget: bool) -> io::Result<()> {
    let mut buffer = Block::anonymous(chunk)?;
    for at in (0..len).step_by(chunk) {
        let part = chunk.min(len - at);
        file.read_exact_at(buffer.bytes_mut(0, part), at as u64)?;
        if forget {
            files::forget_part(file, at as u64, part as u64)?;
        }
    }
    Ok(())
}

// What this process caused to be read from devices.
fn device_bytes() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let bytes = text.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok());
    bytes.ok_or_else(|| io::Error::other("no line read_bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        let given: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        Settings::parse(Args::new("loader", &given).unwrap()).unwrap()
    }

    #[test]
    fn every_mode_reads_everything_and_keeps_what_it_should() {
        let directory = tempfile::tempdir().unwrap();
        safetensors::make(directory.path(), Make { bytes: 3 << 20, shards: 2, tensor: 300_000 }, 1).unwrap();
        for mode in ["mmap", "read", "chunked"] {
            for more in ["--prefetch=no", "--prefetch=willneed", "--drop-behind=on"] {
                let settings = settings(&format!("--checkpoint=x --mode={mode} --chunk=100Ki --keep=on {more}"));
                for shard in safetensors::open(directory.path()).unwrap() {
                    files::forget(&shard.file).unwrap();
                    let kept = load(&shard, &settings).unwrap();
                    assert_eq!(kept.is_some(), mode != "chunked", "{mode} {more}");
                    let Some(kept) = kept else { continue };
                    let mut content = vec![0; shard.len];
                    shard.file.read_exact_at(&mut content, 0).unwrap();
                    assert!(kept.bytes(0, shard.len) == content, "{mode} {more}");
                }
            }
        }
    }

    #[test]
    fn the_cache_is_as_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        safetensors::make(directory.path(), Make { bytes: 1 << 20, shards: 2, tensor: 1 << 18 }, 1).unwrap();
        let shards = safetensors::open(directory.path()).unwrap();
        let size: usize = shards.iter().map(|shard| shard.len.next_multiple_of(4096)).sum();
        assert_eq!(prepare(&shards, &settings("--checkpoint=x --cache=warm")).unwrap(), size as u64);
    }
}
