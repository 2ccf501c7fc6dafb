//! The engine: continuous batching over the weights, one token for every running request per pass.

use super::Settings;
use crate::workload::memory::Block;
use crate::workload::openai::Answer;
use crate::workload::server::Service;
use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, PoisonError};

#[derive(Debug)]
struct Running {
    job: Answer,
    id: u64,
    produced: u32,
    cache: Option<Block>,
    cached: usize,
}

/// Weights, runtime and the queue of requests.
#[derive(Debug)]
pub struct Engine {
    pub(super) settings: Settings,
    memory: Mutex<Memory>,
    queue: Mutex<VecDeque<Answer>>,
    arrived: Condvar,
}

#[derive(Debug)]
struct Memory {
    weights: Option<Block>,
    runtime: Option<Block>,
    next: usize,
}

impl Engine {
    /// An engine at rest.
    pub fn new(settings: Settings, weights: Option<Block>, runtime: Option<Block>) -> Engine {
        let memory = Mutex::new(Memory { weights, runtime, next: 0 });
        Engine { settings, memory, queue: Mutex::default(), arrived: Condvar::new() }
    }

    /// Generates for ever. A request whose client went away is dropped at its next token.
    pub fn run(&self) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running: Vec<Running> = Vec::new();
        let mut next_id = 0;
        loop {
            for job in self.admit(running.len()) {
                let mut request = Running { job, id: next_id, produced: 0, cache: None, cached: 0 };
                next_id += 1;
                if let Some(runtime) = &memory.runtime {
                    runtime.touch(0, runtime.len());
                }
                // The pass that reads the last part of the prompt also gives the first token.
                for _ in 0..request.job.completion.prompt_tokens.div_ceil(self.settings.prefill_chunk).max(1) {
                    memory.pass(self.settings.token_share);
                }
                if self.token(&mut request).unwrap_or(false) {
                    running.push(request);
                }
            }
            if running.is_empty() {
                continue;
            }
            memory.pass(self.settings.token_share);
            running.retain_mut(|request| self.token(request).unwrap_or(false));
        }
    }

    // Takes what fits beside the running requests; waits only when none runs.
    fn admit(&self, running: usize) -> Vec<Answer> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let mut queue =
            self.arrived.wait_while(queue, |queue| running == 0 && queue.is_empty()).unwrap_or_else(PoisonError::into_inner);
        let fits = self.settings.batch.saturating_sub(running).min(queue.len());
        queue.drain(..fits).collect()
    }

    // Gives a request its next token; true while it wants more.
    fn token(&self, request: &mut Running) -> io::Result<bool> {
        let new_tokens = if request.produced == 0 { request.job.completion.prompt_tokens as usize + 1 } else { 1 };
        self.extend_cache(request, new_tokens)?;
        request.produced += 1;
        request.job.token(request.id, &self.settings.model, request.produced)?;
        Ok(request.produced < request.job.completion.max_tokens)
    }

    // The cache of a request is reserved whole, written as it grows, and read whole for every token.
    fn extend_cache(&self, request: &mut Running, tokens: usize) -> io::Result<()> {
        let per_token = self.settings.kv_per_token;
        if per_token == 0 {
            return Ok(());
        }
        let most =
            per_token.saturating_mul(request.job.completion.prompt_tokens as usize + request.job.completion.max_tokens as usize);
        let cache = match &mut request.cache {
            Some(cache) => cache,
            None => request.cache.insert(Block::anonymous(most)?),
        };
        cache.touch(0, request.cached);
        let grown = per_token.saturating_mul(tokens);
        cache.fill(request.cached, grown, request.id);
        request.cached += grown;
        Ok(())
    }
}

impl Service for Engine {
    fn model(&self) -> &str {
        &self.settings.model
    }

    fn complete(&self, answer: Answer) -> io::Result<()> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(answer);
        self.arrived.notify_one();
        Ok(())
    }
}

impl Memory {
    // One token's share of the weights, going round, as a model of experts would over time.
    fn pass(&mut self, share: f64) {
        let Some(weights) = &self.weights else { return };
        let mut left = ((weights.len() as f64 * share) as usize).max(1);
        while left > 0 {
            let part = left.min(weights.len() - self.next);
            weights.touch(self.next, part);
            self.next = (self.next + part) % weights.len();
            left -= part;
        }
    }
}
