//! What stands in an arm, from its frames: phase, virtual time, memory of each pod, swap, pressure, what happened.

use crate::record::{Event, EventKind, Frame, Metric, Plan, Role};
use crate::report::sentence;
use crate::study::Levels;
use std::collections::{BTreeMap, VecDeque};

/// Pressure is the share of so much virtual time.
const WINDOW_NS: u64 = 1_000_000_000;

/// How far an arm is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// It has not said anything.
    Waiting,
    /// Its script is played.
    Running,
    /// Its script has ended.
    Done,
    /// Its node failed.
    Failed(String),
}

/// The state of an arm.
#[derive(Debug)]
pub struct State {
    /// Its name, with the seed where there are several.
    pub name: String,
    /// How far it is.
    pub stage: Stage,
    /// The phase; empty before the first.
    pub phase: String,
    /// Virtual nanoseconds since it began.
    pub at_ns: u64,
    /// What happened, all of it.
    pub events: Vec<(u64, String)>,
    plan: Plan,
    levels: Levels,
    now: BTreeMap<(Role, Metric), u64>,
    stalled: BTreeMap<Role, VecDeque<(u64, u64)>>,
    shown: (u64, usize, Option<Stage>),
}

/// The memory of a pod or of the node.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// The pod; none for the node.
    pub pod: Option<String>,
    /// Bytes of memory, where known.
    pub memory: Option<u64>,
    /// memory.high in bytes: the pod's own, or that of its containers together.
    pub high: Option<u64>,
    /// memory.max, likewise; of the node its memory.
    pub max: Option<u64>,
    /// Bytes of swap.
    pub swap: u64,
    /// What swap it may use, where that is limited.
    pub swap_max: Option<u64>,
    /// Share of the last virtual second in which every task waited for memory, in percent.
    pub full: f64,
}

impl State {
    /// An arm that has not begun.
    pub fn new(name: String, plan: Plan) -> State {
        State {
            name,
            stage: Stage::Waiting,
            phase: String::new(),
            at_ns: 0,
            events: Vec::new(),
            plan,
            levels: Levels::default(),
            now: BTreeMap::new(),
            stalled: BTreeMap::new(),
            shown: (0, 0, None),
        }
    }

    /// The next frame.
    pub fn see(&mut self, frame: &Frame) {
        match frame {
            Frame::Hello { .. } => self.stage = Stage::Running,
            Frame::Event(event) => self.event(event),
            Frame::Watch(watch) => {
                self.levels.watch(watch);
                // A container that starts again begins with nothing.
                self.now.retain(|(role, _), _| *role != watch.role);
                self.stalled.remove(&watch.role);
            }
            Frame::Tick(tick) => {
                self.at_ns = self.at_ns.max(tick.at_ns);
                let (now, stalled) = (&mut self.now, &mut self.stalled);
                self.levels.tick(tick, |reading| {
                    now.insert((reading.role.clone(), reading.metric), reading.level);
                    if reading.metric == Metric::PressureFullUs {
                        stalled.entry(reading.role.clone()).or_default().push_back((tick.at_ns, reading.level));
                    }
                });
                for readings in self.stalled.values_mut() {
                    while readings.get(1).is_some_and(|(at, _)| at + WINDOW_NS <= self.at_ns) {
                        readings.pop_front();
                    }
                }
            }
            Frame::Fault { message } => self.stage = Stage::Failed(message.clone()),
            Frame::Done { at_ns, .. } => (self.at_ns, self.stage) = (*at_ns, Stage::Done),
            Frame::Request(_) | Frame::Ledger(_) | Frame::Log { .. } | Frame::Report(_) => {}
        }
    }

    fn event(&mut self, event: &Event) {
        self.at_ns = self.at_ns.max(event.at_ns);
        if let EventKind::PhaseStarted { phase } = &event.kind {
            self.phase.clone_from(phase);
        }
        self.events.extend(sentence(event).map(|text| (event.at_ns, text)));
    }

    /// Whether there is something that was not shown yet; the events from [`State::unseen`] on.
    pub fn moved(&self) -> bool {
        let (at_ns, events, stage) = &self.shown;
        *at_ns != self.at_ns || *events != self.events.len() || stage.as_ref() != Some(&self.stage)
    }

    /// The events that were not shown yet.
    pub fn unseen(&self) -> &[(u64, String)] {
        &self.events[self.shown.1..]
    }

    /// All that stands has been shown.
    pub fn seen(&mut self) {
        self.shown = (self.at_ns, self.events.len(), Some(self.stage.clone()));
    }

    /// The node.
    pub fn node(&self) -> Memory {
        let (free, swap_free) = (self.level(&Role::Node, Metric::MemAvailable), self.level(&Role::Node, Metric::SwapFree));
        Memory {
            pod: None,
            memory: free.map(|free| self.plan.node_memory.saturating_sub(free)),
            high: None,
            max: Some(self.plan.node_memory),
            swap: swap_free.map_or(0, |free| self.plan.node_swap.saturating_sub(free)),
            swap_max: Some(self.plan.node_swap),
            full: self.full(&Role::Node),
        }
    }

    /// The pods that have been started, by name.
    pub fn pods(&self) -> Vec<Memory> {
        let plan = self.plan.at(&self.phase);
        let roles = self.now.keys().map(|(role, _)| role).filter(|role| matches!(role, Role::Pod { .. }));
        let mut roles: Vec<&Role> = roles.collect();
        roles.dedup();
        let pod = |role: &Role| {
            let Role::Pod { pod } = role else { return None };
            Some(Memory {
                pod: Some(pod.clone()),
                memory: self.level(role, Metric::MemoryCurrent),
                high: limit(&plan, role, "memory.high"),
                max: limit(&plan, role, "memory.max"),
                swap: self.level(role, Metric::MemorySwapCurrent).unwrap_or(0),
                swap_max: limit(&plan, role, "memory.swap.max"),
                full: self.full(role),
            })
        };
        roles.into_iter().filter_map(pod).collect()
    }

    fn level(&self, role: &Role, metric: Metric) -> Option<u64> {
        self.now.get(&(role.clone(), metric)).copied()
    }

    fn full(&self, role: &Role) -> f64 {
        let Some(readings) = self.stalled.get(role) else { return 0.0 };
        let (Some((_, first)), Some((_, last))) = (readings.front(), readings.back()) else { return 0.0 };
        (last.saturating_sub(*first) as f64 * 1000.0 / WINDOW_NS as f64 * 100.0).min(100.0)
    }
}

/// The pod's own limit, or that of its containers together when each has one.
fn limit(plan: &Plan, pod: &Role, file: &str) -> Option<u64> {
    let number = |role: &Role| plan.cgroup(role)?.value(file)?.parse::<u64>().ok();
    let Role::Pod { pod: name } = pod else { return None };
    number(pod).or_else(|| {
        let containers = plan.cgroups.iter().map(|c| &c.role);
        let own: Vec<_> = containers.filter(|role| matches!(role, Role::Container { pod, .. } if pod == name)).collect();
        if own.is_empty() { None } else { own.into_iter().map(number).sum() }
    })
}
