//! A lab on the provider `vm`: its pods on a real kubelet, its load from the node, the same run directory.
//!
//! Time there is the emulator's and differs from run to run, so what a run on it shows is who dies and who lives, not how fast.

use super::{How, next_directory, plan_of};
use crate::cli::{Exit, studied};
use crate::kubelet::{Pod, Version};
use crate::lab::{self, Arm, Lab};
use crate::provider::cache::{Cache, cache_dir, hash_file, hex};
use crate::provider::image::{Image, Store};
use crate::provider::lease::{Lease, state_dir};
use crate::provider::vm::{LEAST_MEMORY, Session, Shape, VmError};
use crate::provider::{NodePrograms, interrupt, sim};
use crate::record::{
    Action, BootedNode, EventKind, NodeFacts, NodeRecord, Order, PhaseEnd, PhaseOrder, RunDir, SCHEMA, SEED, Tell,
};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::Instant;

/// The lab's deadlines are virtual seconds of an idle node. They guard a phase and measure nothing, so an emulated one gets more.
const PATIENCE: u64 = 15;
/// The longest that the observer is asked to wait at a time: between two questions the API is looked at.
const LOOK_NS: u64 = 2_000_000_000;

/// An arm as a real node can run it.
struct Real {
    arm: Arm,
    image: Image,
    /// In what it differs from the lab's arm.
    changed: Vec<String>,
}

/// Wall times of an arm in seconds, from the command.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ArmTiming {
    arm: String,
    node_ready_seconds: f64,
    script_seconds: f64,
    total_seconds: f64,
}

/// Runs the arms one after the other and studies the run. An arm that no built image can run is left out, and says so.
pub fn conduct(lab: &Lab, arms: &[&Arm], how: How) -> anyhow::Result<(RunDir, studied::Studied)> {
    let began = Instant::now();
    let images = Store::new(&cache_dir()).list().map_err(|e| Exit::Substrate.because(e))?;
    let (mut real, mut skipped) = (Vec::new(), Vec::new());
    for arm in arms {
        match adapt(arm, &images)? {
            Ok(arm) => real.push(arm),
            Err(why) => skipped.push((arm.name.clone(), why)),
        }
    }
    for (arm, why) in &skipped {
        say(arm, &format!("left out: {why}"), began);
    }
    if real.is_empty() {
        return Err(
            Exit::Substrate.because("no arm of the lab can run on a node image that is built: highwater image build 1.37")
        );
    }
    let out = how.out.clone().map_or_else(|| next_directory(&lab.name), Ok)?;
    let run = RunDir::create(&out).map_err(|e| Exit::BadInput.because(e))?;
    let lease = Lease::open(&state_dir())?;
    let held = lease.directory(run.path().as_std_path())?;
    let writing = run.writing()?;
    run.write("lab.yaml", lab.text.as_bytes())?;
    if let Some(lesson) = &lab.lesson_text {
        run.write(lab::LESSON, lesson.as_bytes())?;
    }
    run.write_json("lease.json", &serde_json::json!({ "schema": SCHEMA, "provider": how.provider, "left": [] }))?;

    let programs = NodePrograms::find().map_err(|e| Exit::Substrate.because(e))?;
    let program = fs_err::read(&programs.node)?;
    let (mut timings, mut nodes) = (Vec::new(), Vec::new());
    for real in &real {
        let begun = Instant::now();
        let (mem_total, ready) = run_arm(lab, real, &run, &program, &lease, begun)?;
        let (total, name) = (begun.elapsed().as_secs_f64(), real.arm.name.clone());
        nodes.push(BootedNode {
            arms: vec![name.clone()],
            facts: NodeFacts {
                kernel: real.image.manifest.kernel.clone(),
                mem_total,
                device_bytes: 0,
                ballast_bytes: 0,
                boot_ns: 0,
                devices: Vec::new(),
            },
        });
        timings.push(ArmTiming { arm: name, node_ready_seconds: ready, script_seconds: total - ready, total_seconds: total });
    }
    let substrate = substrate(lab, &real, &skipped, hash_file(&programs.node)?);
    drop(writing);
    let identity = hex(&Sha256::digest(serde_json::to_vec(&substrate)?));
    let acceptance = lab.acceptance.as_ref().map(|rules| rules.hash(&lab.baseline));
    run.write_json("node.json", &NodeRecord { schema: SCHEMA, substrate, identity, acceptance, nodes })?;
    run.write_json("timing.json", &serde_json::json!({ "schema": SCHEMA, "arms": timings }))?;
    let studied = studied::open(&run, lab, false)?;
    studied.write(&run)?;
    held.release();
    Ok((run, studied))
}

