//! When each answer came: the requests of an arm as points, thinned to so many that an eye can tell apart.

use super::curves::BUCKETS;
use crate::record::{Outcome, Request};
use serde::Serialize;
use std::collections::BTreeMap;

/// A request as a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// When it was due, in nanoseconds.
    pub due_ns: u64,
    /// From then to its end, served or not.
    pub latency_ns: u64,
    /// It was served.
    pub served: bool,
}

/// The points of an arm: of each piece of the axis the slowest and the fastest that were served, and one that was not.
///
/// # Errors
/// The first error of the stream.
pub fn answers<E>(requests: impl Iterator<Item = Result<Request, E>>, end_ns: u64) -> Result<Vec<Answer>, E> {
    let width = (end_ns / BUCKETS as u64).max(1);
    let mut pieces: BTreeMap<u64, [Option<Answer>; 3]> = BTreeMap::new();
    for request in requests {
        let request = request?;
        let served = request.outcome == Outcome::Ok;
        let latency_ns = request.done_ns.saturating_sub(request.scheduled_ns);
        let answer = Answer { due_ns: request.scheduled_ns, latency_ns, served };
        let [slowest, fastest, failed] = pieces.entry(request.scheduled_ns / width).or_default();
        if !served {
            failed.get_or_insert(answer);
            continue;
        }
        if slowest.is_none_or(|known| known.latency_ns < latency_ns) {
            *slowest = Some(answer);
        }
        if fastest.is_none_or(|known| known.latency_ns > latency_ns) {
            *fastest = Some(answer);
        }
    }
    let mut kept: Vec<_> = pieces.into_values().flatten().flatten().collect();
    kept.sort_by_key(|answer| (answer.due_ns, answer.latency_ns));
    kept.dedup();
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_and_the_fastest_of_a_moment_stay_and_a_failure_too() {
        let request = |scheduled_ns, latency, outcome| {
            Ok::<_, std::convert::Infallible>(Request {
                load: "l".into(),
                phase: "p".into(),
                seq: 0,
                scheduled_ns,
                sent_ns: None,
                first_token_ns: None,
                done_ns: scheduled_ns + latency,
                outcome,
                tokens: 0,
                gaps_ns: vec![],
            })
        };
        let end = BUCKETS as u64 * 100;
        let list = [(5, 30), (6, 10), (7, 20)].map(|(at, latency)| request(at, latency, Outcome::Ok));
        let failed = [request(8, 1, Outcome::Refused), request(9, 1, Outcome::Refused), request(150, 2, Outcome::Refused)];
        let Ok(kept) = answers(list.into_iter().chain(failed), end);
        let kept: Vec<_> = kept.into_iter().map(|a| (a.due_ns, a.latency_ns, a.served)).collect();
        assert_eq!(kept, [(5, 30, true), (6, 10, true), (8, 1, false), (150, 2, false)]);
    }
}
