//! Requests and limits as a manifest writes them.

use crate::units::Quantity;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A resource list. Presence matters: an explicit "0" is not the same as nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceList {
    /// cpu, in cores.
    pub cpu: Option<Quantity>,
    /// memory, in bytes.
    pub memory: Option<Quantity>,
    /// Every other resource by name, in the order written.
    pub other: Vec<(String, Quantity)>,
}

impl ResourceList {
    /// Whether nothing is listed.
    pub fn is_empty(&self) -> bool {
        self.cpu.is_none() && self.memory.is_none() && self.other.is_empty()
    }

    /// Whether a resource is listed that the pod level supports: cpu, memory, hugepages-* (`IsSupportedPodLevelResource`).
    pub fn has_pod_level_resource(&self) -> bool {
        self.cpu.is_some() || self.memory.is_some() || self.other.iter().any(|(name, _)| name.starts_with("hugepages-"))
    }

    /// Memory in whole bytes, rounded up; 0 when absent.
    pub fn memory_bytes(&self) -> i64 {
        self.memory.map_or(0, Quantity::ceil)
    }

    /// CPU in thousandths of a core, rounded up; 0 when absent.
    pub fn cpu_millis(&self) -> i64 {
        self.cpu.map_or(0, Quantity::milli_ceil)
    }

    /// Whether there is memory other than 0.
    pub fn has_memory(&self) -> bool {
        self.memory.is_some_and(|q| !q.is_zero())
    }

    /// Whether there is cpu other than 0.
    pub fn has_cpu(&self) -> bool {
        self.cpu.is_some_and(|q| !q.is_zero())
    }

    /// Takes what is missing here from another list.
    pub fn fill_from(&mut self, defaults: &ResourceList) {
        self.cpu = self.cpu.or(defaults.cpu);
        self.memory = self.memory.or(defaults.memory);
        for (name, quantity) in &defaults.other {
            if !self.other.iter().any(|(known, _)| known == name) {
                self.other.push((name.clone(), *quantity));
            }
        }
    }
}

impl Serialize for ResourceList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(cpu) = &self.cpu {
            map.serialize_entry("cpu", cpu)?;
        }
        if let Some(memory) = &self.memory {
            map.serialize_entry("memory", memory)?;
        }
        for (name, quantity) in &self.other {
            map.serialize_entry(name, quantity)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for ResourceList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = ResourceList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from resource names to quantities")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ResourceList, A::Error> {
                let mut list = ResourceList::default();
                while let Some(name) = map.next_key::<String>()? {
                    let quantity = map.next_value::<Quantity>()?;
                    match name.as_str() {
                        "cpu" => list.cpu = Some(quantity),
                        "memory" => list.memory = Some(quantity),
                        _ => list.other.push((name, quantity)),
                    }
                }
                Ok(list)
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// `resources` of a container or a pod.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Resources {
    /// What is asked for.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub requests: ResourceList,
    /// What may not be exceeded.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub limits: ResourceList,
}

impl Resources {
    /// Whether neither requests nor limits list anything.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.limits.is_empty()
    }
}
