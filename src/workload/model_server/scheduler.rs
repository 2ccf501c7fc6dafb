//! The scheduler: continuous batching as a pure state machine, with the clock passed in.
//!
//! The rules are those of vLLM's V1 scheduler (`v1/core/sched/scheduler.py`), first come first served: running requests first, in order, each
//! with what its next token needs, within one token budget a step; long prompts in chunks; when blocks run out the request that was
//! admitted last is preempted and, in that step, nobody is admitted. Preemption is recomputation, or a swap to a pool on the host as in
//! V0 (`core/scheduler.py` `_swap_out`, with `preemption_mode=swap`), whose swapped requests come back before waiting ones are
//! admitted. Prefix caching between requests is not modelled.

use super::blocks::Blocks;
use super::offload::Offload;
use super::sequence::{Ask, Sequence, Times};
use std::collections::VecDeque;
use std::time::Duration;

/// Where the cache of a preempted request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostTier {
    /// Nowhere: it is computed again.
    None,
    /// Into a pool of so many blocks, from which it returns.
    SwapPool(u32),
    /// Nowhere, but full blocks were copied to a cache of so many blocks as they were computed, and are read back from it while they are there.
    Offload(u32),
}

/// The engine's sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Cache blocks on the device.
    pub blocks: u32,
    /// Tokens of a block.
    pub block_tokens: u32,
    /// Tokens of a step at most.
    pub batched_tokens: u32,
    /// Requests of a step at most.
    pub sequences: u32,
    /// The tier on the host.
    pub tier: HostTier,
}

/// What one step does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// Requests and how many tokens of each are computed.
    pub work: Vec<(u64, u32)>,
    /// Host slots to write with blocks from the device, before the step.
    pub out: Vec<u32>,
    /// Host slots to read blocks from, before the step.
    pub back: Vec<u32>,
    /// Requests that were preempted.
    pub preempted: Vec<u64>,
}

impl Step {
    /// Tokens of the step.
    pub fn tokens(&self) -> u32 {
        self.work.iter().map(|(_, tokens)| tokens).sum()
    }
}

/// What a step brought.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Brought {
    /// New tokens, by request.
    pub tokens: Vec<Token>,
    /// Requests that are finished.
    pub finished: Vec<Finished>,
    /// Host slots to write with blocks that became full.
    pub stores: Vec<u32>,
}

/// A new token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// The request.
    pub id: u64,
    /// Which one, from 1.
    pub number: u32,
    /// The time since the request came, for the first; since the token before, for others.
    pub after: Duration,
    /// It is the last.
    pub last: bool,
}

/// A request's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    /// What was asked for.
    pub ask: Ask,
    /// When things happened.
    pub times: Times,
    /// How often it was preempted.
    pub preemptions: u32,
}

/// The swap pool does not hold a request that must be preempted. V0 ends its engine with these words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Aborted due to the lack of CPU swap space. Please increase the swap space to avoid this error.")]
pub struct NoSwapSpace;

/// The state.
#[derive(Debug)]
pub struct Scheduler {
    limits: Limits,
    device: Blocks,
    pool: Blocks,
    offload: Offload,
    waiting: VecDeque<Sequence>,
    swapped: VecDeque<Sequence>,
    running: Vec<Sequence>,
}

impl Scheduler {
    /// An idle engine.
    pub fn new(limits: Limits) -> Scheduler {
        let (pool, offload) = match limits.tier {
            HostTier::None => (0, 0),
            HostTier::SwapPool(slots) => (slots, 0),
            HostTier::Offload(slots) => (0, slots),
        };
        Scheduler {
            limits,
            device: Blocks::new(limits.blocks),
            pool: Blocks::new(pool),
            offload: Offload::new(offload),
            waiting: VecDeque::new(),
            swapped: VecDeque::new(),
            running: Vec::new(),
        }
    }

    /// Queues a request. Alone it must fit on the device, prompt and output together; the server refuses what does not.
    pub fn submit(&mut self, ask: Ask, now: Duration) {
        self.waiting.push_back(Sequence::new(ask, now));
    }

    /// Forgets a request, wherever it is.
    pub fn abort(&mut self, id: u64) {
        let found = |sequence: &Sequence| sequence.ask.id == id;
        let gone = if let Some(at) = self.running.iter().position(found) {
            Some(self.running.remove(at))
        } else if let Some(at) = self.swapped.iter().position(found) {
            self.swapped.remove(at)
        } else {
            self.waiting.iter().position(found).and_then(|at| self.waiting.remove(at))
        };
        if let Some(gone) = gone {
            self.device.give_back(gone.blocks);
            self.pool.give_back(gone.swapped);
        }
    }

