//! The node: what the kubelet sees of it, and what is left after reservations.

use super::effective::Effective;
use super::names::Hierarchy;
use super::refusal::{Refusal, Stage};
use crate::record::CgroupDriver;
use crate::units::Quantity;
use serde::{Deserialize, Serialize};

/// What the kubelet reads from the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeFacts {
    /// Bytes of memory (MemTotal).
    pub memory: u64,
    /// Bytes of swap (SwapTotal).
    pub swap: u64,
    /// Bytes of a page.
    pub page_size: u64,
    /// Whether the kernel has memory.swap.max.
    pub swap_controller: bool,
    /// Thousandths of a core, when known; decides about the CPU weight of kubepods.
    pub cpu_millis: Option<u64>,
    /// Major and minor version of the kernel, when known.
    pub kernel: Option<(u32, u32)>,
    /// The runtime's cgroup driver; a driver in the KubeletConfiguration goes before it.
    pub cgroup_driver: CgroupDriver,
    /// The cgroup above kubepods; a cgroupRoot in the KubeletConfiguration goes before it.
    pub cgroup_root: String,
}

impl NodeFacts {
    /// A node with this many bytes of memory and swap and everything else as usual.
    pub fn new(memory: u64, swap: u64) -> Self {
        NodeFacts {
            memory,
            swap,
            page_size: 4096,
            swap_controller: true,
            cpu_millis: None,
            kernel: None,
            cgroup_driver: CgroupDriver::Systemd,
            cgroup_root: String::new(),
        }
    }
}

/// A node with the memory policy of its kubelet: everything that decides about a pod besides the pod.
#[derive(Debug, Clone)]
pub struct Node {
    /// The configuration in effect.
    pub config: Effective,
    /// The node.
    pub facts: NodeFacts,
    /// How cgroups are named.
    pub hierarchy: Hierarchy,
    /// Memory minus reservations, without eviction threshold, in bytes (`GetNodeAllocatableAbsolute`).
    pub allocatable_absolute: i64,
    /// node.status.allocatable: additionally without the hard eviction threshold, in bytes.
    pub status_allocatable: i64,
}

impl Node {
    /// Joins configuration and node.
    pub fn new(config: Effective, facts: NodeFacts) -> Self {
        let driver = config.cgroup_driver.unwrap_or(facts.cgroup_driver);
        let root = config.cgroup_root.clone().unwrap_or_else(|| facts.cgroup_root.clone());
        let capacity = Quantity::bytes(facts.memory);
        let reserved = [config.system_reserved, config.kube_reserved].into_iter().flatten();
        let absolute = reserved.fold(capacity, |left, reserved| left - reserved).or_zero_if_negative();
        let status = (capacity - reservation(&config, facts.memory)).or_zero_if_negative();
        Node {
            hierarchy: Hierarchy::new(driver, &root),
            allocatable_absolute: absolute.ceil(),
            status_allocatable: status.ceil(),
            config,
            facts,
        }
    }

    /// The checks at start that need the node (`validateNodeAllocatable`).
    ///
    /// # Errors
    /// More memory is reserved than there is.
    pub fn check_start(&self) -> Result<(), Vec<Refusal>> {
        let (capacity, reserved) = (Quantity::bytes(self.facts.memory), reservation(&self.config, self.facts.memory));
        if capacity >= reserved {
            return Ok(());
        }
        Err(vec![Refusal::new(
            Stage::Reservation,
            format_args!(
                "invalid Node Allocatable configuration. Resource \"memory\" has a reservation of {reserved} but capacity of \
                 {capacity}. Expected capacity >= reservation."
            ),
        )])
    }

    /// Whether swap is on although failSwapOn forbids it.
    ///
    /// # Errors
    /// It is.
    pub fn check_swap(&self) -> Result<(), Vec<Refusal>> {
        if self.facts.swap == 0 || !self.config.fail_swap_on {
            return Ok(());
        }
        let message = "running with swap on is not supported, please disable swap or set --fail-swap-on flag to false";
        Err(vec![Refusal::new(Stage::Node, message)])
    }
}

/// `GetNodeAllocatableReservation`: system, kube and the hard eviction threshold.
fn reservation(config: &Effective, node_memory: u64) -> Quantity {
    let eviction = config.eviction_hard_memory.as_ref().map(|(_, threshold)| threshold.amount(node_memory));
    [config.system_reserved, config.kube_reserved, eviction].into_iter().flatten().sum()
}
