//! A lab's step in the words of a node's life.

use super::{Action, Replay};
use crate::kubelet::{KubeletConfiguration, Pod, ignored_fields};
use crate::lab::{Bytes, ContainerOf, NodeStep};
use crate::units::Quantity;

impl Replay {
    /// What a step of a lab does to this node.
    ///
    /// # Errors
    /// It names what is not there, or says nothing that the kubelet knows.
    pub fn action(&self, step: &NodeStep) -> Result<Action, String> {
        match step {
            NodeStep::RestartKubelet(change) => {
                let mut config = serde_json::to_value(self.config()).map_err(|e| e.to_string())?;
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
                let (mut pods, name) = (self.planning().pods().to_vec(), &resize.container);
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
            NodeStep::RestartContainer(ContainerOf { pod, container }) => {
                let never = |p: &&Pod| p.name() == pod && p.spec.restart_policy.as_deref() == Some("Never");
                match self.planning().pods().iter().find(never) {
                    Some(_) => Err(format!("pod {pod} has restartPolicy Never: its containers are not started again")),
                    None => Ok(Action::RestartContainer { pod: pod.clone(), container: container.clone() }),
                }
            }
            NodeStep::RecreatePod(step) => Ok(Action::RecreatePod { pod: step.pod.clone(), uid: None }),
        }
    }
}
