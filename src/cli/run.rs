//! `highwater run LAB`: plan, provision, drive, record, study, report.

mod course;
mod drive;
mod progress;
mod seeds;
mod vm;

use super::{Exit, KernelArguments, input, print, print_json, studied};
use crate::kubelet::{NodeFacts, Pod, Version};
use crate::lab::{self, Arm, Lab};
use crate::plan;
use crate::provider::cache::{Cache, cache_dir, hex};
use crate::provider::lease::{Lease, state_dir};
use crate::provider::machine::MachineError;
use crate::provider::sim::{self, SimError, Substrate};
use crate::record::{BootedNode, NodeRecord, Plan, RunDir, SCHEMA, SEED};
use camino::{Utf8Path, Utf8PathBuf};
use progress::Progress;
use sha2::{Digest, Sha256};
use std::time::{Duration, Instant};

/// The provider of real nodes.
const VM: &str = "vm";

/// Arguments of `highwater run`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A name of the catalogue, a directory, or a file with all documents.
    lab: String,
    /// Run only this arm; may be given several times.
    #[arg(long = "arm", value_name = "ARM")]
    arms: Vec<String>,
    /// Run every arm with so many seeds, the lab's own and those after it, and decide by the lab's acceptance rules.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=100))]
    seeds: Option<u64>,
    #[command(flatten)]
    how: How,
}

/// How a lab is run.
#[derive(Debug, clap::Args)]
pub(super) struct How {
    /// The run directory; by default a new one below highwater-runs.
    #[arg(long, value_name = "DIR")]
    out: Option<Utf8PathBuf>,
    /// Where the node comes from.
    #[arg(long, default_value = "sim", value_parser = ["sim", VM])]
    provider: String,
    /// Wall-clock seconds after which an arm counts as hung.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    guard: u64,
    /// Arms at a time; by default as many as there are cores.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    #[command(flatten)]
    kernel: KernelArguments,
}

/// Runs a lab.
pub fn run(arguments: Arguments, json: bool) -> anyhow::Result<Exit> {
    let lab = input::lab(&arguments.lab)?;
    if arguments.seeds.is_some() && lab.acceptance.is_none() {
        let message = format!("{} states no acceptance rules to decide by: add `acceptance` to its lab.yaml", lab.name);
        return Err(Exit::BadInput.because(message));
    }
    perform(&lab, &arguments.arms, arguments.seeds.unwrap_or(1), arguments.how, json)
}

/// Runs these arms of a lab, all of them when none is named, with so many seeds, and prints the result.
pub(super) fn perform(lab: &Lab, arms: &[String], seeds: u64, how: How, json: bool) -> anyhow::Result<Exit> {
    let (run, studied) = conduct(lab, arms, seeds, how)?;
    if json {
        print_json(&serde_json::json!({"run": run.path(), "result": studied.result}))?;
    } else {
        print(studied.terminal())?;
        print(format!("\nrun     {}\nreport  {}", run.path(), run.file("report.html")))?;
    }
    Ok(studied.exit())
}

