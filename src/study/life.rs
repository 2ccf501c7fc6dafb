//! The lives of containers and pods, from the events.

use super::result::{Kill, LifeResult};
use super::window::overlap;
use crate::record::{Event, EventKind, Role};
use std::collections::{BTreeMap, BTreeSet};

/// Lives within a stretch of time: each container, and each pod as a whole. `stops` says which pods the script stops as a phase begins:
/// from there to their next start nobody waits for them.
pub fn lives<'a>(events: &[Event], stops: impl Fn(&str) -> &'a [String], from_ns: u64, to_ns: u64) -> Vec<LifeResult> {
    let mut lives: BTreeMap<(String, Option<String>), LifeResult> = BTreeMap::new();
    let mut up: BTreeMap<(String, Option<String>), Readiness> = BTreeMap::new();
    for event in events {
        if let EventKind::PhaseStarted { phase } = &event.kind {
            let stopped = up.iter_mut().filter(|((pod, _), _)| stops(phase).contains(pod));
            stopped.for_each(|(_, readiness)| readiness.stop(event.at_ns));
        }
        let inside = event.at_ns >= from_ns && event.at_ns <= to_ns;
        let Some((pod, container)) = who(&event.kind) else { continue };
        for key in [(pod.to_owned(), Some(container.to_owned())), (pod.to_owned(), None)] {
            let life = lives.entry(key.clone()).or_insert_with(|| LifeResult {
                pod: key.0.clone(),
                container: key.1.clone(),
                ..LifeResult::default()
            });
            if inside {
                count(life, &event.kind);
            }
            up.entry(key).or_default().see(event.at_ns, container, &event.kind);
        }
    }
    for (key, life) in &mut lives {
        life.outage_ns = up[key].outage(from_ns, to_ns);
    }
    lives.into_values().collect()
}

fn who(kind: &EventKind) -> Option<(&str, &str)> {
    match kind {
        EventKind::ContainerStarted { pod, container, .. }
        | EventKind::Ready { pod, container, .. }
        | EventKind::ContainerExited { pod, container, .. }
        | EventKind::BackOff { pod, container, .. } => Some((pod, container)),
        _ => None,
    }
}

fn count(life: &mut LifeResult, kind: &EventKind) {
    match kind {
        EventKind::ContainerStarted { attempt, .. } => {
            life.starts += 1;
            life.restarts += u64::from(*attempt > 0);
        }
        EventKind::ContainerExited { oom_killed, memory_peak, .. } => {
            life.exits += 1;
            life.oom_kills += u64::from(*oom_killed);
            life.memory_peak = life.memory_peak.max(*memory_peak);
        }
        EventKind::BackOff { delay_ns, .. } => life.back_off_ns += delay_ns,
        _ => {}
    }
}

/// When at least one of the containers was started, and when all that were started were ready or the script had stopped them.
#[derive(Debug, Default)]
struct Readiness {
    first_start: Option<u64>,
    stopped: bool,
    known: BTreeSet<String>,
    ready: BTreeSet<String>,
    since: Option<u64>,
    stretches: Vec<(u64, u64)>,
}

impl Readiness {
    fn see(&mut self, at_ns: u64, container: &str, kind: &EventKind) {
        match kind {
            EventKind::ContainerStarted { .. } => {
                self.first_start.get_or_insert(at_ns);
                self.stopped = false;
                self.known.insert(container.to_owned());
            }
            EventKind::Ready { ready: true, .. } => drop(self.ready.insert(container.to_owned())),
            EventKind::Ready { ready: false, .. } => drop(self.ready.remove(container)),
            // Done for good, as an init container: nothing waits for it any more.
            EventKind::ContainerExited { code: Some(0), .. } => {
                self.ready.remove(container);
                self.known.remove(container);
            }
            EventKind::ContainerExited { .. } => drop(self.ready.remove(container)),
            _ => {}
        }
        self.mark(at_ns);
    }

    fn stop(&mut self, at_ns: u64) {
        self.stopped = true;
        self.known.clear();
        self.mark(at_ns);
    }

    fn mark(&mut self, at_ns: u64) {
        let well = self.stopped || !self.known.is_empty() && self.known.is_subset(&self.ready);
        match (well, self.since) {
            (true, None) => self.since = Some(at_ns),
            (false, Some(since)) => {
                self.stretches.push((since, at_ns));
                self.since = None;
            }
            _ => {}
        }
    }

    fn outage(&self, from_ns: u64, to_ns: u64) -> u64 {
        let Some(first) = self.first_start else { return 0 };
        let stretch = (from_ns.max(first), to_ns);
        let open = self.since.map(|since| (since, u64::MAX));
        let up: u64 = self.stretches.iter().copied().chain(open).map(|s| overlap(s, stretch)).sum();
        stretch.1.saturating_sub(stretch.0) - up
    }
}

