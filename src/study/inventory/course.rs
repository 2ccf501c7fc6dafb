//! The course of a device and of the server on it: use, memory, queue and time to the first token at every time the device was read.

use super::signals::{Points, Signal};
use std::collections::BTreeMap;

/// A sample that is older than this stands for nothing any more: Prometheus' own lookback.
const STANDS_MS: i64 = 300_000;

/// What was so at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Milliseconds.
    pub at_ms: i64,
    /// Percent of the time since the last sample in which a kernel ran.
    pub used: Option<f64>,
    /// Percent of the memory that is allocated.
    pub memory: Option<f64>,
    /// Requests that wait, of all engines.
    pub waiting: Option<f64>,
    /// Percent of the KV cache in use, of the fullest engine.
    pub kv: Option<f64>,
    /// Seconds to first tokens since the last sample, their sum and number.
    pub ttft: Option<(f64, f64)>,
}

type Device = BTreeMap<Signal, Points>;
type Engine = BTreeMap<(Signal, String), Points>;

/// The moments of a device, or of a server whose device was not seen.
pub fn course(device: Option<&Device>, engine: Option<&Engine>) -> Vec<Moment> {
    let none = Points::new();
    let of = |signal| device.and_then(|device| device.get(&signal)).unwrap_or(&none);
    let used = used(of);
    let (taken, free) = (of(Signal::MemoryUsed), of(Signal::MemoryFree));
    let mut times: Vec<i64> = match device {
        Some(_) => used.keys().chain(taken.keys()).copied().collect(),
        None => engine.into_iter().flat_map(|engine| engine.values()).flat_map(|points| points.keys().copied()).collect(),
    };
    times.sort_unstable();
    times.dedup();
    let mut before = None;
    let moment = |at_ms: i64| {
        let memory = taken.get(&at_ms).zip(free.get(&at_ms)).filter(|(taken, free)| *taken + *free > 0.0);
        let since = before.replace(at_ms);
        Moment {
            at_ms,
            used: used.get(&at_ms).copied(),
            memory: memory.map(|(taken, free)| taken * 100.0 / (taken + free)),
            waiting: engine
                .and_then(|engine| ranks(engine, Signal::Waiting, |points| standing(points, at_ms)).reduce(|a, b| a + b)),
            kv: engine
                .and_then(|engine| ranks(engine, Signal::KvUsage, |points| standing(points, at_ms)).reduce(f64::max))
                .map(|share| share * 100.0),
            ttft: engine.zip(since).and_then(|(engine, since)| {
                let grew = |signal| ranks(engine, signal, |points| grown(points, since, at_ms)).reduce(|a, b| a + b);
                grew(Signal::TtftSum).zip(grew(Signal::TtftCount))
            }),
        }
    };
    times.into_iter().map(moment).collect()
}

// NVML's utilization first: it is an upper bound, since one small kernel at a time makes it full. So where it is low, use is low.
fn used<'a>(of: impl Fn(Signal) -> &'a Points) -> Points {
    let (utilization, active, cycles, busy) =
        (of(Signal::Utilization), of(Signal::EngineActive), of(Signal::SmActive), of(Signal::BusySeconds));
    let percent = |points: &Points| points.iter().map(|(at, share)| (*at, share * 100.0)).collect();
    match (utilization.is_empty(), active.is_empty(), cycles.is_empty()) {
        (false, ..) => utilization.clone(),
        (true, false, _) => percent(active),
        (true, true, false) => percent(cycles),
        _ => {
            let pairs = busy.iter().zip(busy.iter().skip(1));
            let rate = |((from, before), (to, after)): ((&i64, &f64), (&i64, &f64))| {
                let grew = if after >= before { after - before } else { *after };
                // A kernel is counted when it ends, so a long one can fill more than the time since the last sample.
                (*to, (grew * 1000.0 * 100.0 / (to - from) as f64).min(100.0))
            };
            pairs.map(rate).collect()
        }
    }
}

/// A figure of each engine that has it.
fn ranks<'a>(engine: &'a Engine, signal: Signal, value: impl Fn(&Points) -> Option<f64> + 'a) -> impl Iterator<Item = f64> + 'a {
    engine.iter().filter(move |((of, _), _)| *of == signal).filter_map(move |(_, points)| value(points))
}

