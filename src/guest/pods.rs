//! A pod on the node: executes its agent's decisions and reports back what became of them.

use super::GuestError;
use super::error::system;
use super::namespaces::{Bind, Network, mount_memory};
use super::node::Context;
use super::process::{Process, Start};
use crate::agent::{Decision, Pod, ProbeRole};
use crate::cgroup::flat_value;
use crate::kubelet::{SANDBOX, container_cgroup, container_id};
use crate::record::{DISK, EventKind, FileValue, Frame, PodOrder, Report, Role, Volume};
use crate::workload::ENV_SEED;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::sync::Arc;

/// A pod, running or not.
#[derive(Debug)]
pub struct PodRun {
    /// What was ordered.
    pub order: PodOrder,
    /// What it decides.
    pub agent: Pod,
    network: Arc<Network>,
    volumes: BTreeMap<String, String>,
    watch: Option<u16>,
    sandbox: Option<Process>,
    containers: Vec<Option<Running>>,
    // Cgroups to remove, children before parents.
    graveyard: Vec<String>,
}

#[derive(Debug)]
struct Running {
    process: Process,
    watch: u16,
    attempt: u32,
}

/// One of a pod's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// The pause process.
    Sandbox,
    /// A container, by position.
    Container(usize),
}

/// A probe to send.
#[derive(Debug, Clone, Copy)]
pub struct ProbeRequest {
    /// The container's position.
    pub container: usize,
    /// Its attempt.
    pub attempt: u32,
    /// Which probe.
    pub role: ProbeRole,
}

const VOLUMES: &str = "/var/lib/kubelet/pods";

impl PodRun {
    /// A pod that has not been started. Its network exists from the beginning, so that no phase pays for making it.
    ///
    /// # Errors
    /// The kernel refuses a network.
    pub fn new(order: &PodOrder) -> Result<PodRun, GuestError> {
        Ok(PodRun {
            agent: Pod::new(order),
            containers: order.containers.iter().map(|_| None).collect(),
            order: order.clone(),
            network: Arc::new(Network::create()?),
            volumes: BTreeMap::new(),
            watch: None,
            sandbox: None,
            graveyard: Vec::new(),
        })
    }

    /// The pod's network.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Starts the pod; one that has ended starts anew.
    ///
    /// # Errors
    /// The system refuses something.
    pub fn start(&mut self, context: &Context) -> Result<Vec<ProbeRequest>, GuestError> {
        if self.agent.outcome().is_some() {
            self.agent = Pod::new(&self.order);
        }
        let decisions = self.agent.start(context.recorder.now());
        self.execute(context, decisions)
    }

    /// Executes decisions in their order; probes are the caller's to send.
    ///
    /// # Errors
    /// The system refuses something.
    pub fn execute(&mut self, context: &Context, decisions: Vec<Decision>) -> Result<Vec<ProbeRequest>, GuestError> {
        let mut probes = Vec::new();
        for decision in decisions {
            let (pod, name) = (self.order.name.clone(), |i: usize| self.order.containers[i].name.clone());
            match decision {
                Decision::StartSandbox => self.start_sandbox(context)?,
                Decision::Start { container, attempt } => self.start_container(context, container, attempt)?,
                Decision::BackOff { container, delay_ns } => {
                    context.recorder.event(EventKind::BackOff { pod, container: name(container), delay_ns });
                }
                Decision::Ready { container, ready } => {
                    context.recorder.event(EventKind::Ready { pod, container: name(container), ready });
                }
                Decision::Terminate { container } => self.signal(container, Signal::TERM),
                Decision::Kill { container } => self.signal(container, Signal::KILL),
                Decision::Probe { container, attempt, role } => probes.push(ProbeRequest { container, attempt, role }),
                Decision::StopSandbox => {
                    if let Some(sandbox) = &self.sandbox {
                        sandbox.signal(Signal::KILL);
                    }
                }
            }
        }
        Ok(probes)
    }

    /// Kills a container, as somebody on the node may; its agent learns of it when it has ended.
    pub fn kill(&self, container: usize) {
        self.signal(container, Signal::KILL);
    }

    fn signal(&self, container: usize, signal: Signal) {
        if let Some(running) = &self.containers[container] {
            running.process.signal(signal);
        }
    }