    /// Requests in step order, waiting and swapped out.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.running.len(), self.waiting.len(), self.swapped.len())
    }

    /// Blocks used and total, on the device.
    pub fn device_blocks(&self) -> (usize, usize) {
        (self.device.used(), self.device.total())
    }

    /// Blocks used and total, of the tier on the host.
    pub fn host_blocks(&self) -> (usize, usize) {
        (self.pool.used() + self.offload.used(), self.pool.total() + self.offload.total())
    }

    /// Decides the next step; an empty one when there is nothing to do.
    ///
    /// # Errors
    /// [`NoSwapSpace`].
    pub fn plan(&mut self, now: Duration) -> Result<Step, NoSwapSpace> {
        let mut step = Step::default();
        let mut budget = self.limits.batched_tokens;
        let mut index = 0;
        while index < self.running.len() && budget > 0 {
            let tokens = self.running[index].missing().min(budget);
            if self.grow(index, tokens, &mut step)? {
                step.work.push((self.running[index].ask.id, tokens));
                budget -= tokens;
                index += 1;
            }
        }
        if step.preempted.is_empty() {
            self.bring_back(&mut budget, &mut step);
            self.admit(&mut budget, &mut step, now);
        }
        Ok(step)
    }

    fn blocks_for(&self, tokens: u32) -> usize {
        tokens.div_ceil(self.limits.block_tokens) as usize
    }

    // Gives a running request the blocks for more tokens, preempting from the back; false when it was preempted itself.
    fn grow(&mut self, index: usize, tokens: u32, step: &mut Step) -> Result<bool, NoSwapSpace> {
        loop {
            let sequence = &self.running[index];
            let more = self.blocks_for(sequence.computed + tokens).saturating_sub(sequence.blocks.len());
            if let Some(blocks) = self.device.take(more) {
                self.running[index].blocks.extend(blocks);
                return Ok(true);
            }
            self.preempt(step)?;
            if index == self.running.len() {
                return Ok(false);
            }
        }
    }

    fn preempt(&mut self, step: &mut Step) -> Result<(), NoSwapSpace> {
        let Some(mut victim) = self.running.pop() else { return Ok(()) };
        victim.preemptions += 1;
        step.preempted.push(victim.ask.id);
        let blocks = std::mem::take(&mut victim.blocks);
        if let HostTier::SwapPool(_) = self.limits.tier {
            victim.swapped = self.pool.take(self.blocks_for(victim.computed)).ok_or(NoSwapSpace)?;
            step.out.extend(&victim.swapped);
            self.swapped.push_front(victim);
        } else {
            victim.computed = 0;
            victim.offered = 0;
            self.waiting.push_front(victim);
        }
        self.device.give_back(blocks);
        Ok(())
    }

    fn bring_back(&mut self, budget: &mut u32, step: &mut Step) {
        while *budget > 0 && self.running.len() < self.limits.sequences as usize {
            let Some(first) = self.swapped.front() else { return };
            let tokens = first.missing().min(*budget);
            let Some(blocks) = self.device.take(self.blocks_for(first.computed + tokens)) else { return };
            let Some(mut sequence) = self.swapped.pop_front() else { return };
            let slots = std::mem::take(&mut sequence.swapped);
            step.back.extend(&slots);
            self.pool.give_back(slots);
            sequence.blocks = blocks;
            step.work.push((sequence.ask.id, tokens));
            *budget -= tokens;
            self.running.push(sequence);
        }
    }

    fn admit(&mut self, budget: &mut u32, step: &mut Step, now: Duration) {
        while *budget > 0 && self.swapped.is_empty() && self.running.len() < self.limits.sequences as usize {
            let Some(first) = self.waiting.front() else { return };
            // At least one token is computed: the one whose result is the next token.
            let whole_blocks = (first.known() - 1) / self.limits.block_tokens;
            let slots = self.offload.prefix(first.ask.id, whole_blocks);
            let read_back = slots.len() as u32 * self.limits.block_tokens;
            let tokens = (first.known() - read_back).min(*budget);
            let Some(blocks) = self.device.take(self.blocks_for(read_back + tokens)) else { return };
            let Some(mut sequence) = self.waiting.pop_front() else { return };
            step.back.extend(&slots);
            sequence.computed = read_back;
            sequence.offered = slots.len() as u32;
            sequence.blocks = blocks;
            sequence.times.scheduled.get_or_insert(now);
            step.work.push((sequence.ask.id, tokens));
            *budget -= tokens;
            self.running.push(sequence);
        }
    }

    /// Takes over what a step computed.
    pub fn commit(&mut self, step: &Step, now: Duration) -> Brought {
        let mut brought = Brought::default();
        for (id, tokens) in &step.work {
            // A request may have been aborted while the step ran.
            let Some(at) = self.running.iter().position(|sequence| sequence.ask.id == *id) else { continue };
            let sequence = &mut self.running[at];
            sequence.computed += tokens;
            let full = sequence.computed / self.limits.block_tokens;
            for block in sequence.offered..full {
                brought.stores.extend(self.offload.store(*id, block));
            }
            sequence.offered = sequence.offered.max(full);
            if sequence.missing() > 0 {
                continue;
            }
            let since = if sequence.produced == 0 { sequence.times.arrived } else { sequence.times.last_token };
            sequence.produced += 1;
            sequence.times.first_token.get_or_insert(now);
            sequence.times.last_token = now;
            let last = sequence.produced == sequence.ask.output;
            brought.tokens.push(Token { id: *id, number: sequence.produced, after: now - since, last });
            if last {
                let done = self.running.remove(at);
                brought.finished.push(Finished { ask: done.ask, times: done.times, preemptions: done.preemptions });
                self.device.give_back(done.blocks);
            }
        }
        brought
    }
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
