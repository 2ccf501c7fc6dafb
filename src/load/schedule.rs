//! Schedules: when requests are due, computed before the run from rates and a seed.
//!
//! Only additions, multiplications and comparisons of IEEE doubles are used, never a logarithm: a schedule is the same on every machine,
//! whatever its mathematical library.

use crate::record::Arrival;
use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};

/// Sizes of every request of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    /// Tokens of the prompt.
    pub prompt: u32,
    /// Tokens to generate.
    pub output: u32,
}

/// Why there is no such schedule.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum ScheduleError {
    /// A rate is negative, infinite or no number.
    #[error("a rate of {0} requests per second is impossible: give a number of at least 0")]
    Rate(f64),
    /// More requests than a run can hold.
    #[error("the schedule has more than {LARGEST} requests: lower its rate or its duration")]
    TooMany,
}

/// The most requests of a schedule.
pub const LARGEST: usize = 1_000_000;

const SECOND: f64 = 1e9;

/// Requests at equal distances, the first at 0: the n-th is due at exactly n / rate.
///
/// # Errors
/// [`ScheduleError`].
pub fn constant(rate: f64, duration_ns: u64, tokens: Tokens) -> Result<Vec<Arrival>, ScheduleError> {
    check(rate)?;
    if rate == 0.0 {
        return Ok(Vec::new());
    }
    collect((0u64..).map(|n| (n as f64 * SECOND / rate) as u64), duration_ns, tokens)
}

/// A Poisson process: independent exponential gaps with the mean 1 / rate. The count is random too (it is not rescaled to rate x time).
///
/// # Errors
/// [`ScheduleError`].
pub fn poisson(rate: f64, duration_ns: u64, tokens: Tokens, seed: u64) -> Result<Vec<Arrival>, ScheduleError> {
    ramp(rate, rate, duration_ns, tokens, seed)
}

/// A Poisson process whose rate goes in a straight line from one value to another (thinned from the higher one).
///
/// # Errors
/// [`ScheduleError`].
pub fn ramp(from: f64, to: f64, duration_ns: u64, tokens: Tokens, seed: u64) -> Result<Vec<Arrival>, ScheduleError> {
    check(from)?;
    check(to)?;
    let most = from.max(to);
    if most == 0.0 || duration_ns == 0 {
        return Ok(Vec::new());
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut at = 0.0;
    let candidates = std::iter::from_fn(move || {
        loop {
            at += exponential(&mut rng) * (SECOND / most);
            let rate = from + (to - from) * (at / duration_ns as f64);
            // Beyond the end every candidate is given, so that the caller sees the end.
            if at >= duration_ns as f64 || uniform(&mut rng) * most < rate {
                return Some(at as u64);
            }
        }
    });
    collect(candidates, duration_ns, tokens)
}

/// Arrivals of a trace, put in order of time.
pub fn trace(mut arrivals: Vec<Arrival>) -> Vec<Arrival> {
    arrivals.sort_by_key(|arrival| arrival.at_ns);
    arrivals
}

fn check(rate: f64) -> Result<(), ScheduleError> {
    if rate.is_finite() && rate >= 0.0 { Ok(()) } else { Err(ScheduleError::Rate(rate)) }
}

fn collect(times: impl Iterator<Item = u64>, duration_ns: u64, tokens: Tokens) -> Result<Vec<Arrival>, ScheduleError> {
    let due = times.take_while(|at_ns| *at_ns < duration_ns).take(LARGEST + 1);
    let arrivals: Vec<_> =
        due.map(|at_ns| Arrival { at_ns, prompt_tokens: tokens.prompt, output_tokens: tokens.output }).collect();
    if arrivals.len() > LARGEST { Err(ScheduleError::TooMany) } else { Ok(arrivals) }
}

// In [0, 1), 53 bits.
fn uniform(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

// An exponential variate with mean 1 by von Neumann's comparisons (1951): runs of falling uniforms, no logarithm.
fn exponential(rng: &mut impl Rng) -> f64 {
    let mut whole = 0.0;
    loop {
        let first = uniform(rng);
        let mut last = first;
        let mut length = 1;
        loop {
            let next = uniform(rng);
            if next >= last {
                break;
            }
            last = next;
            length += 1;
        }
        if length % 2 == 1 {
            return whole + first;
        }
        whole += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TOKENS: Tokens = Tokens { prompt: 8, output: 4 };
    const MINUTE: u64 = 60_000_000_000;

    #[test]
    fn constant_does_not_drift() {
        let arrivals = constant(3.0, MINUTE, TOKENS).unwrap();
        assert_eq!(arrivals.len(), 180);
        assert_eq!(arrivals[1].at_ns, 333_333_333);
        assert_eq!(arrivals[30].at_ns, 10_000_000_000);
        assert!(constant(0.0, MINUTE, TOKENS).unwrap().is_empty());
        assert_eq!(
            constant(f64::NAN, 1, TOKENS).unwrap_err().to_string(),
            "a rate of NaN requests per second is impossible: give a number of at least 0"
        );
        assert_eq!(constant(1e9, MINUTE, TOKENS), Err(ScheduleError::TooMany));
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let arrivals = poisson(100.0, 100 * MINUTE, TOKENS, 1).unwrap();
        let n = arrivals.len() as f64;
        // 600,000 expected, standard deviation 775.
        assert!((n - 600_000.0).abs() < 4000.0, "{n}");
        let gaps: Vec<f64> = arrivals.windows(2).map(|w| (w[1].at_ns - w[0].at_ns) as f64 / 1e7).collect();
        let share = |limit: f64| gaps.iter().filter(|gap| **gap > limit).count() as f64 / gaps.len() as f64;
        for limit in [0.5f64, 1.0, 2.0, 3.0] {
            assert!((share(limit) - (-limit).exp()).abs() < 0.003, "P(gap > {limit}) = {}", share(limit));
        }
    }

    #[test]
    fn a_ramp_has_its_mean_rate_and_more_at_its_end() {
        let arrivals = ramp(0.0, 60.0, 10 * MINUTE, TOKENS, 9).unwrap();
        assert!((arrivals.len() as f64 - 18_000.0).abs() < 700.0, "{}", arrivals.len());
        let half = arrivals.iter().filter(|a| a.at_ns < 5 * MINUTE).count() as f64;
        assert!((half / arrivals.len() as f64 - 0.25).abs() < 0.02, "{half}");
    }

    proptest! {
        #[test]
        fn the_seed_decides_everything(seed in any::<u64>(), rate in 0.1f64..50.0) {
            let one = poisson(rate, MINUTE, TOKENS, seed).unwrap();
            prop_assert_eq!(&one, &poisson(rate, MINUTE, TOKENS, seed).unwrap());
            prop_assert!(one.is_sorted_by_key(|a| a.at_ns) && one.iter().all(|a| a.at_ns < MINUTE));
            prop_assert_ne!(&one, &poisson(rate + 1.0, MINUTE, TOKENS, seed).unwrap());
        }
    }
}