    fn start_sandbox(&mut self, context: &Context) -> Result<(), GuestError> {
        self.bury_all(context)?;
        self.prepare_volumes(context)?;
        context.apply(&self.order.cgroup)?;
        let pod = self.order.name.clone();
        self.watch = Some(context.sampling.watch(Role::Pod { pod }, &self.order.cgroup.path, 0));
        let id = container_id(&self.order.uid, SANDBOX, 0);
        let cgroup = container_cgroup(context.driver, &self.order.cgroup.path, &id);
        context.tree.create(&cgroup)?;
        context.write_all(&cgroup, &self.order.sandbox_writes);
        let start = Start {
            args: &["pause".to_owned()],
            env: &[],
            cgroup: &cgroup,
            oom_score_adj: self.order.sandbox_oom_score_adj,
            network: &self.network,
            binds: &[],
        };
        self.sandbox = Some(Process::start(&context.tree, &start)?);
        Ok(())
    }

    fn start_container(&mut self, context: &Context, index: usize, attempt: u32) -> Result<(), GuestError> {
        let order = &self.order.containers[index];
        let id = container_id(&self.order.uid, &order.name, attempt);
        let cgroup = container_cgroup(context.driver, &self.order.cgroup.path, &id);
        context.tree.create(&cgroup)?;
        context.write_all(&cgroup, &order.writes);
        let (pod, container) = (self.order.name.clone(), order.name.clone());
        let role = Role::Container { pod: pod.clone(), container: container.clone() };
        let watch = context.sampling.watch(role, &cgroup, attempt);
        let mut env = order.env.clone();
        if !env.iter().any(|(name, _)| name == ENV_SEED) {
            env.push((ENV_SEED.to_owned(), seed(context.seed, &self.order.uid, &order.name).to_string()));
        }
        let binds = order.mounts.iter().map(|(volume, at)| self.bind(volume, at)).collect::<Result<Vec<_>, _>>()?;
        context.recorder.event(EventKind::ContainerStarted { pod, container, attempt, cgroup: cgroup.clone() });
        let start = Start {
            args: &order.args,
            env: &env,
            cgroup: &cgroup,
            oom_score_adj: order.oom_score_adj,
            network: &self.network,
            binds: &binds,
        };
        let process = Process::start(&context.tree, &start)?;
        self.containers[index] = Some(Running { process, watch, attempt });
        Ok(())
    }

    fn bind(&self, volume: &str, at: &str) -> Result<Bind, GuestError> {
        let what = || format!("mount the volume {volume} of pod {} at {at}", self.order.name);
        let from = self.volumes.get(volume).ok_or_else(|| system(what())(io::Error::other("the pod has no such volume")))?;
        std::fs::create_dir_all(at).map_err(system(what()))?;
        let text = |path: &str| CString::new(path).map_err(|_| system(what())(io::Error::other("a path holds a NUL")));
        Ok(Bind { from: text(from)?, to: text(at)? })
    }

    fn prepare_volumes(&mut self, context: &Context) -> Result<(), GuestError> {
        for volume in &self.order.volumes {
            let (name, path) = match volume {
                Volume::HostPath { name, path } => (name, format!("{DISK}/{}", path.trim_start_matches('/'))),
                Volume::EmptyDir { name } => (name, format!("{DISK}{VOLUMES}/{}/volumes/{name}", self.order.uid)),
                Volume::Memory { name, .. } => (name, format!("{VOLUMES}/{}/volumes/{name}", self.order.uid)),
            };
            if self.volumes.contains_key(name) {
                continue;
            }
            let what = || format!("make the volume {name} of pod {} at {path}", self.order.name);
            std::fs::create_dir_all(&path).map_err(system(what()))?;
            if let Volume::Memory { size, .. } = volume {
                mount_memory(&path, *size, context.swap).map_err(system(what()))?;
            }
            self.volumes.insert(name.clone(), path);
        }
        Ok(())
    }

    /// The processes there are.
    pub fn processes(&self) -> impl Iterator<Item = (Slot, &Process)> {
        let containers = self.containers.iter().enumerate();
        let running = containers.filter_map(|(i, c)| Some((Slot::Container(i), &c.as_ref()?.process)));
        self.sandbox.iter().map(|process| (Slot::Sandbox, process)).chain(running)
    }

    /// Passes on what a process wrote.
    pub fn read_output(&mut self, context: &Context, slot: Slot) {
        let pod = &self.order.name;
        let (container, process) = match slot {
            Slot::Sandbox => ("pause", self.sandbox.as_mut()),
            Slot::Container(i) => (self.order.containers[i].name.as_str(), self.containers[i].as_mut().map(|c| &mut c.process)),
        };
        if let Some(process) = process {
            let recorder = &context.recorder;
            let mut pass_on = |line: String| {
                let (pod, container) = (pod.clone(), container.to_owned());
                if line.starts_with(Report::WORD) {
                    recorder.frame(&Frame::Report(Report { at_ns: recorder.now(), pod, container, line }));
                } else {
                    recorder.frame(&Frame::Log { pod, container, line });
                }
            };
            process.read_lines(&mut pass_on);
        }
    }

