//! What is verified: snapshots with the plan each is held against.

use super::Args;
use crate::cli::plan::{against, manifests, show};
use crate::cli::{Exit, input};
use crate::kubelet::Pod;
use crate::lab::Switch;
use crate::ledger::Life;
use crate::plan::Planning;
use crate::provider::attach::Captured;
use crate::record::{LedgerSnapshot, Plan, Role, RunDir};
use crate::study::alive;
use camino::Utf8Path;
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap};

/// A snapshot and everything its verdict needs.
pub(super) struct Subject {
    pub(super) name: String,
    /// None where none can be made; the doubts say why.
    pub(super) plan: Option<Plan>,
    pub(super) snapshot: LedgerSnapshot,
    pub(super) alive: Box<dyn Fn(&Role) -> bool>,
    /// Bytes by path.
    pub(super) usage: HashMap<String, u64>,
    pub(super) recursive: bool,
    /// What stands before every planned path; none where the plan's paths are not the snapshot's.
    pub(super) above: Option<String>,
    pub(super) doubts: Vec<String>,
}

/// One element of what `highwater snapshot --json` prints.
#[derive(Deserialize)]
struct OfArm {
    arm: String,
    snapshot: LedgerSnapshot,
}

/// Reads the snapshots and plans.
///
/// # Errors
/// Input that cannot be read, or a plan that cannot be made from what the user gave.
pub(super) fn read(args: &Args) -> anyhow::Result<Vec<Subject>> {
    if Captured::is_at(&args.snapshot) {
        return of_capture(args).map(|subject| vec![subject]);
    }
    let given = given(args)?;
    if args.snapshot.is_dir() {
        return of_run(args, given);
    }
    let text = fs_err::read_to_string(&args.snapshot).map_err(|e| Exit::BadInput.because(e))?;
    of_json(args, &text, given)
}

/// The plan that the arguments come to; none when they say nothing.
struct Given {
    plan: Plan,
    /// Init containers that end.
    ending: BTreeSet<Role>,
    /// Whether every pod has the uid that an API server gave it, so that paths can be compared.
    uids: bool,
}

fn given(args: &Args) -> anyhow::Result<Option<Given>> {
    let inputs = &args.inputs;
    if let Some(path) = &args.plan {
        return Ok(Some(Given { plan: json(path)?, ending: BTreeSet::new(), uids: false }));
    }
    if inputs.files.is_empty() && inputs.kubelet.is_none() {
        return Ok(None);
    }
    let found = manifests::read(&inputs.files, inputs.replicas).map_err(|problems| Exit::BadInput.because(problems))?;
    let (version, (config, _)) = (inputs.version(&found)?, inputs.configuration(&found)?);
    let facts = inputs.facts(&found)?;
    let planning = Planning::new(version, &config, &facts, &found.pods)
        .map_err(|reasons| Exit::BadInput.because(show::refusals(&format!("the kubelet {version}"), &reasons)))?;
    let uids = found.pods.iter().all(|pod| !pod.metadata.uid.is_empty());
    Ok(Some(Given { ending: ending(planning.pods()), plan: planning.plan(), uids }))
}

/// Init containers that are no sidecars have ended when their pod runs.
fn ending(pods: &[Pod]) -> BTreeSet<Role> {
    let of = |pod: &Pod| {
        let name = pod.name().to_owned();
        let ends = pod.spec.init_containers.iter().filter(|c| !c.is_restartable());
        ends.map(move |c| Role::Container { pod: name.clone(), container: c.name.clone() }).collect::<Vec<_>>()
    };
    pods.iter().flat_map(of).collect()
}

fn json<T: serde::de::DeserializeOwned>(path: &Utf8Path) -> anyhow::Result<T> {
    let text = fs_err::read_to_string(path).map_err(|e| Exit::BadInput.because(e))?;
    serde_json::from_str(&text).map_err(|e| Exit::BadInput.because(format!("{path}, line {}: {e}", e.line())))
}

fn of_run(args: &Args, given: Option<Given>) -> anyhow::Result<Vec<Subject>> {
    let run = RunDir::open(&args.snapshot).map_err(|e| Exit::BadInput.because(e))?;
    let lab = input::recorded(&run)?;
    let mut subjects = Vec::new();
    for arm in input::arms(&lab, &args.arm)? {
        let mut snapshots = Vec::new();
        for phase in &arm.phases {
            snapshots.extend(run.ledger(&arm.name, &phase.name)?);
        }
        if args.phase.is_empty() {
            snapshots = snapshots.pop().into_iter().collect();
        }
        snapshots.retain(|s| args.phase.is_empty() || args.phase.contains(&s.phase));
        if snapshots.is_empty() {
            continue;
        }
        let events = run.events(&arm.name)?.collect::<Result<Vec<_>, _>>()?;
        for snapshot in snapshots {
            let plan = match &given {
                Some(given) => given.plan.clone(),
                None => run.plan(&arm.name)?.at(&snapshot.phase).into_owned(),
            };
            subjects.push(Subject {
                name: format!("arm {}, phase {}", arm.name, snapshot.phase),
                plan: Some(plan),
                alive: Box::new(alive(&events, snapshot.at_ns)),
                usage: HashMap::new(),
                recursive: arm.node.kernel.memory_recursive_prot != Some(Switch::Off),
                above: given.as_ref().is_none_or(|given| given.uids).then(String::new),
                snapshot,
                doubts: Vec::new(),
            });
        }
    }
    if subjects.is_empty() {
        let message = format!("{}: there is no ledger of these arms and phases; `highwater show` names them", run.path());
        return Err(Exit::BadInput.because(message));
    }
    Ok(subjects)
}

