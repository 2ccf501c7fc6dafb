//! A container: what it may swap under LimitedSwap, and whether that holds what its peak has beyond its request.

use super::node::Levels;
use crate::kubelet::{Container, ContainerPolicy, Limit, Node, Pod, PodPolicy};
use crate::units::{Format, Quantity};
use serde::Serialize;

/// A container's memory. All figures in bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerAudit {
    /// Its name.
    pub name: String,
    /// Its memory request, after the API's defaults.
    pub request: u64,
    /// Its memory limit.
    pub limit: Option<u64>,
    /// What was observed; none without samples.
    pub usage: Option<Levels>,
    /// memory.swap.max under LimitedSwap, as this node's kubelet computes it.
    pub entitlement: u64,
    /// The kubelet's rule for it.
    pub rule: String,
    /// Whether the rule is the one that entitles, and not one that says 0.
    pub entitled: bool,
    /// What the peak has beyond the request: what reclaim may take when the node is short, and so must fit into swap.
    pub beyond_request: Option<u64>,
    /// Whether that is more than the entitlement; never on a node without swap, where nothing is entitled.
    pub too_small: bool,
    /// The smallest request whose entitlement holds the rest of the peak; none where only a request equal to the limit would.
    pub request_needed: Option<u64>,
    /// Whether its present or last end was an OOM kill: then its peak is cut off at its limit.
    pub oom_killed: bool,
}

/// Audits a container of a pod with the API's defaults set.
pub(super) fn audit(
    node: &Node,
    pod: &Pod,
    policy: &PodPolicy,
    container: &Container,
    usage: Option<Levels>,
    oom_killed: bool,
) -> ContainerAudit {
    let bytes = |quantity: Option<Quantity>| quantity.map_or(0, |q| u64::try_from(q.ceil()).unwrap_or(0));
    let request = bytes(container.resources.requests.memory);
    let limit = Some(bytes(container.resources.limits.memory)).filter(|limit| *limit > 0);
    let of = |container: &Container| ContainerPolicy::of(node, pod, policy, container);
    let swap_max = |values: &ContainerPolicy| match values.swap_max.value {
        Some(Limit::Number(bytes)) => bytes,
        // LimitedSwap never says max; no value means that the kernel has no such file.
        Some(Limit::Max) | None => 0,
    };
    let values = of(container);
    let (entitlement, entitled) = (swap_max(&values), values.limited_swap);
    let beyond_request = usage.map(|usage| usage.peak.saturating_sub(request));
    let too_small = entitled && node.facts.swap > 0 && beyond_request.is_some_and(|beyond| beyond > entitlement);
    let with_request = |request: u64| {
        let mut changed = container.clone();
        changed.resources.requests.memory = Some(Quantity::new(i64::try_from(request).unwrap_or(i64::MAX), Format::Binary));
        let values = of(&changed);
        (values.limited_swap, swap_max(&values))
    };
    let peak = usage.map_or(0, |usage| usage.peak);
    let request_needed = too_small.then(|| smallest_request(request, limit, peak, with_request)).flatten();
    ContainerAudit {
        name: container.name.clone(),
        request,
        limit,
        usage,
        entitlement,
        rule: values.swap_max.why.formula.to_owned(),
        entitled,
        beyond_request,
        too_small,
        request_needed,
        oom_killed,
    }
}

/// The smallest request above this one for which request and entitlement together hold the peak. Both grow with the request.
fn smallest_request(request: u64, limit: Option<u64>, peak: u64, swap_max: impl Fn(u64) -> (bool, u64)) -> Option<u64> {
    let holds = |request: u64| {
        let (entitled, bytes) = swap_max(request);
        entitled && request.saturating_add(bytes) >= peak
    };
    // A request equal to the limit is entitled to nothing.
    let (mut low, mut high) = (request, limit.map_or(peak, |limit| peak.min(limit.saturating_sub(1))));
    if high <= low || !holds(high) {
        return None;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle }
    }
    Some(high)
}
