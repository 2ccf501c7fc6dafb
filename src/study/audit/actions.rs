//! The talk's quick actions as lines: what to do, and which nodes, pods or containers it concerns.

use super::node::{NodeAudit, PodAudit};
use super::{ContainerAudit, Need};
use serde::Serialize;

/// One action with its subjects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    /// Which.
    pub id: ActionId,
    /// What to do and why.
    pub says: &'static str,
    /// Nodes as `node/NAME`, pods as `NAMESPACE/NAME`, containers as `NAMESPACE/NAME/CONTAINER`, with what is particular about each.
    pub subjects: Vec<String>,
}

/// The actions, the harmful first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionId {
    /// Must not swap, and would.
    KeepOffSwap,
    /// An entitlement below what the peak has beyond the request.
    RaiseRequest,
    /// Killed at its limit.
    RaiseLimit,
    /// No request, no entitlement.
    SetRequest,
    /// Swap would suit it, but the kubelet's rule gives it none.
    Unentitled,
    /// Nothing says how much latency it bears.
    Measure,
    /// A gap that no swap covers.
    AddSwap,
    /// A gap that the entitlements reach only in part.
    GapUncovered,
    /// Swap suits it and its entitlement holds.
    StartHere,
}

impl ActionId {
    const ALL: [ActionId; 9] = [
        ActionId::KeepOffSwap,
        ActionId::RaiseRequest,
        ActionId::RaiseLimit,
        ActionId::SetRequest,
        ActionId::Unentitled,
        ActionId::Measure,
        ActionId::AddSwap,
        ActionId::GapUncovered,
        ActionId::StartHere,
    ];

    /// Whether it stands for harm: swap where none may be, or so little that it delays a kill instead of averting it.
    #[must_use]
    pub const fn is_harmful(self) -> bool {
        matches!(self, ActionId::KeepOffSwap | ActionId::RaiseRequest)
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ActionId::KeepOffSwap => "keep off swap",
            ActionId::RaiseRequest => "raise request",
            ActionId::RaiseLimit => "raise limit",
            ActionId::SetRequest => "set request",
            ActionId::Unentitled => "not entitled",
            ActionId::Measure => "measure",
            ActionId::AddSwap => "add swap",
            ActionId::GapUncovered => "gap uncovered",
            ActionId::StartHere => "start here",
        }
    }

    const fn says(self) -> &'static str {
        match self {
            ActionId::KeepOffSwap => {
                "needs low latency or keeps state, and LimitedSwap would let it swap: make memory request and limit equal (Guaranteed)"
            }
            ActionId::RaiseRequest => {
                "the peak has more beyond the request than the entitlement holds: mis-sized swap delays the kill and adds latency; raise the \
                 request, or leave swap away"
            }
            ActionId::RaiseLimit => {
                "was OOM-killed, so its peak is cut off at its limit and it needs more than was seen: raise the limit before counting on swap"
            }
            ActionId::SetRequest => "no memory request, so no entitlement and no place of its own: set requests, always",
            ActionId::Unentitled => "bears latency, but the kubelet's rule gives it no swap",
            ActionId::Measure => {
                "would get swap and nothing says what latency it bears: measure its P99 under pressure, then label it highwater/latency"
            }
            ActionId::AddSwap => {
                "no swap, and memory that is needed at peaks only: try LimitedSwap on NVMe here, never on a spinning disk, non-production first"
            }
            ActionId::GapUncovered => "swap covers a part of the peaks only: entitlements follow requests, not need",
            ActionId::StartHere => "bears latency and its entitlement holds its peak: the first to try, non-production first",
        }
    }
}

/// Finds what there is to do.
pub(super) fn find(nodes: &[NodeAudit]) -> Vec<Action> {
    let subjects = |id| nodes.iter().flat_map(move |node| of_node(node, id)).collect::<Vec<_>>();
    let action = |id: ActionId| Action { id, says: id.says(), subjects: subjects(id) };
    ActionId::ALL.into_iter().map(action).filter(|action| !action.subjects.is_empty()).collect()
}

fn of_node(node: &NodeAudit, id: ActionId) -> Vec<String> {
    let gap = node.gap.filter(|gap| *gap > 0);
    match (id, gap) {
        (ActionId::AddSwap, Some(gap)) if node.swap == 0 => vec![format!("node/{} ({gap} bytes)", node.name)],
        (ActionId::GapUncovered, Some(gap)) if node.swap > 0 && node.covered.is_some_and(|covered| covered < gap) => {
            let covered = node.covered.unwrap_or(0);
            vec![format!("node/{} ({covered} of {gap} bytes)", node.name)]
        }
        (ActionId::AddSwap | ActionId::GapUncovered, _) => Vec::new(),
        _ => {
            let containers = node.pods.iter().flat_map(|pod| pod.containers.iter().map(move |container| (pod, container)));
            containers.filter_map(|(pod, container)| of_container(node, pod, container, id)).collect()
        }
    }
}

fn of_container(node: &NodeAudit, pod: &PodAudit, container: &ContainerAudit, id: ActionId) -> Option<String> {
    let need = pod.need.need;
    let holds = container.entitled && container.usage.is_some() && !container.too_small;
    let particular = match id {
        ActionId::KeepOffSwap => (container.entitled && need.forbids_swap()).then(|| pod.need.rule.clone()),
        ActionId::RaiseRequest => (container.too_small && !need.forbids_swap()).then(|| match container.request_needed {
            Some(request) => format!("to {request} bytes"),
            None => "no request below its limit would do".to_owned(),
        }),
        ActionId::RaiseLimit => {
            container.oom_killed.then(|| container.limit.map_or("no limit".to_owned(), |limit| format!("limit {limit} bytes")))
        }
        ActionId::SetRequest => (container.request == 0).then(|| pod.qos.name().to_owned()),
        ActionId::Unentitled => {
            (need == Need::Relaxed && !container.entitled && container.request > 0).then(|| container.rule.clone())
        }
        ActionId::Measure => (need == Need::Unknown && container.entitled).then(|| pod.need.rule.clone()),
        ActionId::StartHere => (need == Need::Relaxed && holds && node.swap > 0).then(|| pod.need.rule.clone()),
        ActionId::AddSwap | ActionId::GapUncovered => None,
    }?;
    Some(format!("{}/{} ({particular})", pod.name, container.name))
}
