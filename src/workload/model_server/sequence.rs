//! A request in the engine: its tokens, its blocks, its times.

use std::time::Duration;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Names the request; unique.
    pub id: u64,
    /// Tokens of the prompt, at least 1.
    pub prompt: u32,
    /// Tokens to generate, at least 1.
    pub output: u32,
}

/// When things happened, on the clock that is passed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// The request came.
    pub arrived: Duration,
    /// It was put into a step for the first time.
    pub scheduled: Option<Duration>,
    /// Its first token.
    pub first_token: Option<Duration>,
    /// Its latest token.
    pub last_token: Duration,
}

/// A request that waits, runs or is swapped out.
#[derive(Debug)]
pub struct Sequence {
    /// What was asked for.
    pub ask: Ask,
    /// Its times.
    pub times: Times,
    /// Tokens generated so far; preemption does not take them back.
    pub produced: u32,
    /// Tokens of prompt and output whose cache is on the device.
    pub computed: u32,
    /// Blocks on the device.
    pub blocks: Vec<u32>,
    /// Slots of the swap pool, while swapped out.
    pub swapped: Vec<u32>,
    /// Blocks that were offered to the offload tier since they were last computed.
    pub offered: u32,
    /// How often it was preempted.
    pub preemptions: u32,
}

impl Sequence {
    pub(super) fn new(ask: Ask, arrived: Duration) -> Sequence {
        Sequence {
            ask,
            times: Times { arrived, ..Times::default() },
            produced: 0,
            computed: 0,
            blocks: Vec::new(),
            swapped: Vec::new(),
            offered: 0,
            preemptions: 0,
        }
    }

    /// Tokens known so far: the prompt and what was generated.
    pub fn known(&self) -> u32 {
        self.ask.prompt + self.produced
    }

    /// Tokens whose cache is still to be computed before the next token comes.
    pub fn missing(&self) -> u32 {
        self.known() - self.computed
    }
}
