//! A run's samples as Prometheus would have read them, and when each alert would have fired on them.
//!
//! Time is stretched: one second of the lab stands for `timeScale` seconds of the source. Levels stay as they are and rates are kept,
//! so counters are multiplied. Evaluation follows Prometheus 2: rate() extrapolates, an alert fires once its condition has held at every
//! evaluation for as long as it says, and a container that was started again is another series.

use super::result::{AlertResult, Firing, Kill};
use crate::lab::{AlertRule, AlertWhen, Alerts};
use crate::record::{Event, EventKind, Frame, Metric, Plan, Role};
use std::collections::BTreeMap;

/// The range of rate(), in the source's nanoseconds.
pub const RATE_WINDOW: u64 = 300_000_000_000;

/// Exported figures on the grid of evaluations.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Telemetry {
    /// Time between evaluations, in the lab's nanoseconds.
    pub step_ns: u64,
    /// Reads per second that the swap devices did when they were measured; none without swap.
    pub iops: Option<f64>,
    /// Swap of each start of each container.
    pub containers: Vec<Container>,
    /// Free swap of the node.
    pub swap_free: Series,
    /// All swap of the node: what was free when the arm began, before anything was swapped.
    pub swap_total: Series,
    /// Pages read from swap, times the scale.
    pub swapped_in: Series,
    /// Pages written to swap, times the scale.
    pub swapped_out: Series,
}

/// Values on the grid; none where there is no such series.
pub type Series = Vec<Option<f64>>;

/// A start of a container.
#[derive(Debug, Clone, PartialEq)]
pub struct Container {
    /// The pod.
    pub pod: String,
    /// The container.
    pub container: String,
    /// Which start.
    pub attempt: u32,
    /// Its cgroup.
    pub cgroup: String,
    /// Its swap in bytes.
    pub swap: Series,
    /// Its swap limit in bytes as cAdvisor exports it: 0 where the file says max.
    pub limit: f64,
}

/// Reads the samples of an arm.
///
/// # Errors
/// The first error of the stream.
pub fn telemetry<E>(
    alerts: &Alerts,
    plan: &Plan,
    events: &[Event],
    iops: Option<f64>,
    samples: impl Iterator<Item = Result<Frame, E>>,
) -> Result<Telemetry, E> {
    let mut reader = Reader::new(alerts, plan, events, iops);
    for frame in samples {
        match frame? {
            Frame::Watch(watch) => reader.watch(watch.id, &watch.role, watch.attempt),
            Frame::Tick(tick) => {
                reader.until(tick.at_ns, false);
                for change in &tick.changes {
                    *reader.values.entry((change.watch, change.metric)).or_default() += change.delta;
                }
                if reader.total.is_none() {
                    reader.total = reader.node(Metric::SwapFree);
                }
            }
            Frame::Done { at_ns, .. } => reader.until(at_ns, true),
            _ => {}
        }
    }
    Ok(reader.telemetry)
}

struct Reader {
    telemetry: Telemetry,
    scale: f64,
    /// Start and end of each container of the telemetry.
    lives: Vec<(u64, u64)>,
    watches: Vec<Option<u16>>,
    node: Option<u16>,
    values: BTreeMap<(u16, Metric), i64>,
    total: Option<f64>,
    steps: u64,
}

impl Reader {
    fn new(alerts: &Alerts, plan: &Plan, events: &[Event], iops: Option<f64>) -> Reader {
        let (mut containers, mut lives) = (Vec::new(), Vec::new());
        for event in events {
            if let EventKind::ContainerStarted { pod, container, attempt, cgroup } = &event.kind {
                containers.push(Container {
                    pod: pod.clone(),
                    container: container.clone(),
                    attempt: *attempt,
                    cgroup: cgroup.clone(),
                    swap: Vec::new(),
                    limit: limit(plan, pod, container),
                });
                lives.push((event.at_ns, u64::MAX));
            }
            if let EventKind::ContainerExited { pod, container, attempt, .. } = &event.kind {
                let ended = containers.iter().position(|c| (&c.pod, &c.container, c.attempt) == (pod, container, *attempt));
                if let Some(index) = ended {
                    lives[index].1 = event.at_ns;
                }
            }
        }
        Reader {
            watches: vec![None; containers.len()],
            telemetry: Telemetry { step_ns: alerts.step_ns().max(1), iops, containers, ..Telemetry::default() },
            scale: f64::from(alerts.time_scale),
            lives,
            node: None,
            values: BTreeMap::new(),
            total: None,
            steps: 0,
        }
    }

    fn watch(&mut self, id: u16, role: &Role, attempt: u32) {
        match role {
            Role::Node => self.node = Some(id),
            Role::Container { pod, container } => {
                let known = |c: &Container| (&c.pod, &c.container, c.attempt) == (pod, container, attempt);
                if let Some(index) = self.telemetry.containers.iter().position(known) {
                    self.watches[index] = Some(id);
                }
            }
            _ => {}
        }
    }

