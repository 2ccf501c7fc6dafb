//! What real kubelets wrote, held against the simulator's policy on every run.
//!
//! A fixture is a node's life: steps and, after each, the control ledger of every cgroup as it was read from the node (roles from the
//! runtime and /proc/PID/cgroup). A pod's cgroup path must be the planned one to the byte; a container's ends in an id of the runtime.

#![allow(clippy::print_stdout, reason = "a test says what it compared and measured")]

use highwater::kubelet::{
    Effective, KubeletConfiguration, Limit, Node, NodeFacts, NodeFiles, Pod, Version, container_cgroup, container_id,
};
use highwater::ledger::{Verdict, verify};
use highwater::plan::plan;
use highwater::record::{FileValue, LedgerEntry, LedgerSnapshot, Role};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Life {
    kubernetes: String,
    #[serde(rename = "node")]
    _node: serde_json::Value,
    facts: NodeFacts,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    step: What,
    /// The kubelet's configuration from here on.
    config: Option<KubeletConfiguration>,
    #[serde(default)]
    pods: Vec<Pod>,
    pod: Option<String>,
    container: Option<String>,
    ledger: Vec<LedgerEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum What {
    /// The kubelet starts on a fresh node and the pods are created.
    Create,
    /// The kubelet starts again with another configuration while the pods run.
    RestartKubelet,
    /// A container was killed and has been started again.
    RestartContainer,
    /// Running pods get new resources; `pods` are the new ones.
    Resize,
}

fn lives() -> Vec<(String, Life)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/ledger-real");
    let mut paths: Vec<_> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .collect();
    paths.sort();
    let read =
        |path: &Path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    paths.iter().map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), read(p))).collect()
}

fn version(life: &Life) -> Version {
    life.kubernetes.rsplit_once('.').unwrap().0.parse().unwrap()
}

fn snapshot(entries: &[LedgerEntry]) -> LedgerSnapshot {
    LedgerSnapshot { at_ns: 0, phase: "real".to_owned(), entries: entries.to_vec() }
}

/// An init container that is no sidecar has ended, and its cgroup with it.
fn ended(pods: &[Pod], role: &Role) -> bool {
    let Role::Container { pod, container } = role else { return false };
    let pod = pods.iter().find(|p| p.name() == pod).unwrap();
    pod.spec.init_containers.iter().any(|c| c.name == *container && !c.is_restartable())
}

/// Differences between a plan and the ledger, one line each.
fn drifts(life: &Life, step: &Step, entries: &[LedgerEntry]) -> Vec<String> {
    let plan = plan(version(life), step.config.as_ref().unwrap(), &life.facts, &step.pods).unwrap();
    let evidence = verify(&plan, &snapshot(entries), |role| !ended(&step.pods, role));
    let mut lines: Vec<_> = evidence.missing.iter().map(|(role, file)| format!("{role} {file:?} is missing")).collect();
    for drift in &evidence.drifts {
        let rule = drift.rule.as_ref().map_or("nobody writes it".to_owned(), |r| format!("{} ({})", r.formula, r.source));
        lines.push(format!("{} {}: planned {}, found {}; rule: {rule}", drift.role, drift.file, drift.planned, drift.found));
    }
    for planned in &plan.cgroups {
        let Some(entry) = entries.iter().find(|e| e.role == planned.role) else { continue };
        let parent = |path: &str| path.rsplit_once('/').unwrap().0.to_owned();
        let same = match planned.role {
            Role::Container { .. } | Role::Sandbox { .. } => parent(&planned.path) == parent(&entry.path),
            _ => planned.path == entry.path,
        };
        if !same {
            lines.push(format!("{}: planned at {}, found at {}", planned.role, planned.path, entry.path));
        }
    }
    for entry in entries.iter().filter(|e| !plan.cgroups.iter().any(|p| p.role == e.role)) {
        lines.push(format!("{} exists and is not planned", entry.role));
    }
    assert_eq!(evidence.verdict == Verdict::Fulfilled, evidence.drifts.is_empty() && evidence.missing.is_empty());
    lines
}

#[test]
fn the_plan_is_what_real_kubelets_wrote() {
    let lives = lives();
    assert!(!lives.is_empty());
    let mut compared = 0;
    for (name, life) in &lives {
        let first = &life.steps[0];
        assert_eq!(first.step, What::Create, "{name}");
        let wrong = drifts(life, first, &first.ledger);
        assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
        compared += first.ledger.iter().map(|e| e.files.len()).sum::<usize>();
    }
    println!("{compared} files of {} real nodes agree with the plan", lives.len());
}

