//! The input of a vector, turned into what the policy reads.

use anyhow::Context;
use highwater::kubelet::{KubeletConfiguration, NodeFacts, Pod};
use highwater::units::Quantity;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub node: NodeCase,
    pub kubelet: KubeletCase,
    pub pods: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeCase {
    memory_capacity: u64,
    swap_capacity: u64,
    swap_controller: bool,
    kube_reserved: Option<Quantity>,
    system_reserved: Option<Quantity>,
    eviction_hard: Option<String>,
    enforce_node_allocatable: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubeletCase {
    feature_gates: BTreeMap<String, bool>,
    memory_throttling_factor: Option<f64>,
    memory_reservation_policy: Option<String>,
    swap_behavior: Option<String>,
    single_process_oom_kill: Option<bool>,
}

impl Case {
    /// The node: the vectors were made for one of eight cores and pages of 4096 bytes.
    pub fn facts(&self) -> NodeFacts {
        let node = &self.node;
        NodeFacts {
            swap_controller: node.swap_controller,
            cpu_millis: Some(8000),
            ..NodeFacts::new(node.memory_capacity, node.swap_capacity)
        }
    }

    /// The configuration without the fields that the version does not know.
    pub fn config(&self, dropped: &[&str]) -> KubeletConfiguration {
        let (node, kubelet) = (&self.node, &self.kubelet);
        let memory = |q: Option<Quantity>| q.map(|q| ("memory".to_owned(), q)).into_iter().collect();
        let mut enforce = node.enforce_node_allocatable.clone();
        if enforce.is_empty() {
            enforce.push("none".to_owned());
        }
        let mut config = KubeletConfiguration {
            feature_gates: kubelet.feature_gates.clone(),
            memory_throttling_factor: kubelet.memory_throttling_factor,
            memory_reservation_policy: kubelet.memory_reservation_policy.clone(),
            single_process_oom_kill: kubelet.single_process_oom_kill,
            kube_reserved: memory(node.kube_reserved),
            system_reserved: memory(node.system_reserved),
            kube_reserved_cgroup: Some("/kube.slice".to_owned()),
            system_reserved_cgroup: Some("/system.slice".to_owned()),
            eviction_hard: node.eviction_hard.as_ref().map(|v| BTreeMap::from([("memory.available".to_owned(), v.clone())])),
            enforce_node_allocatable: Some(enforce),
            ..KubeletConfiguration::default()
        };
        config.memory_swap.swap_behavior = kubelet.swap_behavior.clone().unwrap_or_default();
        for field in dropped {
            match *field {
                "memory_reservation_policy" => config.memory_reservation_policy = None,
                "single_process_oom_kill" => config.single_process_oom_kill = None,
                _ => {
                    if let Some(gate) = field.strip_prefix("feature_gates.") {
                        config.feature_gates.remove(gate);
                    }
                }
            }
        }
        config
    }

    /// The pods.
    pub fn pods(&self, dropped: &[&str]) -> anyhow::Result<Vec<Pod>> {
        let mut pods = Vec::new();
        for (index, raw) in self.pods.iter().enumerate() {
            let mut pod: Pod = serde_json::from_value(raw.clone()).with_context(|| format!("pods[{index}]"))?;
            if dropped.contains(&format!("pods[{index}].spec.resources").as_str()) {
                pod.spec.resources = None;
            }
            pods.push(pod);
        }
        Ok(pods)
    }
}
