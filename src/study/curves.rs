//! Curves for charts: the samples of an arm, thinned to so many points that an eye can tell apart.

use super::memory::{Levels, is_gauge};
use crate::record::{Frame, Metric, Role};
use serde::Serialize;
use std::collections::BTreeMap;

/// Points of a curve at most.
pub const BUCKETS: usize = 240;

/// Curves of an arm on one time axis.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Curves {
    /// Virtual nanoseconds at the end of the axis.
    pub end_ns: u64,
    /// The curves, by role and metric.
    pub list: Vec<Curve>,
}

/// One curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// Whose.
    pub role: Role,
    /// What.
    pub metric: Metric,
    /// Nanoseconds, and the level (of a gauge, the largest in its bucket) or the growth per second (of a counter).
    pub points: Vec<(u64, f64)>,
}

/// Draws the wanted curves from the samples.
///
/// # Errors
/// The first error of the stream.
pub fn curves<E>(
    samples: impl Iterator<Item = Result<Frame, E>>,
    end_ns: u64,
    wanted: impl Fn(&Role, Metric) -> bool,
) -> Result<Curves, E> {
    let width = (end_ns / BUCKETS as u64).max(1);
    let bucket = |at_ns: u64| ((at_ns / width) as usize).min(BUCKETS - 1);
    let mut levels = Levels::default();
    let mut drawn: BTreeMap<(Role, Metric), Drawing> = BTreeMap::new();
    for frame in samples {
        match frame? {
            Frame::Watch(watch) => levels.watch(&watch),
            Frame::Tick(tick) => levels.tick(&tick, |reading| {
                if wanted(reading.role, reading.metric) {
                    let drawing = drawn.entry((reading.role.clone(), reading.metric)).or_default();
                    let value = if is_gauge(reading.metric) { reading.level } else { reading.grew };
                    drawing.add(bucket(tick.at_ns), value as f64, is_gauge(reading.metric));
                }
            }),
            _ => {}
        }
    }
    let list = drawn.into_iter().map(|((role, metric), drawing)| {
        let per_second = if is_gauge(metric) { 1.0 } else { 1e9 / width as f64 };
        let points = drawing.points(is_gauge(metric)).map(|(b, v)| (b as u64 * width + width / 2, v * per_second)).collect();
        Curve { role, metric, points }
    });
    Ok(Curves { end_ns, list: list.collect() })
}

#[derive(Default)]
struct Drawing {
    buckets: BTreeMap<usize, (f64, f64)>,
}

impl Drawing {
    fn add(&mut self, bucket: usize, value: f64, gauge: bool) {
        let (most, last) = self.buckets.entry(bucket).or_insert((0.0, 0.0));
        if gauge {
            *most = most.max(value);
            *last = value;
        } else {
            *most += value;
        }
    }

    /// A gauge that did not change stands where it stood; a counter that did not change did not grow.
    fn points(self, gauge: bool) -> impl Iterator<Item = (usize, f64)> {
        let first = self.buckets.keys().next().copied().unwrap_or(BUCKETS);
        let mut standing = 0.0;
        (first..BUCKETS).map(move |b| match self.buckets.get(&b) {
            Some((most, last)) => {
                // What stood at the bucket's start may be more than all that was read in it.
                let value = if gauge { most.max(standing) } else { *most };
                standing = *last;
                (b, value)
            }
            None => (b, if gauge { standing } else { 0.0 }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Change, Tick, Watch};

    #[test]
    fn gauges_stand_and_counters_become_rates() {
        let watch = Frame::Watch(Watch { id: 0, role: Role::Kubepods, cgroup: "/".into(), attempt: 0, unsupported: vec![] });
        let tick = |at_ns, current, faults| {
            let change = |metric, delta| Change { watch: 0, metric, delta };
            Frame::Tick(Tick {
                at_ns,
                changes: vec![change(Metric::MemoryCurrent, current), change(Metric::StatPgmajfault, faults)],
            })
        };
        let second = 1_000_000_000;
        let end = BUCKETS as u64 * second;
        let frames = [watch, tick(0, 100, 5), tick(2 * second, -40, 7), tick(2 * second + 1, -50, 0)];
        let curves = curves::<()>(frames.into_iter().map(Ok), end, |_, _| true).unwrap();
        let values = |i: usize| curves.list[i].points.iter().take(5).map(|p| p.1).collect::<Vec<_>>();
        assert_eq!(values(0), [100.0, 100.0, 100.0, 10.0, 10.0]);
        assert_eq!(values(1), [5.0, 0.0, 7.0, 0.0, 0.0]);
        assert_eq!(curves.list[0].points.len(), BUCKETS);
    }
}
