//! The kubelet's memory policy by version: pure functions from configuration and Pods to bytes in files.
//!
//! [`KubeletConfiguration`] and [`Pod`] are what a user writes. [`Effective::resolve`] gives the configuration a version works with,
//! or its reasons for not starting; [`Node`] adds the machine. Then [`PodPolicy`] and [`ContainerPolicy`] say what goes into each
//! file, [`startup_writes`] and [`periodic_writes`] what goes into the cgroups above the pods. Every value carries its rule ([`Why`]).

mod aggregate;
mod config;
mod container;
mod container_policy;
mod cpu;
mod defaults;
mod effective;
mod eviction;
mod gates;
mod lint;
mod names;
mod node;
mod pod;
mod pod_policy;
mod qos;
mod refusal;
mod resize;
mod resources;
mod rollback;
mod tiers;
mod validation;
mod value;
mod version;
mod why;

pub use aggregate::{PodAmount, limits_declared, limits_of_containers, pod_limits, pod_requests, requests_of_containers};
pub use config::{KubeletConfiguration, MemorySwap};
pub use container::{Container, ContainerPort, EnvVar, HttpGet, Port, Probe, ResizePolicy, TcpSocket, VolumeMount};
pub use container_policy::{ContainerPolicy, OomScore};
pub use cpu::{PERIOD_US, cpu_max, kubelet_weight, quota_us, runtime_weight, shares};
pub use effective::{Effective, Enforce, SwapBehavior};
pub use eviction::MemoryThreshold;
pub use gates::{Gate, Gates};
pub use lint::{Finding, Severity, kind_defaults, lint};
pub use names::{Hierarchy, SANDBOX, cgroup_path, container_cgroup, container_id};
pub use node::{Node, NodeFacts};
pub use pod::{EmptyDir, HostPath, Metadata, Pod, PodSpec, PodStatus, QosClass, Volume};
pub use pod_policy::{CpuQuota, PodPolicy};
pub use qos::{compute_qos_class, qos_class};
pub use refusal::{Refusal, Stage, aggregate};
pub use resize::{PodReadBack, PodWrite, ResizeStep, resize, resize_unchecked};
pub use resources::{ResourceList, Resources};
pub use rollback::{CgroupFiles, NodeFiles, Stale, StaleUntil, kernel_default};
pub use tiers::{QosSums, Target, TierFile, TierWrite, periodic_writes, startup_writes};
pub use validation::validate;
pub use value::{Decision, Input, Limit, Why};
pub use version::{Protection, Rules, SharesToWeight, UnknownVersion, Version};

/// Paths of the fields of an object that its type does not hold: what a simulation that reads only the type would ignore.
///
/// Empty values and nulls are not reported: they say nothing.
pub fn ignored_fields<T: serde::de::DeserializeOwned + serde::Serialize>(
    raw: &serde_json::Value,
) -> Result<Vec<String>, serde_json::Error> {
    let typed = serde_json::to_value(serde_json::from_value::<T>(raw.clone())?)?;
    let mut found = Vec::new();
    compare(raw, Some(&typed), "", &mut found);
    Ok(found)
}

fn compare(raw: &serde_json::Value, typed: Option<&serde_json::Value>, path: &str, found: &mut Vec<String>) {
    use serde_json::Value;
    match raw {
        Value::Null => {}
        Value::Object(fields) => {
            let known = typed.and_then(Value::as_object);
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                compare(value, known.and_then(|known| known.get(name)), &path, found);
            }
        }
        Value::Array(items) => {
            let known = typed.and_then(Value::as_array);
            for (index, value) in items.iter().enumerate() {
                compare(value, known.and_then(|known| known.get(index)), &format!("{path}[{index}]"), found);
            }
        }
        Value::Bool(false) => {}
        Value::String(text) if text.is_empty() => {}
        _ if typed.is_none() => found.push(path.to_owned()),
        _ => {}
    }
}
