//! `highwater fidelity`: a lab's pods on a real kubelet, and the control ledger it writes held against the simulator's plan.

use super::{Exit, input, print, print_json};
use crate::kubelet::{KubeletConfiguration, NodeFacts, Pod, Refusal, Resources, aggregate};
use crate::lab::{Arm, Lab, NodeStep};
use crate::ledger::{Action, Evidence, Life, Replay, Step, Verdict, misplaced};
use crate::provider::api::ApiError;
use crate::provider::cache::{Cache, cache_dir};
use crate::provider::image::{Image, Recipe, Store};
use crate::provider::lease::{Lease, state_dir};
use crate::provider::vm::{LEAST_MEMORY, Session, Shape, VmError};
use crate::provider::{NodePrograms, interrupt};
use crate::record::LedgerEntry;
use anyhow::Result;
use camino::Utf8PathBuf;
use serde::Serialize;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// The kubelet sums its pods up once a minute; a busy machine takes its time to look.
const SETTLED: Duration = Duration::from_secs(150);

/// Arguments of `highwater fidelity`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A name of the catalogue, a directory, or a file with all documents.
    lab: String,
    /// Only these arms.
    #[arg(long = "arm", value_name = "ARM")]
    arms: Vec<String>,
    /// What to do to the running node then, after the steps of the lab's own phases: an arm's name (its kubelet configuration and its pods' resources, in place) or
    /// POD/CONTAINER (killed and started again); may be given several times, and the ledger is compared after each.
    #[arg(long, value_name = "STEP")]
    then: Vec<String>,
    /// Where the real kubelet runs.
    #[arg(long, value_enum, default_value_t = On::Vm)]
    on: On,
    /// Keep what the real node wrote as files in this folder, in the form of fixtures/ledger-real.
    #[arg(long, value_name = "DIR")]
    keep: Option<Utf8PathBuf>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum On {
    /// A throwaway VM with its control plane as host processes.
    Vm,
}

/// What one arm showed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Compared {
    arm: String,
    kubernetes: String,
    facts: NodeFacts,
    seconds: f64,
    steps: Vec<Stepped>,
}

/// What the files said after one step.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Stepped {
    step: String,
    misplaced: Vec<String>,
    #[serde(flatten)]
    evidence: Evidence,
}

impl Compared {
    fn agrees(&self) -> bool {
        self.steps.iter().all(|step| step.evidence.verdict == Verdict::Fulfilled && step.misplaced.is_empty())
    }
}

/// An arm that could not be compared, and why.
#[derive(Debug, Serialize)]
struct Skipped {
    arm: String,
    why: String,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<Exit> {
    let On::Vm = args.on;
    let lab = input::lab(&args.lab)?;
    let arms = input::arms(&lab, &args.arms)?;
    let (mut compared, mut skipped) = (Vec::new(), Vec::new());
    for arm in arms {
        match image(arm)? {
            Ok(image) => compared.push(compare(&lab, arm, &image, args)?),
            Err(why) => skipped.push(Skipped { arm: arm.name.clone(), why }),
        }
    }
    let exit = if compared.is_empty() {
        Exit::Uninformative
    } else if compared.iter().all(Compared::agrees) {
        Exit::AsExpected
    } else {
        Exit::Failed
    };
    if json {
        print_json(&serde_json::json!({ "lab": lab.name, "compared": compared, "skipped": skipped }))?;
    } else {
        print(describe(&compared, &skipped))?;
    }
    Ok(exit)
}

/// The newest built image of the arm's version, or why there is none.
fn image(arm: &Arm) -> Result<std::result::Result<Image, String>> {
    let minor = arm.node.kubernetes.to_string();
    if let Err(error) = Recipe::of(&minor) {
        return Ok(Err(error.to_string()));
    }
    let images = Store::new(&cache_dir()).list().map_err(|e| Exit::Substrate.because(e))?;
    let mut fitting: Vec<_> = images.into_iter().filter(|i| i.manifest.minor == minor).collect();
    fitting.sort_by_key(|i| fs_err::metadata(i.dir.join("manifest.json")).and_then(|m| m.modified()).ok());
    match fitting.pop() {
        Some(image) => Ok(Ok(image)),
        None => Err(Exit::Substrate.because(format!("there is no node image of {minor} yet: highwater image build {minor}"))),
    }
}

/// What is done to the node after its pods run.
enum Next<'a> {
    /// The lab's own step of a phase.
    Step { phase: &'a str, step: &'a NodeStep },
    /// The running node becomes this arm: its kubelet restarts with the arm's configuration, its pods are resized in place.
    Arm(&'a Arm),
    /// A container is killed and starts again.
    Restart { pod: &'a str, container: &'a str },
}

/// The steps of the arm's phases, then those of the command line.
fn script<'a>(lab: &'a Lab, arm: &'a Arm, then: &'a [String]) -> Result<Vec<Next<'a>>> {
    let next = |word: &'a String| {
        if let Some((pod, container)) = word.split_once('/') {
            let there = arm.pods.iter().any(|p| p.name() == pod && p.containers().any(|c| c.name == container));
            return if there {
                Ok(Next::Restart { pod, container })
            } else {
                Err(format!("{} has no container {word}", arm.name))
            };
        }
        let next = lab.known_arm(word)?;
        if next.node != arm.node {
            return Err(format!("a running node of {} cannot become {word}: its machine or its version is another", arm.name));
        }
        if let Some((pod, _)) =
            arm.pods.iter().zip(&next.pods).find(|(now, then)| without_resources(now) != without_resources(then))
        {
            return Err(format!(
                "a running node of {} cannot become {word}: {} differs in more than resources",
                arm.name,
                pod.name()
            ));
        }
        Ok(Next::Arm(next))
    };
    let own = arm.phases.iter().filter_map(|phase| Some(Next::Step { phase: &phase.name, step: phase.step.as_ref()? }));
    let then = then.iter().map(|word| next(word).map_err(|why| Exit::BadInput.because(why)));
    own.map(Ok).chain(then).collect()
}

