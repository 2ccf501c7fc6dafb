//! A node's life: what was done to a real node step by step, and the control ledger that was read from it after each step.
//!
//! Replayed, a life says what every file should hold after each step: the plan of that moment, except where an earlier step's value
//! stays because nothing writes the file again.

use super::{Evidence, places, verify};
use crate::kubelet::{KubeletConfiguration, NodeFacts, NodeFiles, Pod, Refusal, ResizeStep, Stage, Version};
use crate::plan::Planning;
use crate::record::{LedgerEntry, LedgerSnapshot, Plan, PlannedFile, Role, Rule};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A node's life, as a file of fixtures/ledger-real.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Life {
    /// The kubelet's version with its patch.
    pub kubernetes: String,
    /// What else the node was made of, for readers.
    pub node: serde_json::Value,
    /// What the kubelet took for the node's memory and swap.
    pub facts: NodeFacts,
    /// What was done; creation comes first.
    pub steps: Vec<Step>,
}

/// One step of a life.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Step {
    /// What was done.
    #[serde(flatten)]
    pub action: Action,
    /// What the files said afterwards.
    pub ledger: Vec<LedgerEntry>,
}

/// What is done to a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "camelCase")]
pub enum Action {
    /// The kubelet starts on a fresh node and the pods are created.
    Create {
        /// The kubelet's configuration.
        config: KubeletConfiguration,
        /// The pods, with the uids that the API server gave them.
        pods: Vec<Pod>,
    },
    /// The kubelet starts again with another configuration while the pods run.
    RestartKubelet {
        /// Its configuration from here on.
        config: KubeletConfiguration,
    },
    /// A container was killed and has been started again.
    RestartContainer {
        /// Its pod.
        pod: String,
        /// Its name.
        container: String,
    },
    /// Running pods get new resources.
    Resize {
        /// Those pods, as they are now.
        pods: Vec<Pod>,
    },
}

impl Life {
    /// What should be in every file after each step.
    ///
    /// # Errors
    /// What the kubelet of that version would refuse; a life that does not begin with the creation of its pods.
    pub fn plans(&self) -> Result<Vec<Plan>, Vec<Refusal>> {
        let minor = self.kubernetes.rsplit_once('.').map_or("", |(minor, _)| minor);
        let version = minor.parse().map_err(|e| vec![Refusal::new(Stage::Validation, e)])?;
        let no_creation = || vec![Refusal::new(Stage::Node, "a node's life begins with the creation of its pods")];
        let mut steps = self.steps.iter().map(|step| &step.action);
        let Some(Action::Create { config, pods }) = steps.next() else { return Err(no_creation()) };
        let mut node = Replay::create(version, config, &self.facts, pods)?;
        let mut plans = vec![node.plan()];
        for action in steps {
            match action {
                Action::Create { .. } => return Err(no_creation()),
                Action::RestartKubelet { config } => node.restart_kubelet(config)?,
                Action::RestartContainer { pod, container } => node.restart_container(pod, container)?,
                Action::Resize { pods } => node.resize(pods)?,
            }
            plans.push(node.plan());
        }
        Ok(plans)
    }

    /// Holds a ledger against a plan of this life.
    #[must_use]
    pub fn verify(&self, plan: &Plan, ledger: &[LedgerEntry]) -> Evidence {
        let snapshot = LedgerSnapshot { at_ns: 0, phase: String::new(), entries: ledger.to_vec() };
        verify(plan, &snapshot, |role| !self.ended(role))
    }

    /// An init container that is no sidecar has ended when its pod runs, and its cgroup with it.
    fn ended(&self, role: &Role) -> bool {
        let (Role::Container { pod, container }, Some(Action::Create { pods, .. })) =
            (role, self.steps.first().map(|s| &s.action))
        else {
            return false;
        };
        let init = pods.iter().filter(|p| p.name() == pod).flat_map(|p| &p.spec.init_containers);
        init.into_iter().any(|c| c.name == *container && !c.is_restartable())
    }
}

/// Cgroups that are not where they were planned, and those that nobody planned; one line each. The last part of a container's path is
/// the runtime's own id.
#[must_use]
pub fn misplaced(plan: &Plan, ledger: &[LedgerEntry]) -> Vec<String> {
    places(plan, ledger, "").into_iter().map(|found| format!("{}: {}", found.role, found.reason)).collect()
}