/// Containers that the OOM killer ended, with the limit that was hit as the kernel named it.
pub fn kills(events: &[Event]) -> Vec<Kill> {
    let mut limits: Vec<(String, String)> = Vec::new();
    let mut cgroups: BTreeMap<(&str, &str, u32), &str> = BTreeMap::new();
    let mut found = Vec::new();
    for event in events {
        match &event.kind {
            EventKind::ContainerStarted { pod, container, attempt, cgroup } => {
                cgroups.insert((pod, container, *attempt), cgroup);
            }
            EventKind::OomKill { oom_memcg, task_memcg, .. } => limits.push((task_memcg.clone(), oom_memcg.clone())),
            _ => {}
        }
    }
    for event in events {
        if let EventKind::ContainerExited { pod, container, attempt, oom_killed: true, .. } = &event.kind {
            let cgroup = cgroups.get(&(pod.as_str(), container.as_str(), *attempt)).copied();
            let limit_of = limits.iter().find(|(task, _)| Some(task.as_str()) == cgroup).map(|(_, limit)| limit.clone());
            found.push(Kill { at_ns: event.at_ns, pod: pod.clone(), container: container.clone(), attempt: *attempt, limit_of });
        }
    }
    found
}

/// The roles that have a cgroup at a moment: what the verdict on the ledger may ask for.
pub fn alive(events: &[Event], at_ns: u64) -> impl Fn(&Role) -> bool + use<> {
    let mut containers = BTreeSet::new();
    let mut pods = BTreeSet::new();
    for event in events.iter().filter(|e| e.at_ns <= at_ns) {
        match &event.kind {
            EventKind::ContainerStarted { pod, container, .. } => {
                containers.insert((pod.clone(), container.clone()));
                pods.insert(pod.clone());
            }
            EventKind::ContainerExited { pod, container, .. } => drop(containers.remove(&(pod.clone(), container.clone()))),
            _ => {}
        }
    }
    move |role| match role {
        Role::Container { pod, container } => containers.contains(&(pod.clone(), container.clone())),
        // A pod whose containers have all ended may wait for a restart or be gone; its cgroup proves nothing either way.
        Role::Pod { pod } | Role::Sandbox { pod } => pods.contains(pod) && containers.iter().any(|(p, _)| p == pod),
        Role::Kubepods | Role::Qos { .. } => true,
        Role::Node | Role::System { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn events() -> Vec<Event> {
        let (pod, container) = (|| "p".to_owned(), || "c".to_owned());
        let start = |attempt| EventKind::ContainerStarted {
            pod: pod(),
            container: container(),
            attempt,
            cgroup: format!("/p/{attempt}"),
        };
        let ready = |ready| EventKind::Ready { pod: pod(), container: container(), ready };
        let exit = EventKind::ContainerExited {
            pod: pod(),
            container: container(),
            attempt: 0,
            code: None,
            signal: Some(9),
            oom_killed: true,
            memory_peak: Some(7),
        };
        let oom = EventKind::OomKill {
            constraint: "CONSTRAINT_MEMCG".into(),
            oom_memcg: "/p".into(),
            task_memcg: "/p/0".into(),
            task: "x".into(),
        };
        let back_off = EventKind::BackOff { pod: pod(), container: container(), delay_ns: 10 * S };
        let list = [
            (1, start(0)),
            (2, ready(true)),
            (5, oom),
            (5, ready(false)),
            (5, exit),
            (5, back_off),
            (15, start(1)),
            (16, ready(true)),
        ];
        list.into_iter().map(|(s, kind)| Event { at_ns: s * S, kind }).collect()
    }

    #[test]
    fn a_life_is_counted_within_its_stretch() {
        let whole = lives(&events(), |_| &[], 0, 20 * S);
        assert_eq!(whole.len(), 2);
        for life in &whole {
            assert_eq!((life.starts, life.restarts, life.exits, life.oom_kills), (2, 1, 1, 1));
            assert_eq!((life.outage_ns, life.back_off_ns, life.memory_peak), ((1 + 11) * S, 10 * S, Some(7)));
        }
        assert_eq!(lives(&events(), |_| &[], 10 * S, 20 * S)[0].outage_ns, 6 * S);
        assert_eq!(lives(&events(), |_| &[], 10 * S, 20 * S)[0].exits, 0);
    }

    #[test]
    fn nobody_waits_for_a_pod_that_the_script_stopped() {
        let pods = ["p".to_owned()];
        let stops = |phase: &str| if phase == "stop" { &pods[..] } else { &[] };
        let mut list = events();
        list.insert(6, Event { at_ns: 8 * S, kind: EventKind::PhaseStarted { phase: "stop".into() } });
        // Down from 5 to 8, not waited for until 15, then a second until it is ready.
        assert_eq!(lives(&list, stops, 0, 20 * S)[0].outage_ns, (1 + 3 + 1) * S);
        assert_eq!(lives(&list, |_| &[], 0, 20 * S)[0].outage_ns, (1 + 11) * S);
    }

    #[test]
    fn a_kill_names_the_limit_that_was_hit() {
        let kills = kills(&events());
        assert_eq!(kills.len(), 1);
        assert_eq!(kills[0].limit_of.as_deref(), Some("/p"));
    }

    #[test]
    fn only_what_runs_has_a_cgroup() {
        let role = Role::Container { pod: "p".into(), container: "c".into() };
        assert!(alive(&events(), 3 * S)(&role));
        assert!(!alive(&events(), 6 * S)(&role));
        assert!(alive(&events(), 15 * S)(&role));
    }
}