/// Runs these arms of a lab and studies the run.
pub(super) fn conduct(lab: &Lab, arms: &[String], seeds: u64, how: How) -> anyhow::Result<(RunDir, studied::Studied)> {
    let began = Instant::now();
    let arms = input::arms(lab, arms)?;
    if how.provider == VM {
        if seeds > 1 {
            return Err(Exit::BadInput.because("--seeds needs runs that can be repeated: leave out --provider vm"));
        }
        return vm::conduct(lab, &arms, how);
    }
    let plans = plans(&arms)?;
    let out = how.out.clone().map_or_else(|| next_directory(&lab.name), Ok)?;
    let run = RunDir::create(&out).map_err(|e| Exit::BadInput.because(e))?;

    let lease = Lease::open(&state_dir())?;
    // Until it is complete the run directory is on the lease: whatever goes wrong, no half run is left.
    let held = lease.directory(run.path().as_std_path())?;
    let writing = run.writing()?;
    let members = seeds::members(&run, lab, seeds)?;
    // What is run stands there from the beginning, for who looks on.
    for (lab, member) in &members {
        member.write("lab.yaml", lab.text.as_bytes())?;
        if let Some(lesson) = &lab.lesson_text {
            member.write(lab::LESSON, lesson.as_bytes())?;
        }
    }
    let name = |lab: &Lab, arm: &Arm| if seeds > 1 { format!("seed {} {}", lab.seed, arm.name) } else { arm.name.clone() };
    let names = members.iter().flat_map(|(lab, _)| arms.iter().map(move |arm| name(lab, arm)));
    let progress = Progress::new(names.collect());
    let cache = Cache::at(cache_dir());
    let say = |text: &str| progress.say(text);
    let substrate = Substrate::find(&how.kernel.into(), &cache, &lease, &say).map_err(substrate_error)?;
    let mut timing = Timing::default();
    let mut nodes = Vec::new();
    let mut orders = Vec::new();
    for (shape, group) in sim::shapes(&arms) {
        let checkpoint = sim::prepare(&shape, &substrate, &cache, &lease, &say).map_err(substrate_error)?;
        timing.warm &= checkpoint.warm;
        nodes.push((checkpoint, group));
    }
    // Seed by seed, and in each in the lab's order, whatever node an arm is forked from.
    for (lab, member) in &members {
        for arm in &arms {
            let plan = &plans.iter().find(|(name, _)| *name == arm.name).expect("every chosen arm has a plan").1;
            let order = sim::order(lab, arm, plan).map_err(|e| Exit::BadInput.because(format!("arm {}: {e}", arm.name)))?;
            let holds = |(_, group): &(sim::Checkpoint, Vec<&Arm>)| group.iter().any(|of| of.name == arm.name);
            let node = nodes.iter().position(holds).expect("every chosen arm has a node");
            member.write_json(&format!("order/{}.json", arm.name), &order)?;
            orders.push((name(lab, arm), arm, order, node, member));
        }
    }
    timing.add("prepare", began.elapsed());

    for (lab, member) in &members {
        for (name, plan) in &plans {
            member.write_json(&format!("plan/{name}.json"), plan)?;
        }
        member.write_json("node.json", &node_record(lab, &substrate, &nodes)?)?;
        member.write_json("lease.json", &serde_json::json!({"schema": SCHEMA, "provider": how.provider, "left": []}))?;
    }

    let driving = Instant::now();
    let forks: Vec<_> = orders
        .iter()
        .map(|(name, arm, order, node, run)| drive::Fork { name, arm, order, checkpoint: &nodes[*node].0, run })
        .collect();
    let guard = Duration::from_secs(how.guard);
    let jobs = how.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1);
    let arm_timings = drive::drive(&forks, &substrate.programs.node, guard, jobs, &cache, &lease, &progress)?;
    timing.add("drive", driving.elapsed());
    progress.finish();

    let studying = Instant::now();
    let studied = studied::open(&run, lab, false)?;
    timing.add("study", studying.elapsed());
    let reporting = Instant::now();
    studied.write(&run)?;
    timing.add("report", reporting.elapsed());
    timing.add("total", began.elapsed());
    run.write_json("timing.json", &timing.json(&arm_timings))?;
    drop(writing);
    held.release();
    Ok((run, studied))
}

/// The plan of every arm, or everything the kubelets refuse.
fn plans(arms: &[&Arm]) -> anyhow::Result<Vec<(String, Plan)>> {
    let (mut plans, mut refusals) = (Vec::new(), Vec::new());
    for arm in arms {
        // A service of the node is none of the kubelet's business.
        let pods: Vec<_> = arm.pods.iter().filter(|pod| lab::slice(pod).is_none()).cloned().collect();
        match plan_of(arm, &arm.facts(), &pods)? {
            Ok(plan) => match course::course(arm, &pods, version(arm)?, plan) {
                Ok(plan) => plans.push((arm.name.clone(), plan)),
                Err(refused) => refusals.push(refused),
            },
            Err(reasons) => refusals.extend(reasons.into_iter().map(|reason| format!("arm {}: {reason}", arm.name))),
        }
    }
    if refusals.is_empty() { Ok(plans) } else { Err(Exit::BadInput.because(refusals.join("\n"))) }
}

