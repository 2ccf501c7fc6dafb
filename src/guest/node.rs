//! The node: its cgroup tree, its pods, and one round of waiting for whatever happens next.

use super::GuestError;
use super::error::system;
use super::kernel_log::KernelLog;
use super::pods::{PodRun, ProbeRequest, Slot};
use super::probes::{Asker, InFlight};
use super::recorder::Recorder;
use super::sampling::Sampling;
use crate::agent::ProbeRole;
use crate::cgroup::{Tree, TreeError};
use crate::record::{CgroupDriver, CgroupOrder, ControlWrite, EventKind, Order, Role};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::sync::Arc;

/// What every part of the guest needs.
#[derive(Debug)]
pub struct Context {
    /// Where frames go.
    pub recorder: Arc<Recorder>,
    /// The cgroups.
    pub tree: Tree,
    /// The sampler.
    pub sampling: Arc<Sampling>,
    /// How container cgroups are named.
    pub driver: CgroupDriver,
    /// The arm's seed.
    pub seed: u64,
    /// The node swaps.
    pub swap: bool,
}

impl Context {
    /// Creates a cgroup and writes its files.
    ///
    /// # Errors
    /// It cannot be created; a refused write is an event, not an error.
    pub fn apply(&self, cgroup: &CgroupOrder) -> Result<(), GuestError> {
        self.tree.create(&cgroup.path)?;
        self.write_all(&cgroup.path, &cgroup.writes);
        Ok(())
    }

    /// Writes control files in order; what the kernel refuses becomes an event.
    pub fn write_all(&self, cgroup: &str, writes: &[ControlWrite]) {
        for ControlWrite { file, value } in writes {
            if let Err(error) = self.tree.write(cgroup, file, value) {
                let error = match error {
                    TreeError::Io { source, .. } => source.to_string(),
                    other => other.to_string(),
                };
                let path = format!("{}/{file}", cgroup.trim_end_matches('/'));
                self.recorder.event(EventKind::WriteRefused { path, value: value.clone(), error });
            }
        }
    }
}

/// The node and its pods.
#[derive(Debug)]
pub struct Node {
    /// What every part needs.
    pub context: Context,
    /// The pods, in the order's order.
    pub pods: Vec<PodRun>,
    /// Cgroups above the pods.
    pub levels: Vec<(Role, String)>,
    kernel_log: KernelLog,
    probes: Vec<InFlight>,
}

#[derive(Debug, Clone, Copy)]
enum Source {
    KernelLog,
    Wake,
    Output(usize, Slot),
    Exit(usize, Slot),
    Probe(usize),
}

// How long until a cgroup whose last process is ending is tried again.
const RETRY_NS: u64 = 1_000_000;

impl Node {
    /// Creates the cgroups above the pods and starts sampling.
    ///
    /// # Errors
    /// The node cannot be prepared.
    pub fn new(order: &Order, recorder: &Arc<Recorder>) -> Result<Node, GuestError> {
        let tree = Tree::open("/sys/fs/cgroup")?;
        let sampling = Sampling::new(tree.clone(), recorder);
        let context = Context {
            recorder: Arc::clone(recorder),
            tree,
            sampling,
            driver: order.cgroup_driver,
            seed: order.seed,
            swap: !order.swap.is_empty(),
        };
        let mut levels = Vec::new();
        for cgroup in &order.cgroups {
            context.apply(cgroup)?;
            context.sampling.watch(cgroup.role.clone(), &cgroup.path, 0);
            levels.push((cgroup.role.clone(), cgroup.path.clone()));
        }
        context.sampling.start(order.sampling)?;
        let pods = order.pods.iter().map(PodRun::new).collect::<Result<_, _>>()?;
        Ok(Node { context, pods, levels, kernel_log: KernelLog::open()?, probes: Vec::new() })
    }

