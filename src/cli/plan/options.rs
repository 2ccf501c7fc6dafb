//! The options of `highwater plan`, and the node and configuration they come to.

use super::manifests::{Manifests, Replicas};
use crate::cli::Exit;
use crate::kubelet::{KubeletConfiguration, NodeFacts, Version};
use crate::record::CgroupDriver;
use crate::units::Quantity;
use crate::yaml::{Node, Path, Problems};
use clap::Args;

/// What a plan is made from: pods, a node, the kubelet's configuration and version.
#[derive(Debug, Args)]
pub struct Inputs {
    /// Manifests: files, directories, or - for standard input. Pods, Deployments, StatefulSets, DaemonSets, Jobs, CronJobs and
    /// Lists of them; a KubeletConfiguration and a v1 Node are taken from there too.
    pub(in crate::cli) files: Vec<String>,
    /// The Kubernetes version [default: the Node's, else 1.37].
    #[arg(long, value_name = "VERSION")]
    pub(in crate::cli) kubernetes: Option<Version>,
    /// The KubeletConfiguration.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) kubelet: Option<String>,
    /// The node's memory, as MemTotal says it [default: the Node's].
    #[arg(long, value_name = "QUANTITY")]
    memory: Option<Quantity>,
    /// The node's swap, as SwapTotal says it [default: the Node's, else 0].
    #[arg(long, value_name = "QUANTITY")]
    swap: Option<Quantity>,
    /// The node's CPUs.
    #[arg(long, value_name = "QUANTITY")]
    cpus: Option<Quantity>,
    /// Bytes of a page.
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    page_size: u64,
    /// The kernel has no memory.swap.max.
    #[arg(long)]
    no_swap_controller: bool,
    /// How cgroups are named, unless the KubeletConfiguration says it.
    #[arg(long, value_name = "DRIVER", value_parser = driver, default_value = "systemd")]
    cgroup_driver: CgroupDriver,
    /// The cgroup above kubepods, unless the KubeletConfiguration says it.
    #[arg(long, value_name = "PATH", default_value = "")]
    cgroup_root: String,
    /// How many pods of a workload run on this node.
    #[arg(long, value_enum, default_value_t = Replicas::One)]
    pub(in crate::cli) replicas: Replicas,
    /// Put under the configuration what the CLI kind writes by itself.
    #[arg(long)]
    pub(in crate::cli) kind: bool,
}

/// What to plan, and how to show it.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    pub(super) inputs: Inputs,
    /// Show the cgroups as a tree with the rule of each value.
    #[arg(long)]
    pub(super) tree: bool,
    /// Explain one file, for example pod/web/server/memory.high or kubepods/memory.min.
    #[arg(long, value_name = "CGROUP/FILE")]
    pub(super) explain: Option<String>,
    /// Show what changes under another version or KubeletConfiguration (a file), the most dangerous first. May be given twice.
    #[arg(long, value_name = "VERSION|FILE")]
    pub(super) diff: Vec<String>,
    /// Show what the version and KubeletConfiguration given here would change on a captured node, the most dangerous first.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["explain", "diff", "lint", "budget", "tree"])]
    pub(super) against: Option<camino::Utf8PathBuf>,
    /// Check the KubeletConfiguration only: what this version refuses, ignores and resets.
    #[arg(long)]
    pub(super) lint: bool,
    /// Show the node's memory as a budget.
    #[arg(long)]
    pub(super) budget: bool,
    /// The measured peak of everything unprotected, for the budget.
    #[arg(long, value_name = "QUANTITY", requires = "budget")]
    pub(super) unprotected_peak: Option<Quantity>,
    /// A figure for allocatable or the residual from elsewhere, to check against the budget.
    #[arg(long, value_name = "QUANTITY", requires = "budget")]
    pub(super) claim: Option<Quantity>,
    /// Read nodes as JSON lines from standard input ({"name", "node", "kubelet", "kubernetes", "pods"}) and write one line of values
    /// for each.
    #[arg(long, conflicts_with_all = ["files", "tree", "explain", "diff", "lint", "budget"])]
    pub(super) stream: bool,
}

fn driver(text: &str) -> Result<CgroupDriver, String> {
    match text {
        "systemd" => Ok(CgroupDriver::Systemd),
        "cgroupfs" => Ok(CgroupDriver::Cgroupfs),
        _ => Err("use systemd or cgroupfs".to_owned()),
    }
}

