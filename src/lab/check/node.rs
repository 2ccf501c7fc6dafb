//! Nodes that cannot be.

use crate::kubelet::{KubeletConfiguration, Version};
use crate::lab::{Device, NodeShape};
use crate::yaml::{Node, Problems};
use std::collections::BTreeSet;

const MIB: u64 = 1 << 20;
/// Below this the kernel and the node program leave nothing to share out.
const MIN_MEMORY: u64 = 128 * MIB;
/// Memory and devices together are the memory of one QEMU process.
const MAX_TOTAL: u64 = 64 << 30;

pub(super) fn check(node: &NodeShape, kubelet: &KubeletConfiguration, tree: &Node, problems: &mut Problems) {
    let mut wrong = |path: &str, message: String| problems.push(tree.blame(path, message));
    if let Err(unknown) = node.kubernetes.parse::<Version>() {
        wrong("node.kubernetes", unknown.to_string());
    }
    if node.memory.0 < MIN_MEMORY {
        wrong("node.memory", format!("a node of {} cannot boot: give it at least 128Mi", node.memory));
    }
    if !node.memory.0.is_multiple_of(4096) {
        wrong("node.memory", format!("{} is not a whole number of pages of 4096 bytes", node.memory));
    }
    let devices: u128 = node.swap.iter().chain(&node.data).map(|d| u128::from(d.size.0)).sum();
    if u128::from(node.memory.0) + devices > u128::from(MAX_TOTAL) {
        wrong(
            "node.memory",
            "memory and devices together are more than 64Gi, which is more than this machine can be: scale the lab down".into(),
        );
    }
    let mut names = BTreeSet::new();
    for (list, devices) in [("swap", &node.swap), ("data", &node.data)] {
        for device in devices {
            let path = format!("node.{list}[{}]", device.name);
            for message in device_problems(device) {
                wrong(&path, message);
            }
            if !names.insert(&device.name) {
                wrong(&path, format!("a second device named {}: names must differ", device.name));
            }
            if device.file_system.is_some() && list == "swap" {
                wrong(&format!("{path}.fileSystem"), "a swap device has no file system".into());
            }
        }
    }
    for device in node.data.iter().filter(|device| device.file_system.is_some()).skip(1) {
        wrong(
            &format!("node.data[{}].fileSystem", device.name),
            "volumes lie on one disk: only one may have a file system".into(),
        );
    }
    let kernel = &node.kernel;
    let mut range = |path: &str, value: Option<u32>, low: u32, high: u32| {
        if value.is_some_and(|v| !(low..=high).contains(&v)) {
            wrong(&format!("node.kernel.{path}"), format!("must be from {low} to {high}"));
        }
    };
    range("swappiness", kernel.swappiness.map(u32::from), 0, 200);
    range("watermarkScaleFactor", kernel.watermark_scale_factor, 1, 3000);
    range("pageCluster", kernel.page_cluster.map(u32::from), 0, 10);
    let most_free = u32::try_from(node.memory.0 / 1024 / 4).unwrap_or(u32::MAX);
    range("minFreeKbytes", kernel.min_free_kbytes, 1, most_free.max(1));
    if node.icount_shift > 10 {
        wrong("node.icountShift", "must be from 0 to 10: one instruction takes 2^shift virtual nanoseconds".into());
    }
    swap(node, kubelet, tree, problems);
}

fn device_problems(device: &Device) -> Vec<String> {
    let mut found = Vec::new();
    let name_ok = device.name.starts_with(|c: char| c.is_ascii_lowercase())
        && device.name.len() <= 31
        && device.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    if !name_ok {
        found.push("a device's name must be a lower-case letter followed by letters and digits, as in /dev".to_owned());
    }
    if device.size.0 == 0 || !device.size.0.is_multiple_of(MIB) {
        found.push(format!("the size {} is not a whole number of Mi above 0", device.size));
    }
    if device.depth == Some(0) || device.depth.is_some_and(|d| d > 1024) {
        found.push("the queue depth must be from 1 to 1024".to_owned());
    }
    if device.mbps == Some(0) {
        found.push("a bandwidth of 0 MB/s would never answer: leave it out or give it a figure".to_owned());
    }
    found
}

/// Swap in an arm means a device, `failSwapOn: false` and a behaviour; two of three are a mistake.
fn swap(node: &NodeShape, kubelet: &KubeletConfiguration, tree: &Node, problems: &mut Problems) {
    let behavior = kubelet.memory_swap.swap_behavior.as_str();
    if node.swap.is_empty() && matches!(behavior, "LimitedSwap" | "UnlimitedSwap") {
        let message = format!("{behavior} on a node without swap device: add one to node.swap, or use NoSwap");
        problems.push(tree.blame("kubelet.memorySwap.swapBehavior", message));
    }
    if !node.swap.is_empty() && kubelet.fail_swap_on != Some(false) {
        let message =
            "the kubelet refuses to start while swap is on: set failSwapOn to false, or take the devices out of node.swap";
        problems.push(tree.blame("kubelet.failSwapOn", message));
    }
}