/// The node between two steps.
struct Replay {
    version: Version,
    facts: NodeFacts,
    config: KubeletConfiguration,
    planning: Planning,
    files: NodeFiles,
    /// A process keeps the oom_score_adj it was started with. By the cgroup's path.
    scores: BTreeMap<String, i32>,
}

impl Replay {
    fn create(version: Version, config: &KubeletConfiguration, facts: &NodeFacts, pods: &[Pod]) -> Result<Replay, Vec<Refusal>> {
        let planning = Planning::new(version, config, facts, pods)?;
        let files = planning.files();
        let scores = planning.plan().cgroups.into_iter().filter_map(|c| Some((c.path, c.oom_score_adj?))).collect();
        Ok(Replay { version, facts: facts.clone(), config: config.clone(), planning, files, scores })
    }

    fn restart_kubelet(&mut self, config: &KubeletConfiguration) -> Result<(), Vec<Refusal>> {
        self.config = config.clone();
        self.planning = Planning::new(self.version, config, &self.facts, self.planning.pods())?;
        self.files.restart_kubelet(self.planning.node(), self.planning.pods());
        Ok(())
    }

    fn restart_container(&mut self, pod: &str, container: &str) -> Result<(), Vec<Refusal>> {
        let unknown = || vec![Refusal::new(Stage::Pod, format!("there is no pod {pod}"))];
        let found = self.planning.pods().iter().find(|p| p.name() == pod).ok_or_else(unknown)?;
        self.files.restart_container(self.planning.node(), found, container);
        let role = Role::Container { pod: pod.to_owned(), container: container.to_owned() };
        let started = self.planning.plan().cgroups.into_iter().filter(|cgroup| cgroup.role == role);
        self.scores.extend(started.filter_map(|cgroup| Some((cgroup.path, cgroup.oom_score_adj?))));
        Ok(())
    }

    fn resize(&mut self, resized: &[Pod]) -> Result<(), Vec<Refusal>> {
        let before = self.planning.pods().to_vec();
        let changed = |old: &Pod| resized.iter().find(|new| new.name() == old.name()).unwrap_or(old).clone();
        let pods: Vec<_> = before.iter().map(changed).collect();
        self.planning = Planning::new(self.version, &self.config, &self.facts, &pods)?;
        let mut restarted = Vec::new();
        for (old, new) in before.iter().zip(self.planning.pods()).filter(|(old, new)| old != new) {
            let steps = self.files.resize(self.planning.node(), old, new).map_err(|refusal| vec![refusal])?;
            let names = steps.into_iter().filter_map(|step| match step {
                ResizeStep::Restart { name } => Some((new.name().to_owned(), name)),
                _ => None,
            });
            restarted.extend(names);
        }
        restarted.iter().try_for_each(|(pod, container)| self.restart_container(pod, container))?;
        // The sums above the pods follow within a minute.
        self.files.update_tiers(self.planning.node(), self.planning.pods());
        Ok(())
    }

    /// The plan of this moment, with what earlier steps left in it.
    fn plan(&self) -> Plan {
        let mut plan = self.planning.plan();
        for cgroup in &mut plan.cgroups {
            cgroup.oom_score_adj = self.scores.get(&cgroup.path).copied();
            // Nobody models the pause container: only its creation writes it.
            let Some(held) = self.files.cgroups().get(&cgroup.path) else { continue };
            // What would be written today but was not stays out.
            cgroup.files.retain(|planned| !planned.file.starts_with("memory.") || held.contains_key(planned.file.as_str()));
            for (file, value) in held.iter().map(|(file, value)| (*file, value.to_string())) {
                // A file may be written more than once; the last write counts.
                if cgroup.files.iter().rev().find(|planned| planned.file == file).is_none_or(|planned| planned.value != value) {
                    cgroup.files.push(PlannedFile { file: file.to_owned(), value, rule: left() });
                }
            }
        }
        plan
    }
}

/// The rule of a value that stays.
pub(super) const LEFT: &str = "an earlier step wrote it, and nothing writes it again";

fn left() -> Rule {
    let formula = LEFT.to_owned();
    Rule { formula, inputs: Vec::new(), source: "EnsureExists, doPodResizeAction and the runtime's update".to_owned() }
}