/// What the arm's kubelet writes for these pods on such a node, or what it refuses.
fn plan_of(arm: &Arm, facts: &NodeFacts, pods: &[Pod]) -> anyhow::Result<Result<Plan, Vec<String>>> {
    let plan = plan::plan(version(arm)?, &arm.kubelet, facts, pods);
    Ok(plan.map_err(|reasons| reasons.into_iter().map(|reason| reason.message).collect()))
}

fn version(arm: &Arm) -> anyhow::Result<Version> {
    arm.node.kubernetes.parse().map_err(|e| Exit::BadInput.because(e))
}

fn next_directory(lab: &str) -> anyhow::Result<Utf8PathBuf> {
    let parent = Utf8Path::new("highwater-runs").join(lab);
    let free = (1..).map(|n| parent.join(format!("{n:03}"))).find(|dir| !dir.exists());
    free.ok_or_else(|| anyhow::anyhow!("{parent} is full"))
}

fn node_record(lab: &Lab, substrate: &Substrate, nodes: &[(sim::Checkpoint, Vec<&Arm>)]) -> anyhow::Result<NodeRecord> {
    let program = crate::provider::cache::hash_file(&substrate.programs.node)?;
    let text = hex(&Sha256::digest(lab.text.as_bytes()));
    let mut list = vec![
        ("provider".to_owned(), "sim: one vCPU, instruction counting".to_owned()),
        ("qemu".to_owned(), format!("{} {}", substrate.qemu.version, substrate.qemu.hash)),
        ("kernel".to_owned(), format!("{} {}", substrate.kernel.release, substrate.kernel.hash)),
        ("guest program".to_owned(), program),
        ("lab".to_owned(), text),
        (SEED.to_owned(), lab.seed.to_string()),
    ];
    for (checkpoint, group) in nodes {
        let arms: Vec<_> = group.iter().map(|a| a.name.as_str()).collect();
        list.push((format!("booted memory of {}", arms.join(", ")), checkpoint.identity.memory.clone()));
    }
    let identity = hex(&Sha256::digest(serde_json::to_vec(&list)?));
    let booted = nodes.iter().map(|(checkpoint, group)| BootedNode {
        arms: group.iter().map(|a| a.name.clone()).collect(),
        facts: checkpoint.facts.clone(),
    });
    let acceptance = lab.acceptance.as_ref().map(|rules| rules.hash(&lab.baseline));
    Ok(NodeRecord { schema: SCHEMA, substrate: list, identity, acceptance, nodes: booted.collect() })
}

fn substrate_error(error: SimError) -> anyhow::Error {
    match &error {
        SimError::Shape(_) => Exit::BadInput.because(error),
        SimError::Machine(machine) => machine_exit(machine).because(error),
        _ => Exit::Substrate.because(error),
    }
}

fn machine_exit(error: &MachineError) -> Exit {
    match error {
        MachineError::Interrupted => Exit::Interrupted,
        _ => Exit::Substrate,
    }
}

/// Wall times: the only thing that differs between equal runs.
#[derive(Debug)]
struct Timing {
    warm: bool,
    parts: Vec<(&'static str, Duration)>,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing { warm: true, parts: Vec::new() }
    }
}

impl Timing {
    fn add(&mut self, part: &'static str, took: Duration) {
        self.parts.push((part, took));
    }

    fn json(&self, arms: &[drive::ArmTiming]) -> serde_json::Value {
        let parts: serde_json::Map<_, _> =
            self.parts.iter().map(|(name, took)| (format!("{name}Seconds"), took.as_secs_f64().into())).collect();
        serde_json::json!({"schema": SCHEMA, "nothingBooted": self.warm, "parts": parts, "arms": arms})
    }
}
