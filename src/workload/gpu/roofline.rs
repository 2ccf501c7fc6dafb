//! How long work takes on the modelled device: a roofline for kernels, a bandwidth for the link.

use std::time::Duration;

/// Kernel time of one step: what memory bandwidth allows or what arithmetic allows, whichever is longer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Roofline {
    /// Every step reads the weights once.
    pub base: Duration,
    /// Every sequence of the step reads its cache once.
    pub per_sequence: Duration,
    /// Tokens per second that arithmetic allows, which is what bounds prefill.
    pub tokens_per_s: u64,
}

impl Roofline {
    /// The time of a step over so many sequences and, together, so many tokens. A step of no tokens takes no time.
    pub fn step(&self, sequences: usize, tokens: u32) -> Duration {
        if tokens == 0 {
            return Duration::ZERO;
        }
        let memory = self.base + self.per_sequence.saturating_mul(u32::try_from(sequences).unwrap_or(u32::MAX));
        memory.max(Duration::from_nanos((u128::from(tokens) * 1_000_000_000 / u128::from(self.tokens_per_s.max(1))) as u64))
    }
}

/// The link between host and device, PCIe for example. Both directions have its bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Bytes per second.
    pub bytes_per_s: u64,
}

impl Link {
    /// The time that so many bytes take.
    pub fn time(&self, bytes: u64) -> Duration {
        Duration::from_nanos((u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s.max(1))) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_is_bound_by_memory_and_prefill_by_arithmetic() {
        let ms = Duration::from_millis;
        let roofline = Roofline { base: ms(20), per_sequence: Duration::from_micros(100), tokens_per_s: 10_000 };
        assert_eq!(roofline.step(1, 1), Duration::from_micros(20_100));
        assert_eq!(roofline.step(100, 100), ms(30));
        assert_eq!(roofline.step(1, 2048), Duration::from_micros(204_800));
        assert_eq!(roofline.step(0, 0), Duration::ZERO);
        assert_eq!(Link { bytes_per_s: 25_000_000_000 }.time(2_500_000_000), ms(100));
    }
}