    /// Looks whether a process has ended, and deals with it.
    ///
    /// # Errors
    /// The system refuses something.
    pub fn check_exit(&mut self, context: &Context, slot: Slot) -> Result<Vec<ProbeRequest>, GuestError> {
        match slot {
            Slot::Sandbox => self.check_sandbox(context).map(|()| Vec::new()),
            Slot::Container(index) => self.check_container(context, index),
        }
    }

    fn check_sandbox(&mut self, context: &Context) -> Result<(), GuestError> {
        let Some(sandbox) = &self.sandbox else { return Ok(()) };
        let Some(exit) = sandbox.try_wait()? else { return Ok(()) };
        if self.agent.outcome().is_none() {
            // The kubelet would make the pod anew; no lab can cause it short of the node being out of memory, and then it is no result.
            let reason = io::Error::other(format!("it ended ({exit:?}) while its pod ran"));
            return Err(system(format!("go on without the pause process of pod {}", self.order.name))(reason));
        }
        if let Some(watch) = self.watch.take() {
            context.sampling.finish(watch);
        }
        let cgroup = self.sandbox.take().expect("it was there").cgroup;
        self.graveyard.extend([cgroup, self.order.cgroup.path.clone()]);
        self.bury(context)?;
        Ok(())
    }

    fn check_container(&mut self, context: &Context, index: usize) -> Result<Vec<ProbeRequest>, GuestError> {
        let Some(running) = &self.containers[index] else { return Ok(Vec::new()) };
        let Some(exit) = running.process.try_wait()? else { return Ok(Vec::new()) };
        self.read_output(context, Slot::Container(index));
        let Running { process, watch, attempt } = self.containers[index].take().expect("it was there");
        let text = |file: &str| match context.tree.read(&process.cgroup, file) {
            Ok(FileValue::Text(text)) => Some(text),
            _ => None,
        };
        let oom_killed =
            text("memory.events").and_then(|text| flat_value(text.as_bytes(), "oom_kill")).is_some_and(|kills| kills > 0);
        context.recorder.event(EventKind::ContainerExited {
            pod: self.order.name.clone(),
            container: self.order.containers[index].name.clone(),
            attempt,
            code: exit.code,
            signal: exit.signal,
            oom_killed,
            memory_peak: text("memory.peak").and_then(|text| text.parse().ok()),
        });
        context.sampling.finish(watch);
        self.graveyard.insert(0, process.cgroup);
        self.bury(context)?;
        let decisions = self.agent.exited(context.recorder.now(), index, exit.code);
        self.execute(context, decisions)
    }

    /// Removes what can be removed; true while something is left (its last processes are still ending).
    ///
    /// # Errors
    /// A removal fails for another reason.
    pub fn bury(&mut self, context: &Context) -> Result<bool, GuestError> {
        while let Some(cgroup) = self.graveyard.first() {
            match context.tree.remove(cgroup) {
                Ok(()) => _ = self.graveyard.remove(0),
                Err(crate::cgroup::TreeError::Io { source, .. }) if source.kind() == io::ErrorKind::ResourceBusy => {
                    // Before 5.14 there is no cgroup.kill; then the processes end by themselves or never.
                    _ = context.tree.write(cgroup, "cgroup.kill", "1");
                    return Ok(true);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// True while a cgroup waits to be removed.
    pub fn has_graves(&self) -> bool {
        !self.graveyard.is_empty()
    }

    fn bury_all(&mut self, context: &Context) -> Result<(), GuestError> {
        while self.bury(context)? {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// The pod's cgroups that exist, parents first.
    pub fn cgroups(&self) -> Vec<(Role, String)> {
        let pod = &self.order.name;
        let mut list = Vec::new();
        if let Some(sandbox) = &self.sandbox {
            list.push((Role::Pod { pod: pod.clone() }, self.order.cgroup.path.clone()));
            list.push((Role::Sandbox { pod: pod.clone() }, sandbox.cgroup.clone()));
        }
        for (order, running) in self.order.containers.iter().zip(&self.containers) {
            if let Some(running) = running {
                let role = Role::Container { pod: pod.clone(), container: order.name.clone() };
                list.push((role, running.process.cgroup.clone()));
            }
        }
        list
    }
}

// A seed of its own for every container, the same at every attempt.
fn seed(arm: u64, uid: &str, container: &str) -> u64 {
    let mut state = arm;
    for byte in uid.bytes().chain([0]).chain(container.bytes()) {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    state
}
