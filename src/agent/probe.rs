//! One probe of one container: when it is due and what its results mean (`prober.worker.doProbe`).

use super::SECOND;
use crate::record::Probe;

/// What a probe decides about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProbeRole {
    /// Whether the container has started; holds back the other two.
    Startup,
    /// Whether it must be restarted.
    Liveness,
    /// Whether it is ready.
    Readiness,
}

/// The state of a probe. It outlives restarts of the container, as the kubelet's worker does.
#[derive(Debug, Clone)]
pub struct Worker {
    /// What it decides about.
    pub role: ProbeRole,
    /// Its settings.
    pub probe: Probe,
    next_ns: u64,
    in_flight: bool,
    missed: bool,
    last: Option<bool>,
    run: u32,
    on_hold: bool,
}

/// What a worker knows of its container when it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Start of the running container.
    pub since_ns: u64,
    /// Its startup probe succeeded, or it has none.
    pub started: bool,
}

impl Worker {
    /// A worker whose ticks begin when its pod does; the tick of that moment still finds no container and is spent. Its period is at
    /// least a second, the API's minimum.
    pub fn new(role: ProbeRole, probe: Probe, now_ns: u64) -> Worker {
        let probe = Probe { period_s: probe.period_s.max(1), ..probe };
        let next_ns = now_ns + u64::from(probe.period_s) * SECOND;
        Worker { role, probe, next_ns, in_flight: false, missed: false, last: None, run: 0, on_hold: false }
    }

    fn period_ns(&self) -> u64 {
        u64::from(self.probe.period_s) * SECOND
    }

    /// A new container runs: probing goes on if it was on hold.
    pub fn container_started(&mut self) {
        self.on_hold = false;
        self.in_flight = false;
        self.missed = false;
    }

    fn wants(&self, target: Option<Target>, now_ns: u64) -> bool {
        let Some(target) = target else { return false };
        let age_s = now_ns.saturating_sub(target.since_ns) / SECOND;
        !self.on_hold && age_s >= u64::from(self.probe.initial_delay_s) && target.started == (self.role != ProbeRole::Startup)
    }

    /// Moves the ticks up to `now_ns`; true when a probe must be sent.
    pub fn tick(&mut self, target: Option<Target>, now_ns: u64) -> bool {
        if self.next_ns > now_ns {
            return false;
        }
        let late = now_ns - self.next_ns;
        self.next_ns += (late / self.period_ns() + 1) * self.period_ns();
        self.launch(target, now_ns)
    }

    /// Probes at once and counts its period from here, as the kubelet does for a readiness probe when a container has started
    /// (`prober.manager.UpdatePodStatus`).
    pub fn trigger(&mut self, target: Option<Target>, now_ns: u64) -> bool {
        self.next_ns = now_ns + self.period_ns();
        self.launch(target, now_ns)
    }

    fn launch(&mut self, target: Option<Target>, now_ns: u64) -> bool {
        if self.in_flight {
            self.missed = true;
            return false;
        }
        self.in_flight = self.wants(target, now_ns);
        self.in_flight
    }

    /// Takes a result; Some when the threshold is reached: the probe's new verdict.
    pub fn result(&mut self, success: bool) -> Option<bool> {
        self.in_flight = false;
        if self.last == Some(success) {
            self.run += 1;
        } else {
            (self.last, self.run) = (Some(success), 1);
        }
        let threshold = if success { self.probe.success_threshold } else { self.probe.failure_threshold };
        if self.run < threshold {
            return None;
        }
        if self.role == ProbeRole::Startup || (self.role == ProbeRole::Liveness && !success) {
            self.on_hold = true;
            self.run = 0;
        }
        Some(success)
    }

    /// True once when a tick passed while a probe was under way: the next one is due now.
    pub fn catch_up(&mut self, target: Option<Target>, now_ns: u64) -> bool {
        std::mem::take(&mut self.missed) && self.launch(target, now_ns)
    }

    /// When to call [`Worker::tick`] next; None while ticks would do nothing.
    pub fn deadline(&self, target: Option<Target>) -> Option<u64> {
        let target = target?;
        (!self.on_hold && target.started == (self.role != ProbeRole::Startup)).then_some(self.next_ns)
    }
}
