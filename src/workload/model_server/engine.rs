//! The engine's loop: asks the scheduler for a step, does with real memory what the step does on the host, and lets the modelled device run.

use super::metrics::{Fixed, Metrics, Now};
use super::pool::Pool;
use super::runtime::Runtime;
use super::scheduler::{HostTier, Limits, NoSwapSpace, Scheduler, Step};
use super::sequence::Ask;
use super::tiers::{Steps, Tier, major_faults};
use crate::workload::gpu::{Device, Link, Roofline, rest};
use crate::workload::memory::Block;
use crate::workload::openai::Answer;
use crate::workload::report::Line;
use crate::workload::server::{self, Service};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A request between its arrival and its end.
#[derive(Debug)]
struct Job {
    answer: Answer,
    state: Option<Block>,
    arrived: Duration,
}

/// What the accepting threads and the engine share.
#[derive(Debug)]
pub struct Shared {
    runtime: Runtime,
    fixed: Fixed,
    limits: Limits,
    since: Instant,
    next_id: AtomicU64,
    inbox: Mutex<Vec<(Ask, Job)>>,
    arrived: Condvar,
    seen: Mutex<(Metrics, Now)>,
    steps: Mutex<Steps>,
}

/// The engine's own state.
#[derive(Debug)]
pub struct Engine {
    scheduler: Scheduler,
    pool: Option<Pool>,
    device: Device,
    roofline: Roofline,
    link: Link,
    block_bytes: u64,
    jobs: HashMap<u64, Job>,
    stores: Vec<u32>,
    moved: (u64, u64),
}

impl Shared {
    /// The server's front, before the first request.
    pub fn new(runtime: Runtime, fixed: Fixed, limits: Limits) -> Shared {
        let seen = Mutex::new((Metrics::new(fixed.clone()), Now::default()));
        let (inbox, arrived) = (Mutex::default(), Condvar::new());
        let steps = Mutex::new(Steps::new());
        Shared { runtime, fixed, limits, since: Instant::now(), next_id: AtomicU64::new(0), inbox, arrived, seen, steps }
    }

    fn inbox(&self) -> MutexGuard<'_, Vec<(Ask, Job)>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, (Metrics, Now)> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints the server's figures.
    pub fn report(&self) {
        let (metrics, now) = &*self.seen();
        let (preemptions, finished, aborted, generated) = metrics.counts();
        let (running, waiting, swapped) = now.requests;
        let line = Line::new(self.since.elapsed())
            .seconds("gpu_busy_s", now.busy)
            .count("vram_used_bytes", now.device_memory.0)
            .count("running", running as u64)
            .count("waiting", waiting as u64)
            .count("swapped", swapped as u64)
            .count("kv_blocks_used", now.device_blocks.0 as u64)
            .count("host_kv_blocks_used", now.host_blocks.0 as u64)
            .count("preemptions", preemptions)
            .count("finished", finished)
            .count("aborted", aborted)
            .count("tokens", generated)
            .count("to_host_bytes", now.moved.0)
            .count("to_device_bytes", now.moved.1);
        self.steps().add_to(line).print();
    }
}

impl Service for Shared {
    fn model(&self) -> &str {
        &self.fixed.model
    }

    fn complete(&self, mut answer: Answer) -> io::Result<()> {
        let arrived = self.since.elapsed();
        let wanted = answer.completion;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let ask = Ask { id, prompt: wanted.prompt_tokens.max(1), output: wanted.max_tokens };
        let tokens = u64::from(ask.prompt) + u64::from(ask.output);
        if tokens > u64::from(self.fixed.max_model_len) {
            let problem = format!(
                "This model's maximum context length is {} tokens. However, you requested {tokens} tokens",
                self.fixed.max_model_len
            );
            return server::refuse(&mut answer.stream, "400 Bad Request", &problem);
        }
        let state = self.runtime.arrive(id).map_err(io::Error::other)?;
        self.inbox().push((ask, Job { answer, state, arrived }));
        self.arrived.notify_one();
        Ok(())
    }

    fn metrics(&self) -> Option<String> {
        let (metrics, now) = &*self.seen();
        Some(metrics.render(now))
    }
}