fn without_resources(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    pod.spec.resources = None;
    pod.spec.init_containers.iter_mut().chain(&mut pod.spec.containers).for_each(|c| c.resources = Resources::default());
    pod
}

/// What turns a running node into an arm.
fn actions(arm: &Arm, config: &KubeletConfiguration, pods: &[Pod]) -> Vec<Action> {
    let mut actions = Vec::new();
    if arm.kubelet != *config {
        actions.push(Action::RestartKubelet { config: arm.kubelet.clone() });
    }
    let resized = pods.iter().filter_map(|pod| {
        let mut new = arm.pods.iter().find(|p| p.name() == pod.name())?.clone();
        new.metadata.uid.clone_from(&pod.metadata.uid);
        (new != *pod).then_some(new)
    });
    let resized: Vec<_> = resized.collect();
    if !resized.is_empty() {
        actions.push(Action::Resize { pods: resized });
    }
    actions
}

fn compare(lab: &Lab, arm: &Arm, image: &Image, args: &Args) -> Result<Compared> {
    let begun = Instant::now();
    let script = script(lab, arm, &args.then)?;
    let program = NodePrograms::find().map_err(|e| Exit::Substrate.because(e))?;
    let program = fs_err::read(&program.node)?;
    let lease = Lease::open(&state_dir())?;
    let dir = state_dir().join("runs").join(format!("fidelity-{}", std::process::id()));
    let held = lease.directory(&dir)?;
    fs_err::create_dir_all(&dir)?;
    let shape = Shape {
        memory: arm.node.memory.0.max(LEAST_MEMORY).next_multiple_of(1 << 20),
        swap: arm.node.swap.iter().map(|device| device.size.0).collect(),
        processors: 2,
        kernel_arguments: Vec::new(),
    };
    let progress = |step: &str| say(&arm.name, step, begun);
    let cache = Cache::at(cache_dir());
    let mut session = Session::start(image, &shape, &arm.kubelet, &program, &cache, &lease, &dir, &progress).map_err(code)?;
    progress("the node is ready; starting the pods");
    let pods = session.run_pods(&arm.pods).map_err(code)?;
    let (config, facts) = (arm.kubelet.clone(), session.facts().map_err(code)?);
    let version = arm.node.kubernetes.parse().map_err(|e| Exit::BadInput.because(e))?;
    let refuses = |reasons: Vec<Refusal>| {
        anyhow::anyhow!("the kubelet did what the simulator says that it refuses: {}", aggregate(&reasons))
    };
    let mut node = Replay::create(version, &config, &facts, &pods).map_err(refuses)?;
    let mut life = Life {
        kubernetes: image.manifest.kubernetes.clone(),
        node: serde_json::json!({ "kernel": image.manifest.kernel, "image": image.manifest.key }),
        facts,
        steps: Vec::new(),
    };
    progress("reading the ledger");
    let created = Action::Create { config, pods };
    let mut steps = vec![settle(&mut session, &mut life, &node, created)?];
    for next in script {
        let actions = match next {
            Next::Step { phase, step } => {
                let action = node.action(step).map_err(|why| Exit::BadInput.because(format!("phase {phase}: {why}")))?;
                if let Some(words) = step.refused() {
                    progress(&format!("{}, which must be refused", self::words(&action)));
                    let said = refusal(&mut session, &mut node, &action, words)?;
                    let (_, misplaced, evidence) = read(&mut session, &life, &node)?;
                    steps.push(Stepped { step: format!("refused: {}", said.trim()), misplaced, evidence });
                    continue;
                }
                vec![action]
            }
            Next::Arm(arm) => actions(arm, node.config(), node.planning().pods()),
            Next::Restart { pod, container } => {
                vec![Action::RestartContainer { pod: pod.to_owned(), container: container.to_owned() }]
            }
        };
        for action in actions {
            progress(&words(&action));
            let action = act(&mut session, &node, action).map_err(code)?;
            node.act(&action).map_err(refuses)?;
            steps.push(settle(&mut session, &mut life, &node, action)?);
        }
    }
    drop(session);
    drop(held);
    if let Some(folder) = &args.keep {
        fs_err::create_dir_all(folder)?;
        let path = folder.join(format!("{}-{}-{}.json", life.kubernetes, lab.name.replace('/', "-"), arm.name));
        fs_err::write(path, serde_json::to_vec_pretty(&life)?)?;
    }
    Ok(Compared {
        arm: arm.name.clone(),
        kubernetes: life.kubernetes,
        facts: life.facts,
        seconds: begun.elapsed().as_secs_f64(),
        steps,
    })
}

