//! Hard eviction thresholds of memory.available.

use super::config::KubeletConfiguration;
use super::refusal::{Refusal, Stage};
use super::version::Rules;
use crate::units::Quantity;

const MEMORY_AVAILABLE: &str = "memory.available";
/// The built-in default of Linux (`DefaultEvictionHard`).
const DEFAULT: &str = "100Mi";

/// The memory that must stay available.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MemoryThreshold {
    /// An amount.
    Amount(Quantity),
    /// A fraction of the node's memory, in the kubelet's own precision.
    Fraction(f32),
}

impl MemoryThreshold {
    /// The amount on a node with this many bytes (`GetThresholdQuantity`).
    pub fn amount(self, node_memory: u64) -> Quantity {
        match self {
            MemoryThreshold::Amount(quantity) => quantity,
            // Through float64, truncated: the order of the kubelet.
            MemoryThreshold::Fraction(fraction) => Quantity::bytes((node_memory as f64 * f64::from(fraction)) as u64),
        }
    }
}

/// What evictionHard says about memory.available: its text and its meaning, None when there is no threshold.
pub(super) fn memory_threshold(
    rules: &Rules,
    config: &KubeletConfiguration,
) -> Result<Option<(String, MemoryThreshold)>, Refusal> {
    let merge = rules.merge_default_eviction && config.merge_default_eviction_settings == Some(true);
    let text = match &config.eviction_hard {
        None => DEFAULT,
        Some(map) => match map.get(MEMORY_AVAILABLE) {
            Some(text) => text,
            None if merge => DEFAULT,
            None => return Ok(None),
        },
    };
    Ok(parse(text)?.map(|threshold| (text.to_owned(), threshold)))
}

/// `parseThresholdStatement`: percentages of 0 and 100 are ignored, amounts must be positive.
fn parse(text: &str) -> Result<Option<MemoryThreshold>, Refusal> {
    let refuse = |message: String| Refusal::new(Stage::Eviction, message);
    if text.ends_with('%') {
        if text == "0%" || text == "100%" {
            return Ok(None);
        }
        let number = text.trim_end_matches('%');
        let fraction =
            number.parse::<f32>().map_err(|_| refuse(format!("strconv.ParseFloat: parsing {number:?}: invalid syntax")))? / 100.0;
        if fraction < 0.0 {
            return Err(refuse(format!("eviction percentage threshold {MEMORY_AVAILABLE} must be >= 0%: {text}")));
        }
        if fraction > 1.0 {
            return Err(refuse(format!("eviction percentage threshold {MEMORY_AVAILABLE} must be <= 100%: {text}")));
        }
        return Ok(Some(MemoryThreshold::Fraction(fraction)));
    }
    let quantity: Quantity = text.parse().map_err(|error| refuse(format!("{error}")))?;
    if quantity.is_negative() || quantity.is_zero() {
        return Err(refuse(format!("eviction threshold {MEMORY_AVAILABLE} must be positive: {quantity}")));
    }
    Ok(Some(MemoryThreshold::Amount(quantity)))
}