impl Engine {
    /// An idle engine.
    pub fn new(shared: &Shared, device: Device, pool: Option<Pool>, roofline: Roofline, link: Link, block_bytes: u64) -> Engine {
        let engine = Engine {
            scheduler: Scheduler::new(shared.limits),
            pool,
            device,
            roofline,
            link,
            block_bytes,
            jobs: HashMap::new(),
            stores: Vec::new(),
            moved: (0, 0),
        };
        engine.show(shared);
        engine
    }

    /// Serves until V0's engine would end.
    ///
    /// # Errors
    /// [`NoSwapSpace`].
    pub fn run(mut self, shared: &Shared) -> Result<(), NoSwapSpace> {
        loop {
            self.take_in(shared);
            let step = self.scheduler.plan(shared.since.elapsed())?;
            shared.runtime.step();
            self.execute(&step, shared);
            let brought = self.scheduler.commit(&step, shared.since.elapsed());
            self.stores = brought.stores;
            // What comes back from V0's pool was never missing; only the cache tier has queries and hits.
            let read_back = if let HostTier::Offload(_) = shared.limits.tier { step.back.len() as u64 } else { 0 };
            {
                let (metrics, _) = &mut *shared.seen();
                metrics.step(&step, read_back * u64::from(shared.limits.block_tokens));
                for token in &brought.tokens {
                    metrics.token(token, self.jobs.get(&token.id).map_or(0, |job| job.answer.completion.prompt_tokens));
                }
                brought.finished.iter().for_each(|done| metrics.finish(done));
            }
            for token in brought.tokens {
                let Some(job) = self.jobs.get_mut(&token.id) else { continue };
                if let Some(state) = &job.state {
                    Runtime::token(state, token.number);
                }
                let sent = job.answer.token(token.id, &shared.fixed.model, token.number);
                if sent.is_err() && !token.last {
                    self.scheduler.abort(token.id);
                    shared.seen().0.abort();
                }
                if sent.is_err() || token.last {
                    self.jobs.remove(&token.id);
                }
            }
            self.show(shared);
        }
    }

    // Takes new requests; waits for one when there is nothing else to do.
    fn take_in(&mut self, shared: &Shared) {
        let idle = self.jobs.is_empty();
        let inbox = shared.inbox();
        let mut inbox =
            shared.arrived.wait_while(inbox, |inbox| idle && inbox.is_empty()).unwrap_or_else(PoisonError::into_inner);
        for (ask, job) in inbox.drain(..) {
            self.scheduler.submit(ask, job.arrived);
            self.jobs.insert(ask.id, job);
        }
    }

    // Preempted blocks leave and come back before the kernel; what became full in the step before is stored beside it.
    fn execute(&mut self, step: &Step, shared: &Shared) {
        let (began, faults) = (Instant::now(), major_faults());
        let mut faulted = 0;
        let bytes = |slots: &[u32]| slots.len() as u64 * self.block_bytes;
        let (out, back, stored) = (bytes(&step.out), bytes(&step.back), bytes(&self.stores));
        self.moved.0 += out + stored;
        self.moved.1 += back;
        if let Some(pool) = &mut self.pool {
            let begin = Instant::now();
            pool.write(&step.out);
            pool.read(&step.back);
            faulted = major_faults() - faults;
            rest(self.link.time(out + back), begin);
        }
        let kernel = self.roofline.step(step.work.len(), step.tokens());
        let begin = Instant::now();
        if let Some(pool) = &mut self.pool {
            pool.write(&std::mem::take(&mut self.stores));
        }
        self.device.run(kernel, begin);
        rest(self.link.time(stored), begin);
        if !step.work.is_empty() {
            shared.steps().record(Tier::of(step.out.len() + step.back.len(), faulted), began.elapsed());
        }
    }

    fn show(&self, shared: &Shared) {
        shared.seen().1 = Now {
            requests: self.scheduler.counts(),
            device_blocks: self.scheduler.device_blocks(),
            host_blocks: self.scheduler.host_blocks(),
            device_memory: (self.device.used(), self.device.total()),
            busy: self.device.busy(),
            moved: self.moved,
        };
    }
}