impl Inputs {
    /// The version: as said, or the Node's.
    pub(in crate::cli) fn version(&self, manifests: &Manifests) -> anyhow::Result<Version> {
        let of_node = || manifests.node.as_ref()?.get("status")?.get("nodeInfo")?.get("kubeletVersion")?.text();
        match (self.kubernetes, of_node()) {
            (Some(version), _) => Ok(version),
            (None, Some(text)) => text.parse().map_err(|error| Exit::BadInput.because(error)),
            (None, None) => Ok(Version::V1_37),
        }
    }

    /// The node: as said, over what a v1 Node among the manifests says.
    pub(in crate::cli) fn facts(&self, manifests: &Manifests) -> anyhow::Result<NodeFacts> {
        let status = manifests.node.as_ref().and_then(|node| node.get("status"));
        let capacity = |name| quantity(status.and_then(|s| s.get("capacity")?.get(name)), &format!("status.capacity.{name}"));
        let swap = status.and_then(|s| s.get("nodeInfo")?.get("swap")?.get("capacity"));
        let (memory, cpu, swap) = (capacity("memory"), capacity("cpu"), quantity(swap, "status.nodeInfo.swap.capacity"));
        let bad = |problems: Problems| Exit::BadInput.because(problems);
        let (memory, cpu, swap) = (memory.map_err(bad)?, cpu.map_err(bad)?, swap.map_err(bad)?);
        let Some(memory) = self.memory.or(memory) else {
            return Err(Exit::BadInput.because("the node's memory is unknown: give --memory, or a v1 Node among the files"));
        };
        let kernel = status.and_then(|s| s.get("nodeInfo")?.get("kernelVersion")?.text());
        let unsigned = |what: &str, quantity: Quantity| {
            u64::try_from(quantity.ceil()).map_err(|_| Exit::BadInput.because(format!("{what} {quantity} must not be negative")))
        };
        Ok(NodeFacts {
            page_size: self.page_size.max(1),
            swap_controller: !self.no_swap_controller,
            cpu_millis: self.cpus.or(cpu).and_then(|cpus| u64::try_from(cpus.milli_ceil()).ok()),
            kernel: kernel.and_then(kernel_version),
            cgroup_driver: self.cgroup_driver,
            cgroup_root: self.cgroup_root.clone(),
            ..NodeFacts::new(unsigned("--memory", memory)?, unsigned("--swap", self.swap.or(swap).unwrap_or_default())?)
        })
    }

    /// The KubeletConfiguration, typed and as written: the option's, else the one among the manifests, else an empty one.
    pub(in crate::cli) fn configuration(
        &self,
        manifests: &Manifests,
    ) -> anyhow::Result<(KubeletConfiguration, serde_json::Value)> {
        let found = match &self.kubelet {
            Some(file) => configuration(file)?,
            None => manifests.kubelet.clone().unwrap_or_else(|| (KubeletConfiguration::default(), serde_json::json!({}))),
        };
        if self.kind { under(&found.1) } else { Ok(found) }
    }
}

/// Reads a file with a KubeletConfiguration.
pub(in crate::cli) fn configuration(file: &str) -> anyhow::Result<(KubeletConfiguration, serde_json::Value)> {
    let manifests =
        super::manifests::read(&[file.to_owned()], Replicas::One).map_err(|problems| Exit::BadInput.because(problems))?;
    let none = || Exit::BadInput.because(format!("{file}: there is no KubeletConfiguration in it"));
    manifests.kubelet.ok_or_else(none)
}

/// Puts kind's own settings under what the user sets.
fn under(raw: &serde_json::Value) -> anyhow::Result<(KubeletConfiguration, serde_json::Value)> {
    let mut merged = crate::kubelet::kind_defaults();
    for (name, value) in raw.as_object().into_iter().flatten() {
        match (&mut merged[name], value) {
            (serde_json::Value::Object(under), serde_json::Value::Object(over)) => under.extend(over.clone()),
            (slot, value) => *slot = value.clone(),
        }
    }
    Ok((serde_json::from_value(merged.clone())?, merged))
}

fn quantity(value: Option<&Node>, path: &str) -> Result<Option<Quantity>, Problems> {
    value.map(|value| value.decode_at(&Path::from(path))).transpose()
}

fn kernel_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