    fn node(&self, metric: Metric) -> Option<f64> {
        self.values.get(&(self.node?, metric)).map(|value| *value as f64)
    }

    /// Fills the grid up to a moment with what was known before it.
    fn until(&mut self, at_ns: u64, inclusive: bool) {
        while self.steps * self.telemetry.step_ns < at_ns + u64::from(inclusive) {
            let now = self.steps * self.telemetry.step_ns;
            for ((container, life), watch) in self.telemetry.containers.iter_mut().zip(&self.lives).zip(&self.watches) {
                let value = |id: u16| self.values.get(&(id, Metric::MemorySwapCurrent)).copied().unwrap_or(0) as f64;
                container.swap.push(watch.filter(|_| (life.0..life.1).contains(&now)).map(value));
            }
            let (free, scale) = (self.node(Metric::SwapFree), self.scale);
            let (read, written) = (self.node(Metric::VmPswpin), self.node(Metric::VmPswpout));
            self.telemetry.swap_free.push(free);
            self.telemetry.swap_total.push(self.total);
            // A counter that was 0 since boot is never reported as a change.
            let known = self.node.filter(|_| free.is_some());
            self.telemetry.swapped_in.push(known.map(|_| read.unwrap_or(0.0) * scale));
            self.telemetry.swapped_out.push(known.map(|_| written.unwrap_or(0.0) * scale));
            self.steps += 1;
        }
    }
}

/// memory.swap.max of a container as planned; "max", and nothing written, count as no limit.
fn limit(plan: &Plan, pod: &str, container: &str) -> f64 {
    let role = Role::Container { pod: pod.to_owned(), container: container.to_owned() };
    let value = plan.cgroup(&role).and_then(|cgroup| cgroup.value("memory.swap.max"));
    value.and_then(|value| value.parse().ok()).unwrap_or(0.0)
}

/// Evaluates the alerts at every step.
#[must_use]
pub fn evaluate(alerts: &Alerts, telemetry: &Telemetry, kills: &[Kill]) -> Vec<AlertResult> {
    alerts.rules.iter().map(|rule| one(alerts, rule, telemetry, kills)).collect()
}

fn one(alerts: &Alerts, rule: &AlertRule, telemetry: &Telemetry, kills: &[Kill]) -> AlertResult {
    let steps = telemetry.swap_free.len();
    let every = alerts.every.0;
    let mut firings = Vec::new();
    let mut fires = |series: usize, of: String, holds: &dyn Fn(usize) -> bool| {
        let mut since: Option<usize> = None;
        let mut open: Option<Firing> = None;
        for step in 0..steps {
            since = if holds(step) { since.or(Some(step)) } else { None };
            let firing = since.is_some_and(|since| (step - since) as u64 * every >= rule.hold.0);
            let now = step as u64 * telemetry.step_ns;
            match (&mut open, firing) {
                (Some(open), true) => open.to_ns = now,
                (None, true) => open = Some(Firing { series, of: of.clone(), from_ns: now, to_ns: now }),
                (_, false) => firings.extend(open.take()),
            }
        }
        firings.extend(open);
    };
    match rule.when {
        AlertWhen::ContainerSwapAbove(share) => {
            for (index, container) in telemetry.containers.iter().enumerate() {
                let of = format!("{}/{} start {}", container.pod, container.container, container.attempt);
                let above = |step: usize| {
                    container.limit > 0.0 && container.swap[step].is_some_and(|swap| swap / container.limit > share)
                };
                fires(index, of, &above);
            }
        }
        AlertWhen::NodeSwapFreeBelow(share) => {
            let below = |step: usize| match (telemetry.swap_free[step], telemetry.swap_total[step]) {
                (Some(free), Some(total)) if total > 0.0 => free / total < share,
                _ => false,
            };
            fires(0, "node".to_owned(), &below);
        }
        AlertWhen::SwapIoAboveDevice(times) => {
            let Some(iops) = telemetry.iops else {
                return AlertResult { name: rule.name.clone(), firings, lead_ns: None, missed: kills.len() as u64 };
            };
            let above = |step: usize| {
                let (read, written) = (rate(&telemetry.swapped_in, step, every), rate(&telemetry.swapped_out, step, every));
                read.zip(written).is_some_and(|(read, written)| read + written > threshold(times, iops))
            };
            fires(0, "node".to_owned(), &above);
        }
    }
    firings.sort_by_key(|firing| (firing.from_ns, firing.series));
    let about_containers = matches!(rule.when, AlertWhen::ContainerSwapAbove(_));
    let (mut lead_ns, mut missed, mut since) = (None::<u64>, 0, 0);
    for kill in kills {
        let own = |firing: &&Firing| {
            let container = telemetry.containers.get(firing.series).filter(|_| about_containers);
            container.is_none_or(|c| (&c.pod, &c.container, c.attempt) == (&kill.pod, &kill.container, kill.attempt))
        };
        let before = firings.iter().filter(own).find(|firing| firing.from_ns <= kill.at_ns && firing.to_ns >= since);
        match before {
            Some(firing) => lead_ns = Some(lead_ns.map_or(u64::MAX, |lead| lead).min(kill.at_ns - firing.from_ns)),
            None => missed += 1,
        }
        since = kill.at_ns;
    }
    AlertResult { name: rule.name.clone(), firings, lead_ns, missed }
}

