//! A run's samples as a scraper would have read them: what stood at every step, cgroup by cgroup.

use crate::record::{Event, EventKind, Frame, Metric, Role};
use std::collections::BTreeMap;

/// What stood at a step.
#[derive(Debug)]
pub struct Scrape<'a> {
    /// Virtual nanoseconds since the arm began.
    pub at_ns: u64,
    /// The cgroups that were there, by role: the newest start of a container only.
    pub cgroups: &'a BTreeMap<Role, Stood>,
}

/// A cgroup, or the node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stood {
    /// Which start, for containers.
    pub attempt: u32,
    /// Its path.
    pub cgroup: String,
    /// Metrics as they stand; one that never changed from 0 is absent.
    pub values: BTreeMap<Metric, u64>,
    /// Metrics that this kernel does not offer.
    pub unsupported: Vec<Metric>,
}

/// Reads an arm's samples and gives what stood at each step, the end included. A container that has ended is gone until its next start.
///
/// # Errors
/// The first error of the stream.
pub fn scrape<E>(
    step_ns: u64,
    events: &[Event],
    samples: impl Iterator<Item = Result<Frame, E>>,
    mut each: impl FnMut(&Scrape<'_>),
) -> Result<(), E> {
    let exits = events.iter().filter_map(|event| match &event.kind {
        EventKind::ContainerExited { pod, container, attempt, .. } => {
            Some((event.at_ns, Role::Container { pod: pod.clone(), container: container.clone() }, *attempt))
        }
        _ => None,
    });
    let mut exits = exits.peekable();
    let (mut watches, mut cgroups) = (BTreeMap::new(), BTreeMap::<Role, Stood>::new());
    let (step_ns, mut next, mut now) = (step_ns.max(1), 0, 0);
    let mut reach = |at_ns: u64, cgroups: &mut BTreeMap<Role, Stood>| {
        while next < at_ns {
            while let Some((_, role, attempt)) = exits.next_if(|(at, ..)| *at <= next) {
                if cgroups.get(&role).is_some_and(|c| c.attempt == attempt) {
                    cgroups.remove(&role);
                }
            }
            // Nothing has been read yet at the very beginning.
            if !cgroups.is_empty() {
                each(&Scrape { at_ns: next, cgroups });
            }
            next += step_ns;
        }
    };
    for frame in samples {
        match frame? {
            Frame::Watch(watch) => {
                watches.insert(watch.id, (watch.role.clone(), watch.attempt));
                let standing = Stood {
                    attempt: watch.attempt,
                    cgroup: watch.cgroup,
                    values: BTreeMap::new(),
                    unsupported: watch.unsupported,
                };
                cgroups.insert(watch.role, standing);
            }
            Frame::Tick(tick) => {
                reach(tick.at_ns, &mut cgroups);
                now = tick.at_ns;
                for change in &tick.changes {
                    let Some((role, attempt)) = watches.get(&change.watch) else { continue };
                    if let Some(standing) = cgroups.get_mut(role).filter(|c| c.attempt == *attempt) {
                        let value = standing.values.entry(change.metric).or_default();
                        *value = value.saturating_add_signed(change.delta);
                    }
                }
            }
            Frame::Done { at_ns, .. } => now = at_ns,
            _ => {}
        }
    }
    reach(now + 1, &mut cgroups);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Change, Tick, Watch};

    #[test]
    fn a_container_is_gone_between_its_end_and_its_next_start() {
        let role = Role::Container { pod: "p".into(), container: "c".into() };
        let watch = |id, attempt| {
            Frame::Watch(Watch { id, role: role.clone(), cgroup: format!("/{attempt}"), attempt, unsupported: vec![] })
        };
        let node = Frame::Watch(Watch { id: 9, role: Role::Node, cgroup: "/".into(), attempt: 0, unsupported: vec![] });
        let tick = |at_ns, watch, delta| {
            Frame::Tick(Tick { at_ns, changes: vec![Change { watch, metric: Metric::MemoryCurrent, delta }] })
        };
        let exit = Event {
            at_ns: 15,
            kind: EventKind::ContainerExited {
                pod: "p".into(),
                container: "c".into(),
                attempt: 0,
                code: Some(0),
                signal: None,
                oom_killed: false,
                memory_peak: None,
            },
        };
        let frames = [node, watch(0, 0), tick(1, 0, 100), tick(12, 0, -40), watch(1, 1), tick(31, 1, 7)];
        let frames = frames.into_iter().chain([Frame::Done { at_ns: 40, busy_ns: 1 }]);
        let mut seen = Vec::new();
        let each =
            |s: &Scrape<'_>| seen.push((s.at_ns, s.cgroups.get(&role).map(|c| c.values.get(&Metric::MemoryCurrent).copied())));
        scrape::<()>(10, &[exit], frames.map(Ok), each).unwrap();
        // At 20 the second start's watch is known already, but nothing was read of it.
        assert_eq!(seen, [(0, Some(None)), (10, Some(Some(100))), (20, Some(None)), (30, Some(None)), (40, Some(Some(7)))]);
    }
}