    /// A pod's position.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn find(&self, pod: &str, place: &'static str) -> Result<usize, GuestError> {
        let found = self.pods.iter().position(|run| run.order.name == pod);
        found.ok_or_else(|| GuestError::UnknownPod { place, pod: pod.to_owned() })
    }

    /// Starts a pod.
    ///
    /// # Errors
    /// The system refuses something.
    pub fn start(&mut self, pod: usize) -> Result<(), GuestError> {
        let probes = self.pods[pod].start(&self.context)?;
        self.send(pod, probes)
    }

    /// Stops a pod; it ends in later rounds.
    ///
    /// # Errors
    /// The system refuses something.
    pub fn stop(&mut self, pod: usize) -> Result<(), GuestError> {
        let decisions = self.pods[pod].agent.stop(self.context.recorder.now());
        let probes = self.pods[pod].execute(&self.context, decisions)?;
        self.send(pod, probes)
    }

    /// Waits until something happens, at the latest until `until_ns`, and deals with it.
    ///
    /// # Errors
    /// The system refuses something.
    pub fn round(&mut self, until_ns: u64, wake: BorrowedFd<'_>) -> Result<(), GuestError> {
        for source in self.wait(until_ns, wake)? {
            match source {
                Source::KernelLog => self.read_kernel_log(),
                Source::Wake => {}
                Source::Probe(index) => self.probes[index].ready = true,
                Source::Output(pod, slot) => self.pods[pod].read_output(&self.context, slot),
                Source::Exit(pod, slot) => {
                    let probes = self.pods[pod].check_exit(&self.context, slot)?;
                    self.send(pod, probes)?;
                }
            }
        }
        self.finish_probes()?;
        let now = self.context.recorder.now();
        for pod in 0..self.pods.len() {
            self.pods[pod].bury(&self.context)?;
            if self.pods[pod].agent.deadline().is_some_and(|due| due <= now) {
                let decisions = self.pods[pod].agent.tick(now);
                let probes = self.pods[pod].execute(&self.context, decisions)?;
                self.send(pod, probes)?;
            }
        }
        Ok(())
    }

    /// Reports what the kernel log holds by now.
    pub fn read_kernel_log(&self) {
        self.kernel_log.oom_kills(&mut |kill| self.context.recorder.event(kill));
    }

    fn wait(&mut self, until_ns: u64, wake: BorrowedFd<'_>) -> Result<Vec<Source>, GuestError> {
        let mut due = until_ns;
        let mut sources = vec![Source::KernelLog, Source::Wake];
        let mut polled =
            vec![PollFd::from_borrowed_fd(self.kernel_log.fd(), PollFlags::IN), PollFd::from_borrowed_fd(wake, PollFlags::IN)];
        let now = self.context.recorder.now();
        for (index, pod) in self.pods.iter().enumerate() {
            due = due.min(pod.agent.deadline().unwrap_or(u64::MAX));
            if pod.has_graves() {
                due = due.min(now + RETRY_NS);
            }
            for (slot, process) in pod.processes() {
                if let Some(output) = process.output_fd() {
                    sources.push(Source::Output(index, slot));
                    polled.push(PollFd::from_borrowed_fd(output, PollFlags::IN));
                }
                sources.push(Source::Exit(index, slot));
                polled.push(PollFd::from_borrowed_fd(process.exit_fd(), PollFlags::IN));
            }
        }
        for (index, probe) in self.probes.iter().enumerate() {
            due = due.min(probe.deadline_ns);
            let (socket, writes) = probe.interest();
            sources.push(Source::Probe(index));
            polled.push(PollFd::from_borrowed_fd(socket, if writes { PollFlags::OUT } else { PollFlags::IN }));
        }
        let left = due.saturating_sub(now);
        let timeout = Timespec { tv_sec: (left / 1_000_000_000).cast_signed(), tv_nsec: (left % 1_000_000_000).cast_signed() };
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(system("wait for the node's processes")(errno.into())),
        }
        let ready = sources.into_iter().zip(&polled).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|(source, _)| source).collect())
    }

    fn send(&mut self, pod: usize, requests: Vec<ProbeRequest>) -> Result<(), GuestError> {
        for ProbeRequest { container, attempt, role } in requests {
            let network = self.pods[pod].network();
            let order = &self.pods[pod].order.containers[container];
            let probe = match role {
                ProbeRole::Startup => &order.startup,
                ProbeRole::Liveness => &order.liveness,
                ProbeRole::Readiness => &order.readiness,
            };
            let Some(probe) = probe else { continue };
            let asker = Asker { pod, container, attempt, role };
            let now = self.context.recorder.now();
            match InFlight::launch(asker, probe, network, now).map_err(system("send a probe"))? {
                Ok(probe) => self.probes.push(probe),
                Err(success) => self.report(asker, success)?,
            }
        }
        Ok(())
    }

    fn finish_probes(&mut self) -> Result<(), GuestError> {
        let now = self.context.recorder.now();
        let mut index = 0;
        while index < self.probes.len() {
            let probe = &mut self.probes[index];
            let result = match std::mem::take(&mut probe.ready) {
                true => probe.advance(),
                false => (probe.deadline_ns <= now).then_some(false),
            };
            match result {
                None => index += 1,
                Some(success) => {
                    let asker = self.probes.remove(index).asker;
                    self.report(asker, success)?;
                }
            }
        }
        Ok(())
    }

    fn report(&mut self, asker: Asker, success: bool) -> Result<(), GuestError> {
        let Asker { pod, container, attempt, role } = asker;
        let decisions = self.pods[pod].agent.probed(self.context.recorder.now(), container, attempt, role, success);
        let probes = self.pods[pod].execute(&self.context, decisions)?;
        self.send(pod, probes)
    }
}
