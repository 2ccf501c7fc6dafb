//! The observer of a real node: samples the pods that a kubelet runs there, sends the load, and writes the same frames as PID 1 of the
//! deterministic node. The host says when phases begin and end.

use super::error::system;
use super::kernel_log::KernelLog;
use super::ledger::snapshot;
use super::loads::Loads;
use super::namespaces::Network;
use super::recorder::Recorder;
use super::sampling::Sampling;
use super::tasks::{BUNDLES, LOGS, Task, Tasks};
use super::{GuestError, busy, threads};
use crate::cgroup::{Tree, flat_value};
use crate::record::{EventKind, FileValue, Frame, Order, Report, Role, SCHEMA, Tell, Told};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

/// How often the runtime's tasks and logs are looked at.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

struct Observer {
    order: Order,
    recorder: Arc<Recorder>,
    tree: Tree,
    sampling: Arc<Sampling>,
    kernel_log: KernelLog,
    tasks: Tasks,
    running: Vec<(Task, Vec<u16>)>,
    // Cgroups in which the kernel log saw a process killed.
    killed: BTreeSet<String>,
    loads: Loads,
    waiting: Option<(UnixStream, u64)>,
    done: bool,
}

/// Observes until it is told that the script has ended: `order` is a file, `frames` is written, `socket` is listened on.
///
/// # Errors
/// The node cannot be observed.
pub fn observe(order: &Path, frames: &Path, socket: &Path) -> Result<(), GuestError> {
    let text = std::fs::read(order).map_err(system(format!("read {}", order.display())))?;
    let order: Order = serde_json::from_slice(&text).map_err(|e| GuestError::Input { what: "order", reason: e.to_string() })?;
    if order.schema != SCHEMA {
        return Err(GuestError::Schema { found: order.schema });
    }
    let file = File::create(frames).map_err(system(format!("write {}", frames.display())))?;
    threads::never_swap()?;
    threads::become_realtime(threads::MAIN)?;
    let recorder = Arc::new(Recorder::to_file(file));
    let tree = Tree::open("/sys/fs/cgroup")?;
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    recorder.frame(&Frame::Hello {
        schema: SCHEMA,
        kernel,
        page_size: rustix::param::page_size() as u64,
        mem_total: mem_total()?,
        device_bytes: 0,
    });
    let busy_before = busy::busy_ns()?;
    let sampling = Sampling::new(tree.clone(), &recorder);
    for cgroup in &order.cgroups {
        sampling.watch(cgroup.role.clone(), &cgroup.path, 0);
    }
    sampling.start(order.sampling)?;
    let mut observer = Observer {
        order,
        recorder,
        tree,
        sampling,
        kernel_log: KernelLog::open()?,
        tasks: Tasks::new(BUNDLES, LOGS),
        running: Vec::new(),
        killed: BTreeSet::new(),
        loads: Loads::new()?,
        waiting: None,
        done: false,
    };
    let listener = UnixListener::bind(socket).map_err(system(format!("listen on {}", socket.display())))?;
    while !observer.done {
        observer.round(&listener)?;
    }
    let busy_ns = busy::busy_ns()?.saturating_sub(busy_before);
    observer.recorder.frame(&Frame::Done { at_ns: observer.recorder.now(), busy_ns });
    Ok(())
}

/// Says a line to the observer and returns its answer.
///
/// # Errors
/// It does not listen, or ends before it has answered.
pub fn tell(socket: &Path, line: &str) -> Result<String, GuestError> {
    let what = || format!("speak to the observer at {}", socket.display());
    let mut stream = UnixStream::connect(socket).map_err(system(what()))?;
    writeln!(stream, "{line}").map_err(system(what()))?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(system(what()))?;
    if answer.is_empty() { Err(system(what())(std::io::ErrorKind::UnexpectedEof.into())) } else { Ok(answer) }
}

fn mem_total() -> Result<u64, GuestError> {
    let text = std::fs::read("/proc/meminfo").map_err(system("read /proc/meminfo"))?;
    let text = String::from_utf8_lossy(&text);
    let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| GuestError::Input { what: "/proc/meminfo", reason: "it has no MemTotal".to_owned() })
}