/// What an arm becomes on a node that there is an image of, or why it cannot run there.
fn adapt(arm: &Arm, images: &[Image]) -> anyhow::Result<Result<Real, String>> {
    if let Some(phase) = arm.phases.iter().find(|phase| phase.step.is_some()) {
        return Ok(Err(format!("phase {} has a step: highwater fidelity plays a lab's steps on a real node", phase.name)));
    }
    if let Some(pod) = arm.pods.iter().find(|pod| lab::slice(pod).is_some()) {
        return Ok(Err(format!("{} is a service of the node, which only the provider sim starts", pod.name())));
    }
    if !arm.node.data.is_empty() {
        return Ok(Err("its data device is modelled by the provider sim only".to_owned()));
    }
    let minor = |image: &Image| image.manifest.minor.parse::<Version>().ok();
    let exact = images.iter().rfind(|image| image.manifest.minor == arm.node.kubernetes);
    let Some(image) = exact.or_else(|| images.iter().max_by_key(|image| minor(image))) else {
        return Ok(Err("there is no node image yet: highwater image build 1.37".to_owned()));
    };
    let (mut changed, mut real) = (Vec::new(), arm.clone());
    if image.manifest.minor != arm.node.kubernetes {
        changed.push(format!("a kubelet of {} instead of {}", image.manifest.kubernetes, arm.node.kubernetes));
        real.node.kubernetes.clone_from(&image.manifest.minor);
    }
    let version: Version = real.node.kubernetes.parse().map_err(|e| Exit::BadInput.because(e))?;
    drop_settled_gates(&mut real, version, &mut changed);
    let factor = LEAST_MEMORY.div_ceil(real.node.memory.0);
    if factor > 1 {
        changed.push(format!("the node's memory and swap times {factor}, so that shares of the node stay"));
        real.node.memory.0 *= factor;
        real.node.swap.iter_mut().for_each(|device| device.size.0 *= factor);
    }
    let pods = real.pods.clone();
    Ok(match plan_of(&real, &real.facts(), &pods)? {
        Ok(_) => Ok(Real { arm: real, image: image.clone(), changed }),
        Err(refused) => Err(refused.join("; ")),
    })
}

/// A gate that has become what the arm sets it to, and then was removed, is no difference any more; naming it would stop the kubelet.
fn drop_settled_gates(arm: &mut Arm, version: Version, changed: &mut Vec<String>) {
    arm.kubelet.feature_gates.retain(|name, value| {
        let before = Version::ALL.iter().rev().filter(|known| **known < version).find_map(|known| known.gate(name));
        let settled = version.gate(name).is_none() && before.is_some_and(|gate| gate.locked && gate.on == *value);
        if settled {
            changed.push(format!("without the gate {name}, which {version} no longer has: it is always {value}"));
        }
        !settled
    });
}

/// Runs one arm; returns the node's memory and when it was ready, in seconds.
fn run_arm(lab: &Lab, real: &Real, run: &RunDir, program: &[u8], lease: &Lease, begun: Instant) -> anyhow::Result<(u64, f64)> {
    let Real { arm, image, .. } = real;
    let progress = |step: &str| say(&arm.name, step, begun);
    let dir = state_dir().join("runs").join(format!("run-{}-{}", std::process::id(), arm.name));
    let held = lease.directory(&dir)?;
    fs_err::create_dir_all(&dir)?;
    let shape = Shape {
        memory: arm.node.memory.0.next_multiple_of(1 << 20),
        swap: arm.node.swap.iter().map(|device| device.size.0).collect(),
        processors: 2,
        kernel_arguments: Vec::new(),
    };
    let cache = Cache::at(cache_dir());
    let mut session = Session::start(image, &shape, &arm.kubelet, program, &cache, lease, &dir, &progress).map_err(code)?;
    let ready = begun.elapsed().as_secs_f64();
    let facts = session.facts().map_err(code)?;
    let plan = |pods: &[Pod]| plan_of(arm, &facts, pods)?.map_err(|refused| Exit::BadInput.because(refused.join("; ")));
    let order = sim::order(lab, arm, &plan(&arm.pods)?).map_err(|e| Exit::BadInput.because(format!("arm {}: {e}", arm.name)))?;
    run.write_json(&format!("order/{}.json", arm.name), &order)?;
    session.observe(&order).map_err(code)?;
    let mut script = Script { session, arm, uids: BTreeMap::new(), ready: BTreeMap::new() };
    for phase in &order.phases {
        progress(&phase.name);
        script.play(phase, &order)?;
    }
    script.session.tell(&Tell::Done).map_err(code)?;
    progress("reading what the observer wrote");
    let frames = script.session.frames().map_err(code)?;
    run.record(&arm.name, &frames[..])?;
    let mut pods = arm.pods.clone();
    for pod in &mut pods {
        if let Some(uid) = script.uids.get(pod.name()) {
            pod.metadata.uid.clone_from(uid);
        }
    }
    run.write_json(&format!("plan/{}.json", arm.name), &plan(&pods)?)?;
    for (name, bytes) in script.session.evidence().map_err(code)? {
        run.write(&format!("cluster/{}/{name}", arm.name), &bytes)?;
    }
    drop(script);
    drop(held);
    Ok((facts.memory, ready))
}

/// The script on a running node.
struct Script<'a> {
    session: Session,
    arm: &'a Arm,
    /// By pod, as the API server gave it.
    uids: BTreeMap<String, String>,
    /// By pod and container, as last noted.
    ready: BTreeMap<(String, String), bool>,
}

