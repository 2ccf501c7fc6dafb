//! From a capture to a lab: a node and pods of the captured shape, smaller, that the deterministic node runs.
//!
//! Memory sizes are divided by the scale and rounded up to a page; ratios stay. A container's footprint is what was measured: anonymous
//! memory that it holds, memory that was in swap (cold), page cache. Names may be replaced by salted hashes whose salt is not kept.

use super::Captured;
use crate::kubelet::{Container, KubeletConfiguration, Pod, Resources};
use crate::lab::{LabFiles, load};
use crate::record::{CgroupUsage, Role};
use crate::units::{Format, Quantity};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
/// A container with less cannot run the workload program.
const LEAST_LIMIT: u64 = 4 * MIB;
/// Nodes above this are slow to emulate; the scale that is chosen brings them below.
const COMFORTABLE: u64 = 512 * MIB;

/// What the lab is made like.
#[derive(Debug, Clone, Copy, Default)]
pub struct Likeness<'a> {
    /// Sizes are divided by this; chosen from the node's memory when absent.
    pub scale: Option<u64>,
    /// Replaces names; the bytes are drawn at random, and thrown away afterwards.
    pub salt: Option<&'a [u8]>,
}

/// Makes the lab.
///
/// # Errors
/// A sentence: something that a lab needs was not captured, or the scaled node cannot be.
pub fn rehearsal(captured: &Captured, name: &str, likeness: Likeness<'_>) -> Result<LabFiles, String> {
    let facts = captured.facts()?;
    let version = captured.version()?;
    let config = captured.kubelet.as_ref().ok_or("the kubelet's configuration was not captured")?;
    if captured.listed.pods.is_empty() {
        return Err("the capture has no pods: give --pods when capturing".to_owned());
    }
    let scale = likeness.scale.unwrap_or_else(|| facts.memory.div_ceil(COMFORTABLE).next_power_of_two()).max(1);
    let mut maker = Maker { captured, scale, salt: likeness.salt, deviations: Vec::new(), disk: 0, names: BTreeSet::new() };
    let pods: Vec<(String, Value)> = captured.listed.pods.iter().map(|listed| maker.pod(&listed.pod)).collect();
    let kubelet = maker.kubelet(config, facts.swap);
    let names: Vec<&String> = pods.iter().map(|(name, _)| name).collect();
    let lab = maker.lab(&names, version.to_string(), facts.memory, facts.swap);
    let emit = |value: &Value| crate::yaml::emit(value);
    let documents: Result<Vec<String>, String> = pods.iter().map(|(_, pod)| emit(pod)).collect();
    let files = LabFiles {
        lesson: None,
        name: name.to_owned(),
        files: vec![
            ("lab.yaml".to_owned(), format!("{HEAD}{}", emit(&lab)?)),
            ("kubelet.yaml".to_owned(), emit(&kubelet)?),
            ("pods/pods.yaml".to_owned(), documents?.join("---\n")),
        ],
    };
    load(&files).map_err(|problems| format!("the captured node makes no lab at a scale of {scale}:\n{problems}"))?;
    Ok(files)
}

const HEAD: &str = "\
# Made from a capture. To rehearse a change, add an arm, name what it may differ in under `vary`, and run it, for example
#   vary: [kubelet.memoryReservationPolicy]
#   arms: [..., {name: tiered, about: The policy, patch: {kubelet: {memoryReservationPolicy: TieredReservation}}}]
";

struct Maker<'a> {
    captured: &'a Captured,
    scale: u64,
    salt: Option<&'a [u8]>,
    deviations: Vec<String>,
    /// Bytes of files on the data disk.
    disk: u64,
    names: BTreeSet<String>,
}

