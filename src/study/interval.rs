//! The mean over seeds with its interval: Student's t, as for paired observations.
//!
//! Runs with the same seed in two arms are a pair: their difference is what the policy made, whatever the seed made. The interval of the
//! mean difference is mean ± t · s / √n with t of n − 1 degrees of freedom (Student, "The probable error of a mean", Biometrika 1908;
//! NIST/SEMATECH e-Handbook of Statistical Methods, 7.3.1.1 "Analysis of paired observations").

use serde::{Deserialize, Serialize};

/// Two-sided confidence of every interval.
pub const CONFIDENCE: f64 = 0.95;

/// A mean and the interval in which the true one lies with [`CONFIDENCE`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// The mean of the observations.
    pub mean: f64,
    /// Upper end.
    pub high: f64,
}

/// The interval of a mean; none of fewer than two observations, which have no spread.
#[must_use]
pub fn interval(observations: &[f64]) -> Option<Interval> {
    let n = observations.len();
    if n < 2 {
        return None;
    }
    // Around the first one, so that observations that are all equal have exactly no spread.
    let first = observations[0];
    let offset = observations.iter().map(|x| x - first).sum::<f64>() / n as f64;
    let squares: f64 = observations.iter().map(|x| (x - first - offset).powi(2)).sum();
    let half = quantile(n - 1) * (squares / (n - 1) as f64 / n as f64).sqrt();
    let mean = first + offset;
    Some(Interval { low: mean - half, mean, high: mean + half })
}

/// The t that is exceeded on either side with 1 − [`CONFIDENCE`] together, by bisection.
fn quantile(freedom: usize) -> f64 {
    let (mut low, mut high) = (0.0, 13.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if within(middle, freedom) < CONFIDENCE { low = middle } else { high = middle }
    }
    high
}

/// The probability that |T| ≤ t: the finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4.
fn within(t: f64, freedom: usize) -> f64 {
    let n = freedom as f64;
    let (sine, cosine) = (t / (n + t * t).sqrt(), (n / (n + t * t)).sqrt());
    let odd = freedom % 2 == 1;
    let (mut term, mut sum) = (if odd { cosine } else { 1.0 }, 0.0);
    let mut k = if odd { 1 } else { 0 };
    while k + 2 <= freedom {
        sum += term;
        term *= cosine * cosine * (k + 1) as f64 / (k + 2) as f64;
        k += 2;
    }
    if odd { std::f64::consts::FRAC_2_PI * ((t / n.sqrt()).atan() + sine * sum) } else { sine * sum }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};

    #[test]
    fn the_quantiles_are_those_of_the_tables() {
        // NIST/SEMATECH e-Handbook, 1.3.6.7.2, column 0.975.
        for (freedom, t) in [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (7, 2.365), (15, 2.131), (30, 2.042), (100, 1.984)]
        {
            assert!((quantile(freedom) - t).abs() < 5e-4, "{freedom}: {}", quantile(freedom));
        }
    }

    #[test]
    fn a_worked_example() {
        // Differences 1 to 8: mean 4.5, s = √6, half-width 2.3646 · √6 / √8.
        let found = interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).unwrap();
        assert!((found.mean - 4.5).abs() < 1e-12 && (found.high - found.mean - 2.0478).abs() < 1e-3, "{found:?}");
        assert_eq!(interval(&[3.0]), None);
        assert_eq!(interval(&[0.1; 5]), Some(Interval { low: 0.1, mean: 0.1, high: 0.1 }));
    }

    /// What 95 % means: of many experiments on a known distribution, so many intervals hold its mean.
    #[test]
    fn nineteen_of_twenty_intervals_hold_the_true_mean() {
        let mut random = rand::rngs::ChaCha8Rng::seed_from_u64(7);
        let mut uniform = move || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut normal = || (-2.0 * (1.0 - uniform()).ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        let (all, mut held) = (4000, 0);
        for _ in 0..all {
            let seeds: Vec<f64> = (0..8).map(|_| 10.0 + 3.0 * normal()).collect();
            let found = interval(&seeds).unwrap();
            held += usize::from(found.low <= 10.0 && 10.0 <= found.high);
        }
        let share = held as f64 / all as f64;
        assert!((0.94..0.96).contains(&share), "{share}");
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs()))
    }

    proptest! {
        #[test]
        fn moving_and_stretching_the_observations_moves_and_stretches_the_interval(
            observations in proptest::collection::vec(-1e3f64..1e3, 2..20), by in -1e3f64..1e3, times in 0.01f64..100.0,
        ) {
            let plain = interval(&observations).unwrap();
            prop_assert!(plain.low <= plain.mean && plain.mean <= plain.high);
            let moved: Vec<_> = observations.iter().map(|x| x * times + by).collect();
            let moved = interval(&moved).unwrap();
            for (a, b) in [(plain.low, moved.low), (plain.mean, moved.mean), (plain.high, moved.high)] {
                prop_assert!(near(a * times + by, b), "{a} {b}");
            }
        }

        #[test]
        fn the_order_of_seeds_does_not_count_and_twice_the_evidence_is_narrower(
            observations in proptest::collection::vec(-1e3f64..1e3, 3..12),
        ) {
            let plain = interval(&observations).unwrap();
            let back: Vec<_> = observations.iter().rev().copied().collect();
            let turned = interval(&back).unwrap();
            prop_assert!(near(plain.low, turned.low) && near(plain.high, turned.high));
            let twice = interval(&[observations.clone(), observations].concat()).unwrap();
            prop_assert!(twice.high - twice.low <= plain.high - plain.low + 1e-9);
        }
    }
}
