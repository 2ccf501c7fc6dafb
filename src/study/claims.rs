//! The source's claims beside the figures of this run. Claims decide nothing.

use super::figure::{Figure, figure, say};
use super::result::{ArmResult, ClaimResult};
use crate::kubelet::{KubeletConfiguration, NodeFacts, Pod, Version};
use crate::lab::{Claim, Entitlement, Lab, Unit, one_line};
use crate::plan;
use crate::record::Role;

/// Every claim of the lab's source.
pub fn claims(lab: &Lab, arms: &[ArmResult]) -> Vec<ClaimResult> {
    let version = lab.arm(&lab.baseline).and_then(|arm| arm.node.kubernetes.parse().ok());
    let claim = |claim: &Claim| ClaimResult {
        says: one_line(&claim.says),
        literal: claim.literal.as_deref().map(one_line),
        likely: claim.likely.as_deref().map(one_line),
        environment: claim.environment.as_deref().map(one_line),
        here: measured(claim, arms).or_else(|| computed(claim.entitlement.as_ref()?, version?)),
    };
    lab.source.claims.iter().map(claim).collect()
}

fn measured(claim: &Claim, arms: &[ArmResult]) -> Option<String> {
    let metric = claim.measured.as_ref()?;
    let find = |name: &str| arms.iter().find(|a| a.name == name);
    let Some(arm) = find(metric.arm.as_deref()?) else { return Some("arm not run".to_owned()) };
    let unit = metric.unit();
    let found = figure(arm, metric);
    let text = found.say(unit);
    let base = claim.ratio_to.as_deref().and_then(find).map(|base| figure(base, metric));
    Some(match (found, base) {
        (Figure::Number(value), Some(Figure::Number(base))) if base > 0.0 => {
            // A ratio near 1 needs the second digit, one of 100 needs none.
            let ratio = value / base;
            let digits = if ratio < 10.0 { 2 } else { 1 };
            format!("{text}, {ratio:.digits$} times the {} of {}", say(base, unit), claim.ratio_to.as_deref().unwrap_or_default())
        }
        _ => text,
    })
}

/// The kubelet's own rule for the claim's figures, by planning a pod with that request on such a node.
fn computed(entitlement: &Entitlement, version: Version) -> Option<String> {
    let Entitlement { memory, swap, request } = entitlement;
    let config: KubeletConfiguration = serde_json::from_value(serde_json::json!({
        "failSwapOn": false, "memorySwap": {"swapBehavior": "LimitedSwap"}
    }))
    .ok()?;
    let pod: Pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "claimed"},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"memory": request.0.to_string()}}}]}
    }))
    .ok()?;
    let plan = plan::plan(version, &config, &NodeFacts::new(memory.0, swap.0), &[pod]).ok()?;
    let container = plan.cgroups.iter().find(|c| matches!(c.role, Role::Container { .. }))?;
    let bytes: u64 = container.value("memory.swap.max")?.parse().ok()?;
    Some(format!("{bytes} bytes, that is {}, as Kubernetes {version} computes it", say(bytes as f64, Unit::Bytes)))
}
