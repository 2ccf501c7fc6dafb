//! A pod's life: order of containers, restarts, probes and termination (`computePodActions`, `killPodWithSyncResult`).

use super::probe::Target;
use super::{BackOff, ProbeRole, SECOND, Worker};
use crate::record::{ContainerKind, PodOrder, RestartPolicy};

/// Something to execute. Containers are named by their position in the pod's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Create the pod's cgroup and start its pause process.
    StartSandbox,
    /// Start a container in a new cgroup.
    Start {
        /// Which.
        container: usize,
        /// 0 for the first start.
        attempt: u32,
    },
    /// A restart waits.
    BackOff {
        /// Which.
        container: usize,
        /// Counted from the exit.
        delay_ns: u64,
    },
    /// Ask a container's process to end (SIGTERM).
    Terminate {
        /// Which.
        container: usize,
    },
    /// End a container's processes (SIGKILL).
    Kill {
        /// Which.
        container: usize,
    },
    /// Send a probe and report its result.
    Probe {
        /// Which.
        container: usize,
        /// Its present attempt; the result of an older one is dropped.
        attempt: u32,
        /// Which probe.
        role: ProbeRole,
    },
    /// A container's readiness changed.
    Ready {
        /// Which.
        container: usize,
        /// The new state.
        ready: bool,
    },
    /// End the pause process and remove the pod's cgroup.
    StopSandbox,
}