#[test]
fn a_changed_byte_of_any_file_is_found() {
    for (name, life) in lives() {
        let first = &life.steps[0];
        for (at, entry) in first.ledger.iter().enumerate() {
            for (file, value) in &entry.files {
                let mut changed = first.ledger.clone();
                let other = if *value == FileValue::Text("12288".to_owned()) { "8192" } else { "12288" };
                changed[at].files.insert(file.clone(), FileValue::Text(other.to_owned()));
                assert_eq!(drifts(&life, first, &changed).len(), 1, "{name}: {} {file}", entry.role);
            }
        }
    }
}

/// Every step after the first, against the model of what stays behind and what is written again.
#[test]
fn later_steps_leave_what_the_model_says() {
    for (name, life) in lives() {
        let mut pods = prepared(&life, &life.steps[0]);
        let mut node = node(&life, life.steps[0].config.as_ref().unwrap());
        let mut files = NodeFiles::new(&node, &pods);
        for (number, step) in life.steps.iter().enumerate() {
            if let Some(config) = &step.config {
                node = self::node(&life, config);
            }
            match step.step {
                What::Create => {}
                What::RestartKubelet => files.restart_kubelet(&node, &pods),
                What::RestartContainer => {
                    let pod = pods.iter().find(|p| Some(p.name()) == step.pod.as_deref()).unwrap();
                    files.restart_container(&node, pod, step.container.as_deref().unwrap());
                }
                What::Resize => {
                    for new in prepared(&life, step) {
                        let old = pods.iter_mut().find(|p| p.name() == new.name()).unwrap();
                        files.resize(&node, old, &new).unwrap();
                        *old = new;
                    }
                    // The sums above the pods follow within a minute, and the ledger was read later.
                    files.restart_kubelet(&node, &pods);
                }
            }
            let wrong = disagreements(&life, &node, &files, &pods, &step.ledger);
            assert!(wrong.is_empty(), "{name}, step {number} ({:?}):\n{}", step.step, wrong.join("\n"));
        }
    }
}

fn node(life: &Life, config: &KubeletConfiguration) -> Node {
    Node::new(Effective::resolve(version(life), config).unwrap(), life.facts.clone())
}

fn prepared(life: &Life, step: &Step) -> Vec<Pod> {
    let config = step.config.as_ref().or(life.steps[0].config.as_ref()).unwrap();
    let node = node(life, config);
    let mut pods = step.pods.clone();
    pods.iter_mut().for_each(|pod| pod.set_defaults(&node.config.gates));
    pods
}

fn disagreements(life: &Life, node: &Node, files: &NodeFiles, pods: &[Pod], ledger: &[LedgerEntry]) -> Vec<String> {
    let mut wrong = Vec::new();
    for entry in ledger {
        let empty = BTreeMap::new();
        let modelled = match &entry.role {
            // The pause container is the runtime's: nobody writes its memory files.
            Role::Sandbox { .. } => &empty,
            Role::Container { pod, container } => {
                let pod = pods.iter().find(|p| p.name() == pod).unwrap();
                let parent = entry.path.rsplit_once('/').unwrap().0;
                let path = container_cgroup(node.hierarchy.driver(), parent, &container_id(&pod.metadata.uid, container, 0));
                files.cgroups().get(&path).unwrap_or_else(|| panic!("{path} is not modelled"))
            }
            _ => files.cgroups().get(&entry.path).unwrap_or(&empty),
        };
        for file in ["memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max", "memory.oom.group"] {
            let default =
                if matches!(file, "memory.min" | "memory.low" | "memory.oom.group") { Limit::Number(0) } else { Limit::Max };
            let want = match modelled.get(file).copied().unwrap_or(default) {
                Limit::Number(bytes) if file != "memory.oom.group" => (bytes - bytes % life.facts.page_size).to_string(),
                other => other.to_string(),
            };
            let found = &entry.files[file];
            if *found != FileValue::Text(want.clone()) {
                wrong.push(format!("{} {file}: modelled {want}, found {found:?}", entry.role));
            }
        }
    }
    wrong
}
