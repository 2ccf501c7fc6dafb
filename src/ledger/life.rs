//! A node's life: what was done to a real node step by step, and the control ledger that was read from it after each step.
//!
//! Replayed, a life says what every file should hold after each step: the plan of that moment, except where an earlier step's value
//! stays because nothing writes the file again.

use super::{Evidence, Replay, places, verify};
use crate::kubelet::{KubeletConfiguration, NodeFacts, Pod, Refusal, Stage};
use crate::record::{LedgerEntry, LedgerSnapshot, Plan, Role};
use serde::{Deserialize, Serialize};

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
    /// A pod is deleted and made again.
    RecreatePod {
        /// Its name.
        pod: String,
        /// The uid of the new one, where it is another: an API server gives every pod its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uid: Option<String>,
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
            if matches!(action, Action::Create { .. }) {
                return Err(no_creation());
            }
            node.act(action)?;
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