fn standing(points: &Points, at_ms: i64) -> Option<f64> {
    points.range(at_ms - STANDS_MS..=at_ms).next_back().map(|(_, value)| *value)
}

/// By how much a counter grew; one that fell began again at 0.
fn grown(points: &Points, from_ms: i64, to_ms: i64) -> Option<f64> {
    let mut before = standing(points, from_ms)?;
    let mut grew = 0.0;
    for value in points.range(from_ms + 1..=to_ms).map(|(_, value)| *value) {
        grew += if value >= before { value - before } else { value };
        before = value;
    }
    Some(grew)
}

/// The longest stretch of moments of which something holds, first to last. A hole in the samples ends it.
pub fn longest_ms(course: &[Moment], holds: impl Fn(&Moment) -> bool) -> i64 {
    let hole = 3 * step_ms(course);
    let (mut longest, mut began, mut last) = (0, None, None);
    for moment in course {
        let apart = last.is_some_and(|last| moment.at_ms - last > hole);
        last = Some(moment.at_ms);
        match holds(moment) {
            true if began.is_none() || apart => began = Some(moment.at_ms),
            true => {}
            false => began = None,
        }
        longest = longest.max(began.map_or(0, |began| moment.at_ms - began));
    }
    longest
}

/// The usual time between moments.
fn step_ms(course: &[Moment]) -> i64 {
    let mut steps: Vec<i64> = course.windows(2).map(|pair| pair[1].at_ms - pair[0].at_ms).collect();
    steps.sort_unstable();
    steps.get(steps.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(values: &[(i64, f64)]) -> Points {
        values.iter().copied().collect()
    }

    #[test]
    fn a_moment_has_what_stood_and_what_grew_since_the_last() {
        let device = Device::from([
            (Signal::BusySeconds, points(&[(0, 5.0), (1000, 5.5), (2000, 0.25), (3000, 9.0)])),
            (Signal::MemoryUsed, points(&[(1000, 3.0)])),
            (Signal::MemoryFree, points(&[(1000, 1.0)])),
        ]);
        let rank = |signal, rank: &str, values: &[(i64, f64)]| ((signal, rank.to_owned()), points(values));
        let engine = Engine::from([
            rank(Signal::Waiting, "0", &[(900, 2.0)]),
            rank(Signal::Waiting, "1", &[(1500, 3.0)]),
            rank(Signal::TtftSum, "0", &[(1000, 4.0), (2000, 6.0), (3000, 1.0)]),
            rank(Signal::TtftCount, "0", &[(1000, 4.0), (2000, 8.0), (3000, 1.0)]),
        ]);
        let course = course(Some(&device), Some(&engine));
        let found: Vec<_> = course.iter().map(|m| (m.at_ms, m.used, m.memory, m.waiting, m.ttft)).collect();
        let expected = [
            (1000, Some(50.0), Some(75.0), Some(2.0), None),
            (2000, Some(25.0), None, Some(5.0), Some((2.0, 4.0))),
            (3000, Some(100.0), None, Some(5.0), Some((1.0, 1.0))),
        ];
        assert_eq!(found, expected);
        assert_eq!(standing(&points(&[(0, 1.0)]), STANDS_MS + 1), None);
    }

    #[test]
    fn a_hole_ends_a_stretch() {
        let moment = |at_ms| Moment { at_ms, used: None, memory: None, waiting: None, kv: None, ttft: None };
        let course: Vec<_> = [0, 10, 20, 30, 500, 510].map(moment).to_vec();
        assert_eq!(longest_ms(&course, |_| true), 30);
        assert_eq!(longest_ms(&course, |m| m.at_ms != 10), 10);
        assert_eq!(longest_ms(&course, |_| false), 0);
    }

    proptest! {
        #[test]
        fn a_device_is_never_used_more_than_all_the_time(values in prop::collection::btree_map(0i64..1_000_000, 0.0f64..1e6, 0..40)) {
            let device = Device::from([(Signal::BusySeconds, values)]);
            let course = course(Some(&device), None);
            prop_assert!(course.iter().all(|m| m.used.is_some_and(|used| (0.0..=100.0).contains(&used))));
            let whole = course.last().map_or(0, |last| last.at_ms - course[0].at_ms);
            prop_assert!(longest_ms(&course, |_| true) <= whole);
        }
    }
}
