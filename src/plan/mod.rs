//! What the kubelet of a version will write for a set of Pods, file by file, with the rule behind each value.

mod budget;
mod build;
mod diff;
mod files;
mod rule;
mod traps;

pub use budget::{Budget, Reserve};
pub use build::{Explanation, Planning};
pub use diff::{Change, Risk, diff};
pub use traps::Trap;

use crate::kubelet::{KubeletConfiguration, NodeFacts, Pod, Refusal, Version};
use crate::record::Plan;

/// Plans a node: the cgroups above the pods, then each pod with its pause container and its containers.
///
/// Pods may be as a user writes them: the API's defaults are set here, and a pod without a uid gets one from its name. Ephemeral
/// containers are left out, since they start on request only.
///
/// # Errors
/// Every reason the kubelet of that version gives for not starting, or for which a pod cannot be planned.
pub fn plan(version: Version, config: &KubeletConfiguration, facts: &NodeFacts, pods: &[Pod]) -> Result<Plan, Vec<Refusal>> {
    Ok(Planning::new(version, config, facts, pods)?.plan())
}
