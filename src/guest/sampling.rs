//! The sampler's thread, and readings at moments the script chooses.

use super::error::system;
use super::recorder::Recorder;
use super::{GuestError, threads};
use crate::cgroup::Tree;
use crate::load::monotonic_ns;
use crate::record::{Frame, Role, Sampling as Intervals};
use crate::sample::{Due, Sampler};
use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};
use std::sync::{Arc, Mutex, PoisonError};

/// The sampler, shared by its thread and the main one.
#[derive(Debug)]
pub struct Sampling {
    sampler: Mutex<Sampler>,
    recorder: Arc<Recorder>,
}

impl Sampling {
    /// A sampler that watches the node.
    pub fn new(tree: Tree, recorder: &Arc<Recorder>) -> Arc<Sampling> {
        let sampling = Sampling { sampler: Mutex::new(Sampler::new(tree, "/proc")), recorder: Arc::clone(recorder) };
        sampling.watch(Role::Node, "/", 0);
        Arc::new(sampling)
    }

    /// Starts the thread; an interval of 0 starts none.
    ///
    /// # Errors
    /// No thread.
    pub fn start(self: &Arc<Sampling>, intervals: Intervals) -> Result<(), GuestError> {
        if intervals.interval_ns == 0 {
            return Ok(());
        }
        let sampling = Arc::clone(self);
        let (report, ready) = std::sync::mpsc::channel();
        let run = move || {
            let result = threads::become_realtime(threads::SAMPLER);
            let realtime = result.is_ok();
            _ = report.send(result);
            if realtime {
                sampling.run(intervals);
            }
        };
        std::thread::Builder::new().name("sampler".into()).spawn(run).map_err(system("start the sampler"))?;
        ready.recv().map_err(|_| GuestError::Panicked("sampler".to_owned()))?
    }

    fn run(&self, intervals: Intervals) {
        let begin = monotonic_ns();
        let mut slow_due = begin;
        for n in 0u64.. {
            let due = begin + n * intervals.interval_ns;
            let until = Timespec { tv_sec: (due / 1_000_000_000).cast_signed(), tv_nsec: (due % 1_000_000_000).cast_signed() };
            while clock_nanosleep_absolute(ClockId::Monotonic, &until).is_err() {}
            let what = if due >= slow_due { Due::All } else { Due::Interval };
            if what == Due::All {
                slow_due = due + intervals.stat_interval_ns.max(1);
            }
            self.read(what);
        }
    }

    fn read(&self, due: Due) {
        let mut sampler = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
        self.recorder.frame(sampler.read(due, self.recorder.now()));
    }

    /// Reads everything now.
    pub fn read_all(&self) {
        self.read(Due::All);
    }

    /// Watches a cgroup from now on.
    pub fn watch(&self, role: Role, cgroup: &str, attempt: u32) -> u16 {
        let mut sampler = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
        let watch = sampler.watch(role, cgroup, attempt);
        let id = watch.id;
        self.recorder.frame(&Frame::Watch(watch));
        id
    }

    /// Reads a watch for the last time.
    pub fn finish(&self, id: u16) {
        let mut sampler = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
        self.recorder.frame(sampler.finish(id, self.recorder.now()));
    }
}
