//! An arm whose node changes while its pods run: what the cgroups must hold after each step.

use crate::kubelet::{KubeletConfiguration, Pod, Refusal, Version, aggregate, ignored_fields};
use crate::lab::{Arm, Bytes, NodeStep};
use crate::ledger::{Action, Replay};
use crate::record::Plan;
use crate::units::Quantity;

/// The plan with what follows from the steps of the arm.
///
/// # Errors
/// What the kubelet refuses, in its words, and steps that name what is not there.
pub(super) fn course(arm: &Arm, pods: &[Pod], version: Version, mut plan: Plan) -> Result<Plan, String> {
    if arm.phases.iter().all(|phase| phase.step.is_none()) {
        return Ok(plan);
    }
    let why = |phase: &str, reason: &str| format!("arm {}, phase {phase}: {reason}", arm.name);
    let refused = |phase: &str, reasons: Vec<Refusal>| why(phase, &aggregate(&reasons));
    let mut node = Replay::create(version, &arm.kubelet, &arm.facts(), pods).map_err(|r| refused("start", r))?;
    let mut stepped = false;
    for phase in &arm.phases {
        if let Some(step) = &phase.step {
            let action = action(step, &node).map_err(|reason| why(&phase.name, &reason))?;
            node.act(&action).map_err(|reasons| refused(&phase.name, reasons))?;
            stepped = true;
        }
        if stepped {
            plan.stepped.insert(phase.name.clone(), node.plan().cgroups);
        }
    }
    Ok(plan)
}

/// A lab's step in the words of a node's life.
fn action(step: &NodeStep, node: &Replay) -> Result<Action, String> {
    match step {
        NodeStep::RestartKubelet(change) => {
            let mut config = serde_json::to_value(node.config()).map_err(|e| e.to_string())?;
            for field in &change.unset {
                let known = config.as_object_mut().and_then(|fields| fields.remove(field));
                known.ok_or_else(|| format!("the configuration does not set {field}: take it out of `unset`"))?;
            }
            for (field, value) in &change.set {
                match (&mut config[field.as_str()], value) {
                    (serde_json::Value::Object(old), serde_json::Value::Object(new)) => old.extend(new.clone()),
                    (old, new) => *old = new.clone(),
                }
            }
            let ignored = ignored_fields::<KubeletConfiguration>(&config).map_err(|e| e.to_string())?;
            if !ignored.is_empty() {
                return Err(format!("no field of a KubeletConfiguration that the simulator knows: {}", ignored.join(", ")));
            }
            let config = serde_json::from_value(config).map_err(|e| e.to_string())?;
            Ok(Action::RestartKubelet { config })
        }
        NodeStep::Resize(resize) => {
            let (mut pods, name) = (node.planning().pods().to_vec(), &resize.container);
            pods.retain(|pod| pod.name() == resize.pod);
            let mut containers =
                pods.iter_mut().flat_map(|pod| pod.spec.init_containers.iter_mut().chain(&mut pod.spec.containers));
            let container = containers.find(|container| container.name == *name);
            let resources = &mut container.ok_or_else(|| format!("pod {} has no container {name}", resize.pod))?.resources;
            let quantity = |bytes: Option<Bytes>| bytes.map(|bytes| Quantity::bytes(bytes.0));
            resources.requests.memory = quantity(resize.request).or(resources.requests.memory);
            resources.limits.memory = quantity(resize.limit).or(resources.limits.memory);
            drop(containers);
            Ok(Action::Resize { pods })
        }
    }
}
