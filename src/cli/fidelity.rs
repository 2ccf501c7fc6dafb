//! `highwater fidelity`: a lab's pods on a real kubelet, and the control ledger it writes held against the simulator's plan.

use super::{Exit, input, print, print_json};
use crate::kubelet::{NodeFacts, Pod, Version};
use crate::lab::{Arm, Lab};
use crate::ledger::{Evidence, Verdict, verify};
use crate::plan::plan;
use crate::provider::cache::{Cache, cache_dir};
use crate::provider::image::{Image, Recipe, Store};
use crate::provider::lease::{Lease, state_dir};
use crate::provider::vm::{Session, Shape, VmError};
use crate::provider::{NodePrograms, interrupt};
use crate::record::{LedgerSnapshot, Role};
use anyhow::Result;
use camino::Utf8PathBuf;
use serde::Serialize;
use std::fmt::Write;
use std::time::Instant;

/// The least a Debian with containerd and a kubelet runs in, bytes.
const LEAST_MEMORY: u64 = 1 << 30;

/// Arguments of `highwater fidelity`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A name of the catalogue, a directory, or a file with all documents.
    lab: String,
    /// Only these arms.
    #[arg(long = "arm", value_name = "ARM")]
    arms: Vec<String>,
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
    #[serde(flatten)]
    evidence: Evidence,
}

/// An arm that could not be compared, and why.
#[derive(Debug, Serialize)]
struct Skipped {
    arm: String,
    why: String,
}

/// What a node wrote, in the form of a fixture.
#[derive(Debug, Serialize)]
struct Life<'a> {
    kubernetes: &'a str,
    node: serde_json::Value,
    facts: &'a NodeFacts,
    steps: [serde_json::Value; 1],
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<Exit> {
    let On::Vm = args.on;
    let lab = input::lab(&args.lab)?;
    let arms = chosen(&lab, &args.arms)?;
    let (mut compared, mut skipped) = (Vec::new(), Vec::new());
    for arm in arms {
        match image(arm)? {
            Ok(image) => compared.push(compare(&lab, arm, &image, args)?),
            Err(why) => skipped.push(Skipped { arm: arm.name.clone(), why }),
        }
    }
    let exit = if compared.is_empty() {
        Exit::Uninformative
    } else if compared.iter().all(|c| c.evidence.verdict == Verdict::Fulfilled) {
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

fn chosen<'a>(lab: &'a Lab, names: &[String]) -> Result<Vec<&'a Arm>> {
    if names.is_empty() {
        return Ok(lab.arms.iter().collect());
    }
    let known = || lab.arms.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join(", ");
    let find = |name: &String| {
        lab.arm(name).ok_or_else(|| Exit::BadInput.because(format!("{} has no arm {name:?}: it has {}", lab.name, known())))
    };
    names.iter().map(find).collect()
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

fn compare(lab: &Lab, arm: &Arm, image: &Image, args: &Args) -> Result<Compared> {
    let begun = Instant::now();
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
    progress("reading the ledger");
    let facts = session.facts().map_err(code)?;
    let version: Version = arm.node.kubernetes.to_string().parse()?;
    let plan = plan(version, &arm.kubelet, &facts, &pods).map_err(|refusals| {
        let words = refusals.iter().map(|r| r.message.as_str()).collect::<Vec<_>>().join("; ");
        anyhow::anyhow!("the kubelet runs with a configuration for which the plan says that it does not start: {words}")
    })?;
    let ledger = session.ledger(&plan, "control").map_err(code)?;
    let evidence = verify(&plan, &ledger, |role| !ended(&pods, role));
    if let Some(folder) = &args.keep {
        keep(folder, lab, arm, image, &facts, &pods, &ledger)?;
    }
    drop(session);
    drop(held);
    Ok(Compared {
        arm: arm.name.clone(),
        kubernetes: image.manifest.kubernetes.clone(),
        facts,
        seconds: begun.elapsed().as_secs_f64(),
        evidence,
    })
}

/// An init container that is no sidecar has ended when its pod runs, and its cgroup with it.
fn ended(pods: &[Pod], role: &Role) -> bool {
    let Role::Container { pod, container } = role else { return false };
    let init = pods.iter().filter(|p| p.name() == pod).flat_map(|p| &p.spec.init_containers);
    init.into_iter().any(|c| c.name == *container && !c.is_restartable())
}

fn keep(
    folder: &Utf8PathBuf,
    lab: &Lab,
    arm: &Arm,
    image: &Image,
    facts: &NodeFacts,
    pods: &[Pod],
    ledger: &LedgerSnapshot,
) -> Result<()> {
    let kubernetes = &image.manifest.kubernetes;
    let step = serde_json::json!({ "step": "create", "config": arm.kubelet, "pods": pods, "ledger": ledger.entries });
    let node = serde_json::json!({ "kernel": image.manifest.kernel, "image": image.manifest.key });
    let life = Life { kubernetes, node, facts, steps: [step] };
    fs_err::create_dir_all(folder)?;
    let path = folder.join(format!("{kubernetes}-{}-{}.json", lab.name.replace('/', "-"), arm.name));
    fs_err::write(path, serde_json::to_vec_pretty(&life)?)?;
    Ok(())
}

fn describe(compared: &[Compared], skipped: &[Skipped]) -> String {
    let mut text = String::new();
    for one in compared {
        let Compared { arm, kubernetes, facts, seconds, evidence } = one;
        _ = writeln!(
            text,
            "{arm}: kubelet {kubernetes} with {} bytes of memory and {} of swap: {} of {} files differ ({seconds:.0} s)",
            facts.memory,
            facts.swap,
            evidence.drifts.len(),
            evidence.compared
        );
        for drift in &evidence.drifts {
            let rule = drift.rule.as_ref().map_or("nobody writes it".to_owned(), |r| format!("{}; {}", r.formula, r.source));
            _ = writeln!(text, "  {} {}: simulator {}, real {} ({rule})", drift.role, drift.file, drift.planned, drift.found);
        }
        for (role, file) in &evidence.missing {
            _ = writeln!(text, "  {role} {}: not on the real node", file.as_deref().unwrap_or("cgroup"));
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
