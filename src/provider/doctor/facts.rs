//! Facts of a host read from files below a root directory, so that trees of other hosts can be judged as well.

use serde::Serialize;
use std::fmt;
use std::fs;
use std::path::Path;

/// What the files of a host say. Absent facts are `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostFacts {
    /// PRETTY_NAME of /etc/os-release.
    pub system: Option<String>,
    /// `uname -r`.
    pub kernel: Option<String>,
    /// How cgroups are mounted.
    pub cgroups: CgroupLayout,
    /// /proc/pressure/memory is there.
    pub psi: bool,
    /// Whether cgroups can limit swap; unknown when no cgroup is there to ask.
    pub swap_controller: Option<bool>,
    /// Bytes of active swap.
    pub swap_bytes: u64,
    /// Multi-generational LRU, as /sys/kernel/mm/lru_gen/enabled says it.
    pub mglru: Option<String>,
    /// MemAvailable in bytes.
    pub memory_available: Option<u64>,
    /// Processors online.
    pub processors: usize,
    /// /dev/kvm is there.
    pub kvm_device: bool,
}

/// Where the memory controller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CgroupLayout {
    /// cgroup v2 only, with the memory controller.
    Unified,
    /// cgroup v2 beside v1, with the memory controller on v2.
    HybridMemoryOnV2,
    /// cgroup v2 beside v1, with the memory controller on v1.
    HybridMemoryOnV1,
    /// cgroup v1 only.
    V1,
    /// No hierarchy has a memory controller.
    NoMemory,
}

/// Major and minor of a kernel release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion(pub u32, pub u32);

impl KernelVersion {
    /// Parses `6.1.0-57-cloud-amd64` and the like.
    pub fn parse(release: &str) -> Option<KernelVersion> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        Some(KernelVersion(numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl HostFacts {
    /// Reads them. What cannot be read is absent: a container may hide much of it.
    pub fn gather(root: &Path) -> HostFacts {
        let read = |path: &str| fs::read_to_string(root.join(path)).ok();
        let meminfo = read("proc/meminfo").unwrap_or_default();
        HostFacts {
            system: read("etc/os-release").and_then(|text| {
                let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
                Some(line.trim_matches('"').to_owned())
            }),
            kernel: read("proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
            cgroups: cgroups(root, &read("proc/self/mounts").unwrap_or_default(), &read("proc/cgroups").unwrap_or_default()),
            psi: root.join("proc/pressure/memory").exists(),
            swap_controller: swap_controller(root),
            swap_bytes: read("proc/swaps").map_or(0, |text| {
                let sizes = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
                sizes.sum::<u64>() * 1024
            }),
            mglru: read("sys/kernel/mm/lru_gen/enabled").map(|text| text.trim().to_owned()),
            memory_available: meminfo
                .lines()
                .find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok())
                .map(|kib| kib * 1024),
            processors: read("proc/cpuinfo").map_or(0, |text| text.lines().filter(|line| line.starts_with("processor")).count()),
            kvm_device: root.join("dev/kvm").exists(),
        }
    }
}

fn cgroups(root: &Path, mounts: &str, controllers: &str) -> CgroupLayout {
    let mounted = |kind: &'static str| {
        mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).filter(move |fields| fields.get(2) == Some(&kind))
    };
    let v1_memory =
        mounted("cgroup").any(|fields| fields.get(3).is_some_and(|options| options.split(',').any(|o| o == "memory")));
    let v1_any = mounted("cgroup").next().is_some();
    let v2 = mounted("cgroup2").next();
    let v2_memory = v2.as_ref().and_then(|fields| fields.get(1)).is_some_and(|at| {
        let file = root.join(at.trim_start_matches('/')).join("cgroup.controllers");
        fs::read_to_string(file).is_ok_and(|text| text.split_whitespace().any(|name| name == "memory"))
    });
    // A controller that is compiled in but disabled has no hierarchy anywhere.
    let disabled = controllers.lines().any(|line| line.starts_with("memory") && line.ends_with('0'));
    match (v2.is_some(), v1_any) {
        _ if disabled => CgroupLayout::NoMemory,
        (true, false) if v2_memory => CgroupLayout::Unified,
        (true, true) if v2_memory => CgroupLayout::HybridMemoryOnV2,
        (true, _) if v1_memory => CgroupLayout::HybridMemoryOnV1,
        (false, _) if v1_memory => CgroupLayout::V1,
        _ => CgroupLayout::NoMemory,
    }
}

/// The root cgroup has no swap files, so ask its children.
fn swap_controller(root: &Path) -> Option<bool> {
    let mut answer = None;
    for (parent, base, file) in [
        ("sys/fs/cgroup", "memory.current", "memory.swap.max"),
        ("sys/fs/cgroup/memory", "memory.usage_in_bytes", "memory.memsw.limit_in_bytes"),
    ] {
        for child in fs::read_dir(root.join(parent)).into_iter().flatten().flatten() {
            if child.path().join(file).exists() {
                return Some(true);
            }
            if child.path().join(base).exists() {
                answer = Some(false);
            }
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> HostFacts {
        HostFacts::gather(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hosts").join(name))
    }

    #[test]
    fn three_kinds_of_hosts() {
        let unified = host("unified");
        assert_eq!((unified.cgroups, unified.swap_controller, unified.psi), (CgroupLayout::Unified, Some(true), true));
        assert_eq!((unified.processors, unified.swap_bytes), (2, 2_097_148 * 1024));
        assert_eq!(unified.system.as_deref(), Some("Debian GNU/Linux 13 (trixie)"));
        let hybrid = host("hybrid");
        assert_eq!((hybrid.cgroups, hybrid.swap_controller, hybrid.swap_bytes), (CgroupLayout::HybridMemoryOnV1, Some(false), 0));
        let v1 = host("v1");
        assert_eq!((v1.cgroups, v1.psi, v1.mglru), (CgroupLayout::V1, false, None));
        assert_eq!(host("does-not-exist").cgroups, CgroupLayout::NoMemory);
    }

    #[test]
    fn kernel_versions_compare_by_number() {
        let parse = |text| KernelVersion::parse(text).unwrap();
        assert_eq!(parse("6.1.0-57-cloud-amd64"), KernelVersion(6, 1));
        assert!(parse("5.10") > parse("5.9.16"));
        assert_eq!(KernelVersion::parse("next"), None);
    }
}