impl Observer {
    /// Waits until something happens, but not for longer than the runtime may go unobserved, and deals with it.
    fn round(&mut self, listener: &UnixListener) -> Result<(), GuestError> {
        let mut polled = vec![
            PollFd::new(listener, PollFlags::IN),
            PollFd::from_borrowed_fd(self.kernel_log.fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.loads.wake_fd(), PollFlags::IN),
        ];
        polled.extend(self.running.iter().map(|(task, _)| PollFd::from_borrowed_fd(task.exit.as_fd(), PollFlags::IN)));
        match poll(&mut polled, Some(&LOOK)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(system("wait for the node's processes")(errno.into())),
        }
        let told = !polled[0].revents().is_empty();
        let ended: Vec<_> = polled[3..].iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(polled);
        self.read_kernel_log();
        for index in (0..ended.len()).rev().filter(|index| ended[*index]) {
            let (task, watches) = self.running.remove(index);
            self.exited(task, &watches);
        }
        self.look();
        if told {
            let (stream, _) = listener.accept().map_err(system("accept a connection"))?;
            self.serve(stream)?;
        }
        let answered = self.loads.all_answered();
        if self.waiting.as_ref().is_some_and(|(_, until_ns)| answered || self.recorder.now() >= *until_ns)
            && let Some((stream, _)) = self.waiting.take()
        {
            self.answer(stream, answered, None);
        }
        Ok(())
    }

    fn read_kernel_log(&mut self) {
        let Observer { kernel_log, recorder, killed, .. } = self;
        kernel_log.oom_kills(&mut |kill| {
            if let EventKind::OomKill { task_memcg, .. } = &kill {
                killed.insert(task_memcg.clone());
            }
            recorder.event(kill);
        });
    }

    /// Takes up what the runtime started and what its containers said.
    fn look(&mut self) {
        for task in self.tasks.appeared() {
            let (role, cgroup, attempt) = (task.role(), task.cgroup.clone(), task.attempt);
            let mut watches = Vec::new();
            match &task.container {
                // The sandbox's parent is the pod's own.
                None => {
                    let parent = cgroup.rsplit_once('/').map_or("/", |(parent, _)| parent);
                    watches.push(self.sampling.watch(Role::Pod { pod: task.pod.clone() }, parent, 0));
                }
                Some(container) => {
                    watches.push(self.sampling.watch(role, &cgroup, attempt));
                    let (pod, container) = (task.pod.clone(), container.clone());
                    self.recorder.event(EventKind::ContainerStarted { pod, container, attempt, cgroup });
                }
            }
            self.running.push((task, watches));
        }
        for (task, _) in &mut self.running {
            said(&self.recorder, task);
        }
    }

    fn exited(&mut self, mut task: Task, watches: &[u16]) {
        said(&self.recorder, &mut task);
        // The runtime removes the cgroup soon; what is gone by now, the kernel log still knows.
        let text = |file: &str| match self.tree.read(&task.cgroup, file) {
            Ok(FileValue::Text(text)) => Some(text),
            _ => None,
        };
        let counted =
            text("memory.events").and_then(|text| flat_value(text.as_bytes(), "oom_kill")).is_some_and(|kills| kills > 0);
        let memory_peak = text("memory.peak").and_then(|text| text.parse().ok());
        let oom_killed = self.killed.remove(&task.cgroup) || counted;
        if let Some(container) = task.container {
            // Only a parent learns how a process ended; that it was the OOM killer says enough.
            let signal = oom_killed.then_some(rustix::process::Signal::KILL.as_raw());
            let (pod, attempt) = (task.pod, task.attempt);
            self.recorder.event(EventKind::ContainerExited {
                pod,
                container,
                attempt,
                code: None,
                signal,
                oom_killed,
                memory_peak,
            });
        }
        for watch in watches {
            self.sampling.finish(*watch);
        }
    }