impl Maker<'_> {
    fn scaled(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.scale).next_multiple_of(PAGE)
    }

    /// A name that Kubernetes takes as a label: hashed with the salt, or with what a label cannot hold replaced.
    fn name(&self, kind: &str, name: &str) -> String {
        if let Some(salt) = self.salt {
            let mut hash = Sha256::new();
            for part in [salt, kind.as_bytes(), name.as_bytes()] {
                hash.update((part.len() as u64).to_be_bytes());
                hash.update(part);
            }
            let hex: String = hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
            return format!("{kind}-{hex}");
        }
        let fits = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
        let label: String = name.to_ascii_lowercase().chars().map(fits).take(50).collect();
        let label = label.trim_matches('-');
        if label.is_empty() { kind.to_owned() } else { label.to_owned() }
    }

    fn unique(&mut self, name: String) -> String {
        let mut unique = name.clone();
        for number in 2.. {
            if self.names.insert(unique.clone()) {
                break;
            }
            unique = format!("{name}-{number}");
        }
        unique
    }

    fn pod(&mut self, pod: &Pod) -> (String, Value) {
        let name = self.name("pod", pod.name());
        let name = self.unique(name);
        let mut made = Pod { api_version: "v1".to_owned(), kind: "Pod".to_owned(), ..Pod::default() };
        made.metadata.name.clone_from(&name);
        if pod.is_static() || pod.is_critical() && pod.spec.priority.is_none() {
            made.metadata.annotations.insert("kubernetes.io/config.source".to_owned(), "file".to_owned());
        }
        let class = &pod.spec.priority_class_name;
        let known = class.is_empty() || class.starts_with("system-");
        made.spec.priority_class_name = if known { class.clone() } else { self.name("class", class) };
        made.spec.priority = pod.spec.priority;
        made.spec.restart_policy.clone_from(&pod.spec.restart_policy);
        made.spec.resources = pod.spec.resources.as_ref().map(|r| self.resources(r, &name));
        made.spec.overhead.cpu = pod.spec.overhead.cpu;
        made.spec.overhead.memory = pod.spec.overhead.memory.map(|q| self.quantity(q));
        let mut caches = false;
        let ends = |c: &Container| !c.is_restartable();
        made.spec.init_containers =
            pod.spec.init_containers.iter().map(|c| self.container(pod, &name, c, ends(c), &mut caches)).collect();
        made.spec.containers = pod.spec.containers.iter().map(|c| self.container(pod, &name, c, false, &mut caches)).collect();
        let mut value = serde_json::to_value(&made).unwrap_or_default();
        if caches {
            let path = format!("/var/lib/rehearsal/{name}");
            value["spec"]["volumes"] = json!([{"name": "cache", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}]);
        }
        (name, value)
    }

    fn container(&mut self, pod: &Pod, made_pod: &str, container: &Container, ends: bool, caches: &mut bool) -> Container {
        let name = self.name("container", &container.name);
        let mut made = Container {
            name: name.clone(),
            image: "highwater-node".to_owned(),
            resources: self.resources(&container.resources, &format!("{made_pod}/{name}")),
            restart_policy: container.restart_policy.clone(),
            resize_policy: container.resize_policy.clone(),
            ..Container::default()
        };
        let role = Role::Container { pod: pod.name().to_owned(), container: container.name.clone() };
        let usage = self.captured.usage.cgroups.iter().find(|c| c.role == role);
        made.args = match usage {
            _ if ends => ["anon", "--size=64Ki", "--hold=10ms"].map(str::to_owned).to_vec(),
            None => vec!["pause".to_owned()],
            Some(usage) => self.footprint(usage, &name, &mut made, caches),
        };
        made
    }

    fn footprint(&mut self, usage: &CgroupUsage, name: &str, made: &mut Container, caches: &mut bool) -> Vec<String> {
        let held = self.scaled(usage.anon.peak).max(PAGE);
        let mut args = vec!["anon".to_owned(), format!("--size={held}"), format!("--rate={}", (held / 10).max(64 << 10))];
        if usage.swap.peak > 0 {
            args.push(format!("--cold={}", self.scaled(usage.swap.peak)));
        }
        if usage.file.peak > 0 {
            let bytes = self.scaled(usage.file.peak);
            self.disk += bytes;
            args.push(format!("--file=/cache/{name}"));
            args.push(format!("--make={bytes}"));
            *caches = true;
            made.volume_mounts =
                vec![crate::kubelet::VolumeMount { name: "cache".to_owned(), mount_path: "/cache".to_owned(), read_only: false }];
        }
        args
    }

    fn resources(&mut self, resources: &Resources, whose: &str) -> Resources {
        let mut made = Resources::default();
        made.requests.cpu = resources.requests.cpu;
        made.limits.cpu = resources.limits.cpu;
        let (request, limit) = (resources.requests.memory, resources.limits.memory);
        made.requests.memory = request.map(|q| self.quantity(q));
        made.limits.memory = limit.map(|q| self.quantity(q));
        let least = Quantity::bytes(LEAST_LIMIT);
        if made.limits.memory.is_some_and(|limit| !limit.is_zero() && limit < least) {
            self.deviations.push(whose.to_owned());
            made.limits.memory = Some(least);
            // Guaranteed stays Guaranteed.
            if request.is_some() && request == limit {
                made.requests.memory = Some(least);
            }
        }
        made
    }

    fn quantity(&self, quantity: Quantity) -> Quantity {
        let bytes = u64::try_from(quantity.ceil()).unwrap_or(0);
        Quantity::new(i64::try_from(self.scaled(bytes)).unwrap_or(i64::MAX), Format::Binary)
    }

    /// The configuration with its memory amounts scaled; percentages stay.
    fn kubelet(&mut self, config: &KubeletConfiguration, swap: u64) -> Value {
        let mut made = config.clone();
        made.api_version = "kubelet.config.k8s.io/v1beta1".to_owned();
        made.kind = "KubeletConfiguration".to_owned();
        for reserved in [&mut made.system_reserved, &mut made.kube_reserved] {
            if let Some(memory) = reserved.get_mut("memory") {
                *memory = self.quantity(*memory);
            }
        }
        let amounts = |map: &mut BTreeMap<String, String>| {
            if let Some(text) = map.get_mut("memory.available")
                && let Ok(quantity) = text.parse::<Quantity>()
            {
                *text = self.quantity(quantity).to_string();
            }
        };
        // The default threshold of 100Mi is an amount as well.
        let hard =
            made.eviction_hard.get_or_insert_with(|| BTreeMap::from([("memory.available".to_owned(), "100Mi".to_owned())]));
        for map in [hard, &mut made.eviction_soft, &mut made.eviction_minimum_reclaim] {
            amounts(map);
        }
        if swap > 0 && made.fail_swap_on != Some(false) {
            made.fail_swap_on = Some(false);
            self.deviations.push("failSwapOn".to_owned());
        }
        serde_json::to_value(&made).unwrap_or_default()
    }

    fn lab(&self, pods: &[&String], kubernetes: String, memory: u64, swap: u64) -> Value {
        let node = &self.captured.capture.node;
        let mib = |bytes: u64| format!("{}Mi", bytes.div_ceil(MIB).max(1));
        let mut shape = json!({"kubernetes": kubernetes, "memory": self.scaled(memory).to_string(), "kernel": self.kernel()});
        if swap > 0 {
            // A size of whole MiB, and a page more for the signature.
            shape["swap"] = json!([{"name": "swap0", "size": mib(self.scaled(swap) + PAGE), "profile": "nvme"}]);
        }
        if self.disk > 0 {
            let size = mib(self.disk + self.disk / 4 + 16 * MIB);
            shape["data"] = json!([{"name": "data0", "size": size, "profile": "nvme", "fileSystem": "ext4"}]);
        }
        let name = node.name.as_deref().filter(|_| self.salt.is_none()).unwrap_or("a node");
        let mut how = format!(
            "Sizes of node, swap, requests, limits, reservations and measured footprints are divided by {} and rounded up to a page. CPU is as it \
             was. Disks are modelled as NVMe. Anonymous memory is what was held at the peak, cold is what was in swap, and every file is \
             read once.",
            self.scale
        );
        if !self.deviations.is_empty() {
            how += &format!(" Not to scale, since less cannot run: {}.", self.deviations.join(", "));
        }
        json!({
            "apiVersion": "highwater/v1alpha1",
            "kind": "Lab",
            "title": format!("{} pods of {name}", pods.len()),
            "question": "What does a change of the node's policy do to the pods that run on it?",
            "source": {"name": format!("a capture of {name}, Kubernetes {}", node.kubelet.as_deref().unwrap_or("unknown"))},
            "scale": {"factor": self.scale as f64, "how": how},
            "node": shape,
            "baseline": "captured",
            "arms": [{"name": "captured", "about": "As it was captured."}],
            "phases": [
                {"name": "fill", "start": pods, "ends": {"after": "10s"}},
                {"name": "steady", "ends": {"after": "20s"}},
            ],
            "budget": {"busy": "120s"},
        })
    }

    fn kernel(&self) -> Value {
        let node = &self.captured.capture.node;
        let number = |path: &str| node.knobs.get(path).and_then(|text| text.parse::<u64>().ok());
        let mut kernel = serde_json::Map::new();
        for (name, path) in [
            ("swappiness", "/proc/sys/vm/swappiness"),
            ("watermarkScaleFactor", "/proc/sys/vm/watermark_scale_factor"),
            ("pageCluster", "/proc/sys/vm/page-cluster"),
        ] {
            kernel.extend(number(path).map(|n| (name.to_owned(), json!(n))));
        }
        let free = number("/proc/sys/vm/min_free_kbytes").map(|kib| kib.div_ceil(self.scale).max(1));
        kernel.extend(free.map(|kib| ("minFreeKbytes".to_owned(), json!(kib))));
        if let Some(text) = node.knobs.get("/sys/kernel/mm/lru_gen/enabled") {
            let on = text.trim_start_matches("0x").chars().any(|c| c != '0');
            kernel.insert("mglru".to_owned(), json!(if on { "on" } else { "off" }));
        }
        let thp = node.knobs.get("/sys/kernel/mm/transparent_hugepage/enabled");
        let chosen = thp.and_then(|text| text.split_once('[')?.1.split_once(']').map(|(word, _)| word.to_owned()));
        kernel.extend(chosen.map(|word| ("thp".to_owned(), json!(word))));
        if !node.mount_options.iter().any(|o| o == "memory_recursiveprot") {
            kernel.insert("memoryRecursiveProt".to_owned(), json!("off"));
        }
        Value::Object(kernel)
    }
}
