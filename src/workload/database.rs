//! A database or etcd: a transaction touches cached pages, appends to a write-ahead log, and is committed when fdatasync has returned.
//!
//! It commits at a rate of its own, from scheduled times, and for clients: a completion is a session in which each token to generate is one
//! transaction, answered when it is committed.

use super::latency::Latency;
use super::memory::{Block, seed, split_mix};
use super::queue::Queue;
use super::report::{self, Line};
use super::{Args, ArgsError, WorkloadError, server, signals, system};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Settings of `database`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    log: PathBuf,
    log_size: usize,
    record: usize,
    cache: usize,
    pages: u64,
    rate: f64,
    port: u16,
    report_every: Duration,
}

impl Settings {
    /// `--log` (the file) `--log-size` (it is written round and round, 8Mi) `--record` (bytes a commit appends, 4Ki) · `--cache` (pages in
    /// memory) `--pages` (of them a transaction touches, at random, 8) · `--rate` (own commits a second, 0) · `--port` (8000)
    /// `--report-every` (1s).
    pub(super) fn parse(mut args: Args) -> Result<Settings, ArgsError> {
        let settings = Settings {
            log: args.required_text("log")?.into(),
            log_size: args.size("log-size")?.unwrap_or(8 << 20),
            record: args.size("record")?.unwrap_or(4096).max(1),
            cache: args.required_size("cache")?,
            pages: args.number("pages", 0)?.unwrap_or(8),
            rate: args.number("rate", 0)?.unwrap_or(0) as f64,
            port: u16::try_from(args.number("port", 1)?.unwrap_or(8000)).unwrap_or(u16::MAX),
            report_every: args.duration("report-every")?.unwrap_or(Duration::from_secs(1)),
        };
        args.finish()?;
        Ok(settings)
    }
}

struct Store {
    log: File,
    at: u64,
    record: Block,
    cache: Block,
    random: u64,
}

#[derive(Debug)]
struct Figures {
    commit: Latency,
    sync: Latency,
}

/// Commits until it is ended.
///
/// # Errors
/// The log cannot be written, memory not mapped, or the port is taken.
pub fn run(settings: &Settings) -> Result<(), WorkloadError> {
    signals::end_on_sigterm(143);
    let logging = || format!("write the log {}", settings.log.display());
    let mut store = Store::open(settings).map_err(system(logging()))?;
    let figures = Arc::new(Mutex::new(Figures { commit: Latency::new(), sync: Latency::new() }));
    let begin = Instant::now();
    report::every(settings.report_every, {
        let figures = Arc::clone(&figures);
        move || {
            let figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
            let line = figures.commit.add_to(Line::new(begin.elapsed()), "commit");
            figures.sync.add_to(line, "sync").print();
        }
    })?;
    let queue = Arc::new(Queue::new("database".to_owned()));
    let listener = server::listen(settings.port)?;
    server::start(&listener, &queue)?;
    let mut session = 0;
    for number in 0u64.. {
        let due = (settings.rate > 0.0).then(|| begin + Duration::from_secs_f64(number as f64 / settings.rate));
        // Clients are served until the next own commit is due.
        while let Some(mut answer) = due.map_or_else(|| Some(queue.take()), |due| queue.take_before(due)) {
            session += 1;
            for token in 1..=answer.completion.max_tokens {
                let scheduled = Instant::now();
                store.commit(settings, &figures, scheduled).map_err(system(logging()))?;
                if answer.token(session, "database", token).is_err() {
                    break;
                }
            }
        }
        if let Some(due) = due {
            store.commit(settings, &figures, due).map_err(system(logging()))?;
        }
    }
    Ok(())
}

impl Store {
    fn open(settings: &Settings) -> io::Result<Store> {
        if let Some(parent) = settings.log.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let log = File::create(&settings.log)?;
        let mut record = Block::anonymous(settings.record)?;
        record.fill(0, settings.record, seed());
        // Written once in full, so that later writes change no metadata.
        for at in (0..settings.log_size as u64).step_by(settings.record) {
            log.write_all_at(record.bytes(0, settings.record), at)?;
        }
        log.sync_all()?;
        let mut cache = Block::anonymous(settings.cache)?;
        cache.fill(0, settings.cache, seed().wrapping_add(1));
        Ok(Store { log, at: 0, record, cache, random: seed() })
    }

    fn commit(&mut self, settings: &Settings, figures: &Mutex<Figures>, scheduled: Instant) -> io::Result<()> {
        const PAGE: usize = 4096;
        for _ in 0..settings.pages {
            let page = split_mix(&mut self.random) as usize % self.cache.len().div_ceil(PAGE);
            self.cache.touch(page * PAGE, PAGE);
        }
        self.log.write_all_at(self.record.bytes(0, settings.record), self.at)?;
        let synced = Instant::now();
        self.log.sync_data()?;
        let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
        figures.sync.record(synced.elapsed());
        figures.commit.record(scheduled.elapsed());
        self.at += settings.record as u64;
        if self.at + settings.record as u64 > settings.log_size as u64 {
            self.at = 0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_written_round_and_round() {
        let log = std::env::temp_dir().join(format!("highwater-log-{}", std::process::id()));
        let args = ["--cache=64Ki", "--log-size=8Ki", &format!("--log={}", log.display())].map(str::to_owned);
        let settings = Settings::parse(Args::new("database", &args).unwrap()).unwrap();
        let mut store = Store::open(&settings).unwrap();
        let figures = Mutex::new(Figures { commit: Latency::new(), sync: Latency::new() });
        for expected in [4096, 0, 4096] {
            store.commit(&settings, &figures, Instant::now()).unwrap();
            assert_eq!(store.at, expected);
        }
        assert_eq!(std::fs::metadata(&log).unwrap().len(), 8192);
        assert_eq!(figures.lock().unwrap().commit.count(), 3);
        std::fs::remove_file(log).unwrap();
    }
}