/// A capture is held against the plan of its own node; pods, configuration and version may be replaced to ask about others.
fn of_capture(args: &Args) -> anyhow::Result<Subject> {
    let captured = Captured::read(&args.snapshot).map_err(|e| Exit::BadInput.because(e))?;
    let mut doubts = captured.capture.doubts.clone();
    let unknown = captured.listed.pods.is_empty() && args.inputs.files.is_empty();
    let plan = match planned(args, &captured)? {
        // What the cgroups above the pods should hold follows from the pods.
        Ok(_) if unknown => {
            doubts.push("no pods are known, so nothing can be planned".to_owned());
            None
        }
        Ok(planning) => Some(planning.plan()),
        Err(why) => {
            doubts.push(why);
            None
        }
    };
    let above = plan.as_ref().and_then(|plan| above(plan, &captured));
    Ok(Subject {
        name: captured.capture.node.name.clone().unwrap_or_else(|| args.snapshot.to_string()),
        alive: Box::new(captured.alive()),
        usage: captured.usage.cgroups.iter().map(|c| (c.path.clone(), c.current)).collect(),
        recursive: captured.capture.node.mount_options.iter().any(|o| o == "memory_recursiveprot"),
        above: Some(above.unwrap_or_default()),
        snapshot: captured.ledger,
        plan,
        doubts,
    })
}

/// The plan of a captured node, or the sentence that says why there is none.
fn planned(args: &Args, captured: &Captured) -> anyhow::Result<Result<Planning, String>> {
    if let Some(path) = &args.plan {
        return Err(
            Exit::BadInput.because(format!("{path}: a capture is held against the plan of its own node; leave --plan out"))
        );
    }
    against::plan(&args.inputs, captured, None)
}

/// What stands above the planned paths on a node that is itself a container.
fn above(plan: &Plan, captured: &Captured) -> Option<String> {
    let planned = &plan.cgroup(&Role::Kubepods)?.path;
    captured.capture.node.kubepods.as_ref()?.strip_suffix(planned.as_str()).map(str::to_owned)
}

fn of_json(args: &Args, text: &str, given: Option<Given>) -> anyhow::Result<Vec<Subject>> {
    let path = &args.snapshot;
    let bad = |e: serde_json::Error| Exit::BadInput.because(format!("{path}, line {}: {e}: this is no ledger", e.line()));
    let value: serde_json::Value = serde_json::from_str(text).map_err(bad)?;
    if value.get("steps").is_some() {
        return of_life(serde_json::from_str(text).map_err(bad)?);
    }
    let snapshots = match value.is_array() {
        true => {
            let list: Vec<OfArm> = serde_json::from_str(text).map_err(bad)?;
            let wanted = |of: &OfArm| {
                (args.arm.is_empty() || args.arm.contains(&of.arm))
                    && (args.phase.is_empty() || args.phase.contains(&of.snapshot.phase))
            };
            let named = |of: OfArm| (format!("arm {}, phase {}", of.arm, of.snapshot.phase), of.snapshot);
            list.into_iter().filter(wanted).map(named).collect()
        }
        false => vec![(path.to_string(), serde_json::from_str(text).map_err(bad)?)],
    };
    let Some(Given { plan, ending, uids }) = given else {
        let message =
            format!("{path} is a ledger without a plan: give --plan, or the pods and the node as `highwater plan` takes them");
        return Err(Exit::BadInput.because(message));
    };
    let subject = |(name, snapshot): (String, LedgerSnapshot)| {
        let there: BTreeSet<Role> = snapshot.entries.iter().map(|e| e.role.clone()).collect();
        let ending = ending.clone();
        Subject {
            name,
            plan: Some(plan.clone()),
            snapshot,
            alive: Box::new(move |role| there.contains(role) || !ending.contains(role)),
            usage: HashMap::new(),
            recursive: true,
            above: uids.then(String::new),
            doubts: Vec::new(),
        }
    };
    Ok(snapshots.into_iter().map(subject).collect())
}

/// A node's life is held against its own plans, step by step.
fn of_life(life: Life) -> anyhow::Result<Vec<Subject>> {
    let plans = life.plans().map_err(|reasons| Exit::BadInput.because(show::refusals("the kubelet", &reasons)))?;
    let pods = life.steps.iter().find_map(|step| match &step.action {
        crate::ledger::Action::Create { pods, .. } => Some(ending(pods)),
        _ => None,
    });
    let ending = pods.unwrap_or_default();
    let subject = |(number, (step, plan)): (usize, (crate::ledger::Step, Plan))| {
        let ending = ending.clone();
        Subject {
            name: format!("step {number}"),
            plan: Some(plan),
            snapshot: LedgerSnapshot { at_ns: 0, phase: format!("step {number}"), entries: step.ledger },
            alive: Box::new(move |role| !ending.contains(role)),
            usage: HashMap::new(),
            recursive: true,
            above: Some(String::new()),
            doubts: Vec::new(),
        }
    };
    Ok(life.steps.into_iter().zip(plans).enumerate().map(subject).collect())
}
