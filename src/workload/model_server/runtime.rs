//! The host side of a model server: memory that its processes keep and touch, which is what a pod is charged for.
//!
//! The weights and the KV cache lie in the device. What is left on the host: tables of the tokeniser, the scheduler's and Python's heap,
//! the cache of processed multimodal inputs, libraries that are loaded and never run again, and what every request holds while it lives.

use crate::workload::memory::{Block, split_mix};
use crate::workload::{Args, ArgsError, WorkloadError, system};
use std::sync::{Mutex, PoisonError};

const PAGE: usize = 4096;

/// An area and how much of it one use touches.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Area {
    size: usize,
    share: f64,
}

/// Sizes and shares.
#[derive(Debug, Clone, PartialEq)]
pub struct RuntimeSettings {
    tokenizer: Area,
    heap: Area,
    mm_cache: Area,
    libraries: usize,
    per_request: usize,
}

impl RuntimeSettings {
    /// `--tokenizer` `--tokenizer-share` (touched by each request: the same, hot part) · `--heap` `--heap-share` (touched by each step, pages
    /// at random) · `--mm-cache` `--mm-cache-share` (touched by each request, pages at random) · `--libraries` (touched once) ·
    /// `--per-request` (text, token ids, detokeniser and output buffer of a request from its arrival to its end). Sizes are 0, shares 1.
    pub(super) fn parse(args: &mut Args) -> Result<RuntimeSettings, ArgsError> {
        let mut area = |size, share| -> Result<Area, ArgsError> {
            Ok(Area { size: args.size(size)?.unwrap_or(0), share: args.share(share)?.unwrap_or(1.0) })
        };
        Ok(RuntimeSettings {
            tokenizer: area("tokenizer", "tokenizer-share")?,
            heap: area("heap", "heap-share")?,
            mm_cache: area("mm-cache", "mm-cache-share")?,
            libraries: args.size("libraries")?.unwrap_or(0),
            per_request: args.size("per-request")?.unwrap_or(0),
        })
    }
}

/// The memory.
#[derive(Debug)]
pub struct Runtime {
    settings: RuntimeSettings,
    tokenizer: Option<Block>,
    heap: Option<Block>,
    mm_cache: Option<Block>,
    _libraries: Option<Block>,
    random: Mutex<u64>,
}

impl Runtime {
    /// Fills everything, as a start does.
    pub fn load(settings: &RuntimeSettings, seed: u64) -> Result<Runtime, WorkloadError> {
        let filled = |size: usize, salt: u64| -> Result<Option<Block>, WorkloadError> {
            if size == 0 {
                return Ok(None);
            }
            let mut block = Block::anonymous(size).map_err(system(format!("map {size} bytes")))?;
            block.fill(0, size, seed.wrapping_add(salt));
            Ok(Some(block))
        };
        Ok(Runtime {
            settings: settings.clone(),
            // What is never used again is loaded first, so that it is the oldest.
            _libraries: filled(settings.libraries, 1)?,
            tokenizer: filled(settings.tokenizer.size, 2)?,
            mm_cache: filled(settings.mm_cache.size, 3)?,
            heap: filled(settings.heap.size, 4)?,
            random: Mutex::new(seed),
        })
    }

    /// A request arrives: it is tokenised and gets its state.
    pub fn arrive(&self, id: u64) -> Result<Option<Block>, WorkloadError> {
        if let Some(tables) = &self.tokenizer {
            tables.touch(0, (tables.len() as f64 * self.settings.tokenizer.share) as usize);
        }
        self.touch_random(self.mm_cache.as_ref(), self.settings.mm_cache.share);
        let size = self.settings.per_request;
        if size == 0 {
            return Ok(None);
        }
        let mut state = Block::anonymous(size).map_err(system(format!("map {size} bytes for a request")))?;
        state.fill(0, size, id);
        Ok(Some(state))
    }

    /// A step is planned.
    pub fn step(&self) {
        self.touch_random(self.heap.as_ref(), self.settings.heap.share);
    }

    /// A token is put into a request's text: one page of its state.
    pub fn token(state: &Block, number: u32) {
        let page = number as usize % state.len().div_ceil(PAGE);
        state.touch(page * PAGE, PAGE);
    }

    fn touch_random(&self, block: Option<&Block>, share: f64) {
        let Some(block) = block else { return };
        if share >= 1.0 {
            return block.touch(0, block.len());
        }
        let pages = block.len().div_ceil(PAGE);
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..(pages as f64 * share).ceil() as usize {
            block.touch(split_mix(&mut random) as usize % pages * PAGE, PAGE);
        }
    }
}