    fn serve(&mut self, stream: UnixStream) -> Result<(), GuestError> {
        let mut line = String::new();
        let read = stream.try_clone().and_then(|stream| BufReader::new(stream).read_line(&mut line));
        let tell = read.map_err(|e| e.to_string()).and_then(|_| serde_json::from_str(&line).map_err(|e| e.to_string()));
        let error = match tell {
            Ok(Tell::Wait { until_ns }) => {
                self.waiting = Some((stream, until_ns));
                return Ok(());
            }
            Ok(tell) => self.obey(tell).err(),
            Err(error) => Some(error),
        };
        let answered = self.loads.all_answered();
        self.answer(stream, answered, error);
        Ok(())
    }

    fn answer(&self, mut stream: UnixStream, answered: bool, error: Option<String>) {
        let sandboxes = self.running.iter().filter(|(task, _)| task.container.is_none());
        let pods = sandboxes.map(|(task, _)| task.pod.clone()).collect();
        let told = Told { at_ns: self.recorder.now(), answered, pods, error };
        // Who asked and went away is answered by nobody hearing it.
        _ = writeln!(stream, "{}", serde_json::to_string(&told).unwrap_or_default());
    }

    fn obey(&mut self, tell: Tell) -> Result<(), String> {
        match tell {
            Tell::Begin { phase } => self.recorder.event(EventKind::PhaseStarted { phase }),
            Tell::Load { phase } => self.load(&phase)?,
            Tell::Wait { .. } => {}
            Tell::Note { event } => self.recorder.event(event),
            Tell::End { phase, deadline } => {
                let loads = Loads::new().map_err(|e| e.to_string())?;
                std::mem::replace(&mut self.loads, loads).stop().map_err(|e| e.to_string())?;
                self.read_kernel_log();
                self.look();
                self.sampling.read_all();
                let ledger = snapshot(&self.tree, self.recorder.now(), self.cgroups().into_iter(), &phase);
                self.recorder.frame(&Frame::Ledger(ledger));
                self.recorder.event(EventKind::PhaseEnded { phase, deadline });
            }
            Tell::Done => self.done = true,
        }
        Ok(())
    }

    fn load(&mut self, phase: &str) -> Result<(), String> {
        let order = self.order.phases.iter().find(|known| known.name == phase);
        let order = order.ok_or_else(|| format!("the order has no phase {phase}"))?;
        for load in &order.load {
            let sandbox = self.running.iter().find(|(task, _)| task.container.is_none() && task.pod == load.pod);
            let (sandbox, _) = sandbox.ok_or_else(|| format!("load {}: pod {} has no sandbox", load.name, load.pod))?;
            let network = Network::of(sandbox.pid).map_err(|e| format!("the network of pod {}: {e}", load.pod))?;
            self.loads.prepare(load, phase, Arc::new(network), &self.recorder).map_err(|e| e.to_string())?;
        }
        self.loads.set_off(self.recorder.now());
        Ok(())
    }

    /// The cgroups above the pods, then each pod with its sandbox and running containers.
    fn cgroups(&self) -> Vec<(Role, String)> {
        let mut cgroups: Vec<_> = self.order.cgroups.iter().map(|c| (c.role.clone(), c.path.clone())).collect();
        for (sandbox, _) in self.running.iter().filter(|(task, _)| task.container.is_none()) {
            let parent = sandbox.cgroup.rsplit_once('/').map_or("/", |(parent, _)| parent);
            cgroups.push((Role::Pod { pod: sandbox.pod.clone() }, parent.to_owned()));
            let own = self.running.iter().filter(|(task, _)| task.pod == sandbox.pod);
            cgroups.extend(own.map(|(task, _)| (task.role(), task.cgroup.clone())));
        }
        cgroups
    }
}

/// Passes on what a container wrote.
fn said(recorder: &Recorder, task: &mut Task) {
    let (Some(container), Some(log)) = (&task.container, &mut task.log) else { return };
    for line in log.lines() {
        let (pod, container) = (task.pod.clone(), container.clone());
        if line.starts_with(Report::WORD) {
            recorder.frame(&Frame::Report(Report { at_ns: recorder.now(), pod, container, line }));
        } else {
            recorder.frame(&Frame::Log { pod, container, line });
        }
    }
}