impl Script<'_> {
    fn play(&mut self, phase: &PhaseOrder, order: &Order) -> anyhow::Result<()> {
        let name = || phase.name.clone();
        let began = self.session.tell(&Tell::Begin { phase: name() }).map_err(code)?.at_ns;
        for action in &phase.actions {
            match action {
                Action::Start { pods } => {
                    let pods: Vec<_> = self.arm.pods.iter().filter(|pod| pods.iter().any(|name| name == pod.name())).collect();
                    self.session.create_pods(&pods).map_err(code)?;
                }
                Action::Stop { pods } => self.session.delete_pods(pods).map_err(code)?,
                other => anyhow::bail!("phase {}: {other:?} is for the provider sim", phase.name),
            }
        }
        let (ns, patience) = match phase.end {
            PhaseEnd::After { ns } => (ns, 1),
            PhaseEnd::Ready { deadline_ns } | PhaseEnd::Settled { deadline_ns } => (deadline_ns, PATIENCE),
        };
        let until_ns = began.saturating_add(ns.saturating_mul(patience));
        let mut loaded = phase.load.is_empty();
        let deadline = loop {
            if interrupt::requested() {
                return Err(code(VmError::Interrupted));
            }
            let told = self.wait(until_ns)?;
            let mut answered = told.answered;
            if !loaded && phase.load.iter().all(|load| told.pods.contains(&load.pod)) {
                self.session.tell(&Tell::Load { phase: name() }).map_err(code)?;
                (loaded, answered) = (true, false);
            }
            let pods = self.note()?;
            let finished = match phase.end {
                PhaseEnd::After { .. } => false,
                PhaseEnd::Ready { .. } => pods.iter().all(|pod| pod.is_ready() || pod.is_finished()),
                PhaseEnd::Settled { .. } => loaded && answered && self.jobs_done(&pods, order),
            };
            if finished {
                break false;
            }
            if told.at_ns >= until_ns {
                break !matches!(phase.end, PhaseEnd::After { .. });
            }
        };
        self.session.tell(&Tell::End { phase: name(), deadline }).map_err(code)?;
        Ok(())
    }

    /// Waits for the load, for a while.
    fn wait(&mut self, until_ns: u64) -> anyhow::Result<crate::record::Told> {
        let now = self.session.tell(&Tell::Wait { until_ns: 0 }).map_err(code)?;
        if now.answered || now.at_ns >= until_ns {
            return Ok(now);
        }
        self.session.tell(&Tell::Wait { until_ns: until_ns.min(now.at_ns + LOOK_NS) }).map_err(code)
    }

    fn jobs_done(&self, pods: &[crate::provider::api::PodView], order: &Order) -> bool {
        let job = |name: &str| {
            order.pods.iter().any(|pod| pod.name == name && pod.restart_policy != crate::record::RestartPolicy::Always)
        };
        pods.iter().filter(|pod| job(pod.name())).all(crate::provider::api::PodView::is_finished)
    }

    /// Looks at the pods and notes whose readiness changed.
    fn note(&mut self) -> anyhow::Result<Vec<crate::provider::api::PodView>> {
        let pods = self.session.pods().map_err(code)?;
        for view in &pods {
            self.uids.insert(view.name().to_owned(), view.uid().to_owned());
            for (container, ready) in view.readiness() {
                let key = (view.name().to_owned(), container.clone());
                if self.ready.insert(key, ready).unwrap_or(false) != ready {
                    let event = EventKind::Ready { pod: view.name().to_owned(), container, ready };
                    self.session.tell(&Tell::Note { event }).map_err(code)?;
                }
            }
        }
        Ok(pods)
    }
}

fn substrate(lab: &Lab, real: &[Real], skipped: &[(String, String)], program: String) -> Vec<(String, String)> {
    let mut list = vec![
        ("provider".to_owned(), "vm: a real kubelet under TCG; times are the emulator's".to_owned()),
        ("node program".to_owned(), program),
        ("lab".to_owned(), hex(&Sha256::digest(lab.text.as_bytes()))),
        (SEED.to_owned(), lab.seed.to_string()),
    ];
    for Real { arm, image, changed } in real {
        let manifest = &image.manifest;
        list.push((
            format!("node of {}", arm.name),
            format!("kubelet {}, {}, {}", manifest.kubernetes, manifest.kernel, manifest.key),
        ));
        list.extend(changed.iter().map(|change| (format!("changed in {}", arm.name), change.clone())));
    }
    list.extend(skipped.iter().map(|(arm, why)| (format!("left out: {arm}"), why.clone())));
    list
}

#[expect(clippy::print_stderr, reason = "progress of a command that takes minutes")]
fn say(arm: &str, step: &str, begun: Instant) {
    eprintln!("{arm}: {step} ({:.0} s)", begun.elapsed().as_secs_f64());
}

fn code(error: VmError) -> anyhow::Error {
    match error {
        _ if interrupt::requested() => Exit::Interrupted.because(VmError::Interrupted),
        VmError::Kubelet(_) => Exit::BadInput.because(error),
        _ => Exit::Substrate.because(error),
    }
}
