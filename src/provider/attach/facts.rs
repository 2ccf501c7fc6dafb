//! A node's facts: kernel, memory, swap, processors, settings, versions, the kubelet's configuration file.

use super::Root;
use crate::cgroup::flat_value;
use crate::kubelet::KubeletConfiguration;
use crate::record::{CapturedNode, SwapArea};

/// Kernel settings that decide about memory, as files.
const KNOBS: [&str; 12] = [
    "/proc/sys/vm/swappiness",
    "/proc/sys/vm/min_free_kbytes",
    "/proc/sys/vm/watermark_scale_factor",
    "/proc/sys/vm/page-cluster",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/panic_on_oom",
    "/proc/sys/vm/dirty_ratio",
    "/proc/sys/vm/dirty_background_ratio",
    "/proc/sys/vm/vfs_cache_pressure",
    "/sys/kernel/mm/lru_gen/enabled",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/module/zswap/parameters/enabled",
];

/// Where kubeadm, kind, k3s, EKS, GKE and others put the kubelet's configuration.
const CONFIGURATIONS: [&str; 5] = [
    "/var/lib/kubelet/config.yaml",
    "/etc/kubernetes/kubelet/config.json",
    "/etc/kubernetes/kubelet/kubelet-config.json",
    "/home/kubernetes/kubelet-config.yaml",
    "/etc/kubernetes/kubelet-config.yaml",
];

/// Reads what does not depend on cgroups.
#[must_use]
pub fn node(root: &Root) -> CapturedNode {
    let meminfo = root.text("/proc/meminfo").unwrap_or_default();
    let bytes = |key: &str| flat_value(meminfo.as_bytes(), key).and_then(|kib| kib.checked_mul(1024));
    let knob = |path: &&str| Some(((*path).to_owned(), root.line(path)?));
    CapturedNode {
        name: root.line("/etc/hostname").filter(|name| !name.is_empty()),
        kernel: root.line("/proc/sys/kernel/osrelease"),
        kubelet: kubelet_version(root),
        memory: bytes("MemTotal"),
        swap: bytes("SwapTotal").unwrap_or(0),
        page_size: if root.is_own() { rustix::param::page_size() as u64 } else { 4096 },
        cpus: root.line("/sys/devices/system/cpu/online").and_then(|list| processors(&list)),
        swaps: swaps(&root.text("/proc/swaps").unwrap_or_default()),
        knobs: KNOBS.iter().filter_map(knob).collect(),
        ..CapturedNode::default()
    }
}

/// The kubelet's version where files say it: a kind node image, or Debian's list of packages.
fn kubelet_version(root: &Root) -> Option<String> {
    if let Some(version) = root.line("/kind/version").filter(|v| v.starts_with('v')) {
        return Some(version);
    }
    let status = root.text("/var/lib/dpkg/status")?;
    let package = status.split("\n\n").find(|package| package.lines().any(|line| line == "Package: kubelet"))?;
    let version = package.lines().find_map(|line| line.strip_prefix("Version: "))?;
    Some(format!("v{}", version.split('-').next()?))
}

/// Counts a list such as 0-3,8.
fn processors(list: &str) -> Option<u64> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.split(',').try_fold(0u64, |sum, range| sum.checked_add(count(range)?))
}

fn swaps(text: &str) -> Vec<SwapArea> {
    let area = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, kind) = (words.next()?, words.next()?);
        let mut bytes = || words.next()?.parse::<u64>().ok()?.checked_mul(1024);
        let (size, used) = (bytes()?, bytes()?);
        Some(SwapArea { name: name.to_owned(), kind: kind.to_owned(), size, used, priority: words.next()?.parse().ok()? })
    };
    text.lines().skip(1).filter_map(area).collect()
}

/// The kubelet's configuration, typed: what this program does not know is left out, and with it whatever else stands in the file.
///
/// # Errors
/// A sentence: no file is known, or the one there is cannot be read.
pub fn configuration(root: &Root, named: Option<&str>) -> Result<KubeletConfiguration, String> {
    let places: Vec<&str> = named.map_or_else(|| CONFIGURATIONS.to_vec(), |path| vec![path]);
    let Some((path, text)) = places.iter().find_map(|path| Some((*path, root.text(path)?))) else {
        return Err(format!("no KubeletConfiguration at {}: name it with --kubelet-config", places.join(", ")));
    };
    let node = crate::yaml::read(path, &text).map_err(|problems| problems.to_string())?;
    if node.get("kind").and_then(crate::yaml::Node::text) != Some("KubeletConfiguration") {
        return Err(format!("{path} is no KubeletConfiguration"));
    }
    node.decode().map_err(|problems| problems.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(processors("0-3,8"), Some(5));
        assert_eq!((processors(""), processors("3-1"), processors("0-18446744073709551615")), (None, None, None));
        let text = "Filename\tType\tSize\tUsed\tPriority\n/dev/sda2 partition 2097148 16 -2\n/swap\\040file file 4 0 5\nshort\n";
        let areas = swaps(text);
        assert_eq!(areas.len(), 2);
        assert_eq!((areas[0].size, areas[0].used, areas[0].priority), (2_097_148 << 10, 16 << 10, -2));
    }
}