/// The bound of swap I/O in pages per second, rounded down to a whole number so that it is written as it is compared.
#[must_use]
pub fn threshold(times: f64, iops: f64) -> f64 {
    (times * iops).floor()
}

/// rate() of Prometheus 2 over [`RATE_WINDOW`] for a counter without resets that is read at every evaluation.
fn rate(series: &[Option<f64>], step: usize, every: u64) -> Option<f64> {
    let window = (RATE_WINDOW / every) as usize;
    let begin = step.saturating_sub(window);
    let first = (begin..step).find(|at| series[*at].is_some())?;
    let (from, to) = (series[first]?, series[step]?);
    let seconds = |steps: usize| (steps as u64 * every) as f64 / 1e9;
    let (sampled, range) = (seconds(step - first), RATE_WINDOW as f64 / 1e9);
    let spacing = sampled / (step - first) as f64;
    let grew = to - from;
    // What lies between the window's start and the first sample; the counter is not extended below zero.
    let mut before = range - sampled;
    if grew > 0.0 && from >= 0.0 {
        before = before.min(sampled * (from / grew));
    }
    let extended = sampled + if before < spacing * 1.1 { before } else { spacing / 2.0 };
    Some(grew * (extended / sampled / range))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::Span;

    const S: u64 = 1_000_000_000;

    fn alerts(hold: u64, when: AlertWhen) -> Alerts {
        let rule = AlertRule { name: "A".into(), says: String::new(), reading: String::new(), when, hold: Span(hold) };
        Alerts { time_scale: 60, how: String::new(), every: Span(60 * S), rules: vec![rule] }
    }

    fn telemetry(swap: &[f64]) -> Telemetry {
        let steps = swap.len();
        let values: Series = swap.iter().map(|v| Some(*v)).collect();
        let container = |attempt, limit| Container {
            pod: "p".into(),
            container: "c".into(),
            attempt,
            cgroup: "/c".into(),
            swap: values.clone(),
            limit,
        };
        Telemetry {
            step_ns: S,
            iops: Some(10.0),
            containers: vec![container(0, 100.0), container(1, 0.0)],
            swap_free: swap.iter().map(|v| Some(100.0 - v)).collect(),
            swap_total: vec![Some(100.0); steps],
            swapped_in: values.clone(),
            swapped_out: vec![Some(0.0); steps],
        }
    }

    fn kill(at_ns: u64, attempt: u32) -> Kill {
        Kill { at_ns, pod: "p".into(), container: "c".into(), attempt, limit_of: None }
    }

    #[test]
    fn an_alert_fires_when_its_condition_has_held_long_enough() {
        let swap = [0.0, 60.0, 60.0, 60.0, 40.0, 60.0, 60.0, 60.0];
        let found = evaluate(
            &alerts(120 * S, AlertWhen::ContainerSwapAbove(0.5)),
            &telemetry(&swap),
            &[kill(3 * S + 7, 0), kill(8 * S, 1)],
        );
        let spans: Vec<_> = found[0].firings.iter().map(|f| (f.series, f.from_ns / S, f.to_ns / S)).collect();
        // Two minutes of the source are two seconds here; a container without a limit never fires.
        assert_eq!(spans, [(0, 3, 3), (0, 7, 7)]);
        assert_eq!((found[0].lead_ns, found[0].missed), (Some(7), 1));
    }

    #[test]
    fn free_swap_is_a_share_of_all_swap() {
        let found = evaluate(&alerts(0, AlertWhen::NodeSwapFreeBelow(0.2)), &telemetry(&[0.0, 81.0, 80.0, 90.0]), &[]);
        let spans: Vec<_> = found[0].firings.iter().map(|f| (f.from_ns / S, f.to_ns / S)).collect();
        assert_eq!(spans, [(1, 1), (3, 3)]);
    }

    #[test]
    fn a_rate_is_extended_to_the_window_but_not_below_zero() {
        let grows: Series = (0..8).map(|n| Some(f64::from(n) * 600.0)).collect();
        // A whole window: no extension.
        assert_eq!(rate(&grows, 7, 60 * S), Some(10.0));
        // From zero: two minutes are all there is.
        assert_eq!(rate(&grows, 2, 60 * S), Some(4.0));
        // From above zero: half a sample more at the start.
        let later: Series = (0..8).map(|n| Some(6000.0 + f64::from(n) * 600.0)).collect();
        assert_eq!(rate(&later, 2, 60 * S), Some(5.0));
        assert_eq!(rate(&later, 0, 60 * S), None);
    }
}