/// Does it to the real node; returns what was done, with what only the node could say.
fn act(session: &mut Session, node: &Replay, action: Action) -> std::result::Result<Action, VmError> {
    match &action {
        Action::Create { .. } => {}
        Action::RestartKubelet { config } => session.start_kubelet(config)?,
        Action::RestartContainer { pod, container } => session.restart_container(pod, container)?,
        Action::Resize { pods } => pods.iter().try_for_each(|pod| session.resize(pod))?,
        Action::RecreatePod { pod, .. } => {
            if let Some(known) = node.planning().pods().iter().find(|known| known.name() == pod) {
                let uid = session.recreate_pod(known)?.metadata.uid;
                return Ok(Action::RecreatePod { pod: pod.clone(), uid: Some(uid) });
            }
        }
    }
    Ok(action)
}

/// Does what must be refused, by the simulator and by the real kubelet, and returns the kubelet's own words.
fn refusal(session: &mut Session, node: &mut Replay, action: &Action, words: &str) -> Result<String> {
    if node.act(action).is_ok() {
        return Err(Exit::BadInput.because(format!("the simulator accepts a {}: take out `refused`", self::words(action))));
    }
    match act(session, node, action.clone()) {
        Err(VmError::Kubelet(said) | VmError::Api(ApiError::Infeasible { reason: said, .. })) if said.contains(words) => Ok(said),
        Err(VmError::Kubelet(said) | VmError::Api(ApiError::Infeasible { reason: said, .. })) => {
            Err(Exit::Failed.because(format!("the real kubelet refuses it in other words than {words:?}: {said}")))
        }
        Err(error) => Err(code(error)),
        Ok(_) => Err(Exit::Failed.because(format!("the real kubelet accepts a {}", self::words(action)))),
    }
}

/// Reads the ledger until it is what the simulator says, or until longer than the kubelet takes to follow a change.
fn read(session: &mut Session, life: &Life, node: &Replay) -> Result<(Vec<LedgerEntry>, Vec<String>, Evidence)> {
    let plan = node.plan();
    let ends = Instant::now() + SETTLED;
    loop {
        let ledger = session.ledger(&plan).map_err(code)?;
        let evidence = life.verify(&plan, &ledger);
        let misplaced = misplaced(&plan, &ledger);
        if evidence.verdict == Verdict::Fulfilled && misplaced.is_empty() || Instant::now() >= ends {
            return Ok((ledger, misplaced, evidence));
        }
    }
}

/// Reads the ledger after a step and adds both to the life.
fn settle(session: &mut Session, life: &mut Life, node: &Replay, action: Action) -> Result<Stepped> {
    let step = words(&action);
    life.steps.push(Step { action, ledger: Vec::new() });
    let (ledger, misplaced, evidence) = read(session, life, node)?;
    life.steps.last_mut().expect("just pushed").ledger = ledger;
    Ok(Stepped { step, misplaced, evidence })
}

fn words(action: &Action) -> String {
    match action {
        Action::Create { .. } => "creation".to_owned(),
        Action::RestartKubelet { .. } => "restart of the kubelet with another configuration".to_owned(),
        Action::RestartContainer { pod, container } => format!("restart of {pod}/{container}"),
        Action::RecreatePod { pod, .. } => format!("new pod {pod}"),
        Action::Resize { pods } => {
            format!("resize of {}", pods.iter().map(Pod::name).collect::<Vec<_>>().join(", "))
        }
    }
}

fn describe(compared: &[Compared], skipped: &[Skipped]) -> String {
    let mut text = String::new();
    for Compared { arm, kubernetes, facts, seconds, steps } in compared {
        let NodeFacts { memory, swap, .. } = facts;
        _ = writeln!(text, "{arm}: kubelet {kubernetes} with {memory} bytes of memory and {swap} of swap ({seconds:.0} s)");
        for Stepped { step, misplaced, evidence } in steps {
            _ = writeln!(text, "  {step}: {} of {} files differ", evidence.drifts.len(), evidence.compared);
            for drift in &evidence.drifts {
                let rule = drift.rule.as_ref().map_or("nobody writes it".to_owned(), |r| format!("{}; {}", r.formula, r.source));
                _ = writeln!(
                    text,
                    "    {} {}: simulator {}, real {} ({rule})",
                    drift.role, drift.file, drift.planned, drift.found
                );
            }
            for (role, file) in &evidence.missing {
                _ = writeln!(text, "    {role} {}: not on the real node", file.as_deref().unwrap_or("cgroup"));
            }
            for line in misplaced {
                _ = writeln!(text, "    {line}");
            }
        }
    }
    for Skipped { arm, why } in skipped {
        _ = writeln!(text, "{arm}: not compared: {why}");
    }
    text
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