/// How a pod ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Every regular container exited with 0.
    Succeeded,
    /// A container failed for good.
    Failed,
    /// It was stopped.
    Stopped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running { since_ns: u64, stop: Option<Stop> },
    Exited { at_ns: u64, success: bool, by_probe: bool, announced: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stop {
    kill_ns: u64,
    killed: bool,
    by_probe: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Created,
    Running,
    Terminating { since_ns: u64, outcome: Outcome },
    Ended(Outcome),
}

#[derive(Debug, Clone)]
struct Container {
    kind: ContainerKind,
    state: State,
    attempts: u32,
    previous_exit_ns: Option<u64>,
    backoff: BackOff,
    workers: Vec<Worker>,
    started: bool,
    ready: bool,
}

/// A pod. Every method takes the present time, which never goes back.
#[derive(Debug, Clone)]
pub struct Pod {
    policy: RestartPolicy,
    grace_s: u64,
    containers: Vec<Container>,
    life: Life,
}

/// The least grace a container gets (`minimumGracePeriodInSeconds`).
const MINIMUM_GRACE_S: u64 = 2;

impl Pod {
    /// A pod that has not been started.
    pub fn new(order: &PodOrder) -> Pod {
        let containers = order.containers.iter().map(|container| {
            let probes = [
                (ProbeRole::Startup, &container.startup),
                (ProbeRole::Liveness, &container.liveness),
                (ProbeRole::Readiness, &container.readiness),
            ];
            let workers = probes.into_iter().filter_map(|(role, probe)| Some(Worker::new(role, probe.clone()?, 0)));
            Container {
                kind: container.kind,
                state: State::Waiting,
                attempts: 0,
                previous_exit_ns: None,
                backoff: BackOff::default(),
                workers: workers.collect(),
                started: false,
                ready: false,
            }
        });
        Pod { policy: order.restart_policy, grace_s: order.grace_s, containers: containers.collect(), life: Life::Created }
    }

    /// Starts the pod. Does nothing when it was started before.
    pub fn start(&mut self, now_ns: u64) -> Vec<Decision> {
        if self.life != Life::Created {
            return Vec::new();
        }
        self.life = Life::Running;
        for worker in self.containers.iter_mut().flat_map(|c| &mut c.workers) {
            *worker = Worker::new(worker.role, worker.probe.clone(), now_ns);
        }
        let mut out = vec![Decision::StartSandbox];
        self.sync(now_ns, &mut out);
        out
    }

    /// Stops the pod: SIGTERM, grace period, SIGKILL; sidecars after the others, in reverse order.
    pub fn stop(&mut self, now_ns: u64) -> Vec<Decision> {
        let mut out = self.clock(now_ns);
        match self.life {
            Life::Created => self.life = Life::Ended(Outcome::Stopped),
            Life::Running => self.life = Life::Terminating { since_ns: now_ns, outcome: Outcome::Stopped },
            Life::Terminating { .. } | Life::Ended(_) => {}
        }
        self.sync(now_ns, &mut out);
        out
    }

    /// A container's main process ended; `code` is its exit status when it was not killed by a signal.
    pub fn exited(&mut self, now_ns: u64, container: usize, code: Option<i32>) -> Vec<Decision> {
        let mut out = self.clock(now_ns);
        out.retain(|decision| !matches!(decision, Decision::Probe { container: probed, .. } if *probed == container));
        let c = &mut self.containers[container];
        if let State::Running { stop, .. } = c.state {
            let by_probe = stop.is_some_and(|stop| stop.by_probe);
            c.state = State::Exited { at_ns: now_ns, success: code == Some(0), by_probe, announced: false };
            c.started = false;
            set_ready(c, container, false, &mut out);
        }
        self.sync(now_ns, &mut out);
        out
    }

    /// A probe's result came; that of an attempt which has ended is dropped.
    pub fn probed(&mut self, now_ns: u64, container: usize, attempt: u32, role: ProbeRole, success: bool) -> Vec<Decision> {
        let mut out = self.clock(now_ns);
        if self.containers[container].attempts == attempt + 1 {
            self.take_result(now_ns, container, role, success, &mut out);
        }
        self.sync(now_ns, &mut out);
        out
    }

    fn take_result(&mut self, now_ns: u64, container: usize, role: ProbeRole, success: bool, out: &mut Vec<Decision>) {
        let (life, grace_s) = (self.life, self.grace_s);
        let c = &mut self.containers[container];
        let State::Running { since_ns, stop } = c.state else { return };
        let Some(index) = c.workers.iter().position(|w| w.role == role) else { return };
        match (role, c.workers[index].result(success)) {
            (ProbeRole::Readiness, Some(ready)) => set_ready(c, container, ready, out),
            (ProbeRole::Startup, Some(true)) => container_has_started(c, container, now_ns, out),
            (ProbeRole::Startup | ProbeRole::Liveness, Some(false)) if stop.is_none() && life == Life::Running => {
                let kill_ns = now_ns + grace_s.max(MINIMUM_GRACE_S) * SECOND;
                c.state = State::Running { since_ns, stop: Some(Stop { kill_ns, killed: false, by_probe: true }) };
                out.push(Decision::Terminate { container });
            }
            _ => {}
        }
        let (target, attempt) = (c.target(), c.attempts - 1);
        if c.workers[index].catch_up(target, now_ns) {
            out.push(Decision::Probe { container, attempt, role });
        }
    }

    /// Time passed.
    pub fn tick(&mut self, now_ns: u64) -> Vec<Decision> {
        let mut out = self.clock(now_ns);
        self.sync(now_ns, &mut out);
        out
    }

    /// When [`Pod::tick`] must be called at the latest; None while only reports can move the pod.
    pub fn deadline(&self) -> Option<u64> {
        let grace_ends = |since_ns: u64| since_ns + self.grace_s * SECOND;
        let turn = match self.life {
            Life::Created | Life::Ended(_) => return None,
            Life::Terminating { since_ns, .. }
                if self.containers.iter().any(|c| matches!(c.state, State::Running { stop: None, .. })) =>
            {
                Some(grace_ends(since_ns))
            }
            _ => None,
        };
        let containers = self.containers.iter().flat_map(|c| {
            let own = match c.state {
                State::Running { stop: Some(stop), .. } if !stop.killed => Some(stop.kill_ns),
                State::Exited { at_ns, announced: true, .. } if self.life == Life::Running => {
                    c.backoff.binding(at_ns, at_ns).map(|delay| at_ns + delay)
                }
                _ => None,
            };
            let target = c.target();
            own.into_iter().chain(c.workers.iter().filter_map(move |w| w.deadline(target)))
        });
        turn.into_iter().chain(containers).min()
    }

    /// True when every regular container and every sidecar is ready.
    pub fn is_ready(&self) -> bool {
        self.life == Life::Running && self.containers.iter().all(|c| c.kind == ContainerKind::Init || c.ready)
    }

    /// How the pod ended, if it has.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.life {
            Life::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// True once started and until it ended.
    pub fn is_active(&self) -> bool {
        matches!(self.life, Life::Running | Life::Terminating { .. })
    }

    /// The latest attempt of a container, if it was ever started.
    pub fn attempt(&self, container: usize) -> Option<u32> {
        self.containers[container].attempts.checked_sub(1)
    }

    // Ticks that are due happen before whatever else happens at this moment.
    fn clock(&mut self, now_ns: u64) -> Vec<Decision> {
        let mut out = Vec::new();
        for (container, c) in self.containers.iter_mut().enumerate() {
            let (target, attempt) = (c.target(), c.attempts.saturating_sub(1));
            for worker in &mut c.workers {
                if worker.tick(target, now_ns) {
                    out.push(Decision::Probe { container, attempt, role: worker.role });
                }
            }
        }
        out
    }

    fn sync(&mut self, now_ns: u64, out: &mut Vec<Decision>) {
        self.kill_overdue(now_ns, out);
        if self.life == Life::Running {
            match self.run(now_ns, out) {
                Some(outcome) => self.life = Life::Terminating { since_ns: now_ns, outcome },
                None => return,
            }
        }
        if let Life::Terminating { since_ns, outcome } = self.life {
            self.terminate(since_ns, now_ns, out);
            if !self.containers.iter().any(|c| matches!(c.state, State::Running { .. })) {
                out.push(Decision::StopSandbox);
                self.life = Life::Ended(outcome);
            }
        }
    }

    fn kill_overdue(&mut self, now_ns: u64, out: &mut Vec<Decision>) {
        for (container, c) in self.containers.iter_mut().enumerate() {
            if let State::Running { stop: Some(stop), .. } = &mut c.state
                && !stop.killed
                && stop.kill_ns <= now_ns
            {
                stop.killed = true;
                out.push(Decision::Kill { container });
            }
        }
    }

    // Starts what should run; Some when nothing is left to run.
    fn run(&mut self, now_ns: u64, out: &mut Vec<Decision>) -> Option<Outcome> {
        let inits = self.containers.iter().take_while(|c| c.kind != ContainerKind::Main).count();
        let main_started = self.containers[inits..].iter().any(|c| c.attempts > 0);
        let latest = self.containers[..inits].iter().rposition(|c| c.attempts > 0);
        for index in 0..inits {
            if self.containers[index].kind == ContainerKind::Sidecar {
                self.restart(index, now_ns, out);
            }
        }
        if !main_started && inits > 0 {
            let Some(latest) = latest else {
                self.launch(0, now_ns, out);
                // A sidecar without a startup probe counts as started at once, so the next one may follow.
                return self.run(now_ns, out);
            };
            let c = &self.containers[latest];
            let done = match (c.kind, c.state) {
                (ContainerKind::Sidecar, State::Running { .. }) => c.started,
                (ContainerKind::Init, State::Exited { success: true, .. }) => true,
                (ContainerKind::Init, State::Exited { .. }) if self.policy == RestartPolicy::Never => {
                    return Some(Outcome::Failed);
                }
                (ContainerKind::Init, State::Exited { .. }) => {
                    self.restart(latest, now_ns, out);
                    false
                }
                _ => false,
            };
            if !done {
                return None;
            }
            if latest + 1 < inits {
                self.launch(latest + 1, now_ns, out);
                return self.run(now_ns, out);
            }
        }
        let mut alive = false;
        for index in inits..self.containers.len() {
            match self.containers[index].state {
                State::Waiting => self.launch(index, now_ns, out),
                State::Exited { .. } => self.restart(index, now_ns, out),
                State::Running { .. } => {}
            }
            alive |= self.should_run(index);
        }
        if alive {
            return None;
        }
        let failed = self.containers[inits..].iter().any(|c| !matches!(c.state, State::Exited { success: true, .. }));
        Some(if failed { Outcome::Failed } else { Outcome::Succeeded })
    }

    // False only for a container that exited and will not be restarted (`ContainerShouldRestart`).
    fn should_run(&self, index: usize) -> bool {
        let c = &self.containers[index];
        let State::Exited { success, by_probe, .. } = c.state else { return true };
        match (c.kind, self.policy) {
            (ContainerKind::Sidecar, _) | (ContainerKind::Main, RestartPolicy::Always) => true,
            (ContainerKind::Init, RestartPolicy::Always) => !success,
            (_, RestartPolicy::OnFailure) => !success || by_probe,
            (_, RestartPolicy::Never) => false,
        }
    }

    fn restart(&mut self, index: usize, now_ns: u64, out: &mut Vec<Decision>) {
        if !self.should_run(index) {
            return;
        }
        let c = &mut self.containers[index];
        let State::Exited { at_ns, success, by_probe, announced } = c.state else { return };
        // `doBackOff` looks for the newest *exited* instance. The sync that kills a container for a failed probe still sees it running, so
        // there the exit before counts: the first such restart neither waits nor makes the next one wait.
        if by_probe && !announced {
            match c.previous_exit_ns {
                None => return self.launch(index, now_ns, out),
                Some(previous_ns) if c.backoff.binding(previous_ns, now_ns).is_none() => {
                    c.backoff.advance(previous_ns, now_ns);
                    return self.launch(index, now_ns, out);
                }
                Some(_) => {}
            }
        }
        match c.backoff.binding(at_ns, now_ns) {
            Some(_) if announced => {}
            Some(delay_ns) => {
                c.state = State::Exited { at_ns, success, by_probe, announced: true };
                out.push(Decision::BackOff { container: index, delay_ns });
            }
            None => {
                c.backoff.advance(at_ns, now_ns);
                self.launch(index, now_ns, out);
            }
        }
    }

    fn launch(&mut self, index: usize, now_ns: u64, out: &mut Vec<Decision>) {
        let c = &mut self.containers[index];
        if let State::Exited { at_ns, .. } = c.state {
            c.previous_exit_ns = Some(at_ns);
        }
        let attempt = c.attempts;
        c.attempts += 1;
        c.state = State::Running { since_ns: now_ns, stop: None };
        c.started = false;
        c.workers.iter_mut().for_each(Worker::container_started);
        out.push(Decision::Start { container: index, attempt });
        if !c.workers.iter().any(|w| w.role == ProbeRole::Startup) {
            container_has_started(c, index, now_ns, out);
        }
    }

    fn terminate(&mut self, since_ns: u64, now_ns: u64, out: &mut Vec<Decision>) {
        let patience_over = now_ns >= since_ns + self.grace_s * SECOND;
        let grace_s = self.grace_s;
        let mut others_run =
            self.containers.iter().any(|c| c.kind != ContainerKind::Sidecar && matches!(c.state, State::Running { .. }));
        for (container, c) in self.containers.iter_mut().enumerate().rev() {
            let State::Running { since_ns: started_ns, stop } = c.state else { continue };
            let sidecar = c.kind == ContainerKind::Sidecar;
            if stop.is_none() && (!sidecar || !others_run || patience_over) {
                let waited_s = (now_ns - since_ns) / SECOND;
                let kill_ns = now_ns + grace_s.saturating_sub(waited_s).max(MINIMUM_GRACE_S) * SECOND;
                c.state = State::Running { since_ns: started_ns, stop: Some(Stop { kill_ns, killed: false, by_probe: false }) };
                out.push(Decision::Terminate { container });
            }
            others_run |= sidecar;
        }
    }
}

impl Container {
    fn target(&self) -> Option<Target> {
        match self.state {
            State::Running { since_ns, .. } => Some(Target { since_ns, started: self.started }),
            _ => None,
        }
    }
}

fn set_ready(c: &mut Container, container: usize, ready: bool, out: &mut Vec<Decision>) {
    if c.ready != ready && c.kind != ContainerKind::Init {
        c.ready = ready;
        out.push(Decision::Ready { container, ready });
    }
}

fn container_has_started(c: &mut Container, container: usize, now_ns: u64, out: &mut Vec<Decision>) {
    c.started = true;
    let (target, attempt) = (c.target(), c.attempts - 1);
    match c.workers.iter_mut().find(|w| w.role == ProbeRole::Readiness) {
        None => set_ready(c, container, true, out),
        Some(worker) => {
            if worker.trigger(target, now_ns) {
                out.push(Decision::Probe { container, attempt, role: ProbeRole::Readiness });
            }
        }
    }
}
