//! What the facts mean for each provider: usable or not, why, and what to do.

use super::{CgroupLayout, HostFacts, KernelVersion, KvmProbe, ToolFacts};
use crate::provider::docker::EngineFacts;
use serde::Serialize;

const GIB: u64 = 1 << 30;

/// How a need is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Met.
    Ok,
    /// Not met, but the provider works without, with the loss that is named.
    Limited,
    /// Not met; the provider cannot be used.
    Missing,
}

/// One need of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// What is needed.
    pub need: String,
    /// Whether it is met.
    pub state: State,
    /// What this machine has.
    pub has: String,
    /// Why it matters or what to do; absent when all is well.
    pub fix: Option<String>,
}

/// A provider's needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderReport {
    /// Its name.
    pub provider: &'static str,
    /// What it is for.
    pub gives: &'static str,
    /// No need is missing.
    pub usable: bool,
    /// The needs.
    pub checks: Vec<Check>,
}

/// Judges all providers.
pub fn judge(host: &HostFacts, tools: &ToolFacts, kvm: &KvmProbe) -> Vec<ProviderReport> {
    let report = |provider, gives, checks: Vec<Check>| {
        let usable = checks.iter().all(|check| check.state != State::Missing);
        ProviderReport { provider, gives, usable, checks }
    };
    vec![
        report("sim", "the deterministic node: no root, no Docker, no KVM", sim(host, tools)),
        report("vm", "a throwaway VM with real kubelet, containerd and runc", vm(host, tools, kvm)),
        report("docker", "a throwaway Docker in a VM of its own, for kubeadm and kind", throwaway(host, tools)),
        report("kubeadm", "whole throwaway clusters in node containers", containers(tools)),
        report("kind", "existing kind images and configurations", kind(tools)),
        report("attach", "an existing node, read-only unless told otherwise", attach(host, tools)),
    ]
}

fn ok(need: &str, has: impl Into<String>) -> Check {
    Check { need: need.into(), state: State::Ok, has: has.into(), fix: None }
}

fn not(state: State, need: &str, has: impl Into<String>, fix: &str) -> Check {
    Check { need: need.into(), state, has: has.into(), fix: Some(fix.into()) }
}

fn at_least(need: &str, has: Option<u64>, wanted: u64, state: State, fix: &str) -> Check {
    let need = format!("{need} {} GiB", wanted / GIB);
    match has {
        Some(bytes) if bytes >= wanted => ok(&need, gib(bytes)),
        Some(bytes) => not(state, &need, gib(bytes), fix),
        None => not(State::Limited, &need, "unknown", fix),
    }
}

fn gib(bytes: u64) -> String {
    format!("{}.{} GiB", bytes / GIB, bytes % GIB * 10 / GIB)
}

fn qemu(tools: &ToolFacts) -> Check {
    let need = "QEMU 7.2 or newer (qemu-system-x86_64)";
    match &tools.qemu {
        None => not(State::Missing, need, "none", "apt-get install qemu-system-x86, or set HIGHWATER_QEMU"),
        Some(version) if KernelVersion::parse(version).is_some_and(|v| v < KernelVersion(7, 2)) => not(
            State::Missing,
            need,
            version,
            "record mode and memory templates were only tested from 7.2 on: install a newer QEMU",
        ),
        Some(version) => ok(need, version),
    }
}

fn sim(host: &HostFacts, tools: &ToolFacts) -> Vec<Check> {
    let kernel = match &tools.kernel {
        Ok(release) => ok("a kernel with null_blk and configfs", release),
        Err(reason) => not(State::Missing, "a kernel with null_blk and configfs", "none", reason),
    };
    let programs = match &tools.programs {
        Ok(()) => ok("the node programs", "built"),
        Err(reason) => not(State::Missing, "the node programs", "none", reason),
    };
    let mke2fs = match tools.mke2fs {
        true => ok("mke2fs", "yes"),
        false => not(State::Limited, "mke2fs", "none", "labs with a data disk need it: apt-get install e2fsprogs"),
    };
    let more_memory = "larger labs need more; run fewer arms at a time";
    let few = "arms run one after the other on one core";
    vec![
        qemu(tools),
        kernel,
        programs,
        mke2fs,
        at_least("memory available", host.memory_available, GIB, State::Limited, more_memory),
        at_least("disk for the cache", tools.cache_free, GIB, State::Limited, "point XDG_CACHE_HOME at a larger disk"),
        if host.processors > 1 {
            ok("two cores or more", host.processors.to_string())
        } else {
            not(State::Limited, "two cores or more", host.processors.to_string(), few)
        },
    ]
}

fn vm(host: &HostFacts, tools: &ToolFacts, probe: &KvmProbe) -> Vec<Check> {
    let need = "a KVM that boots a stock kernel";
    let without = "the VM runs under TCG, about ten times slower; nothing else changes";
    let kvm = match probe {
        KvmProbe::Boots { millis } => ok(need, format!("yes, in {millis} ms")),
        KvmProbe::Hangs { seconds } => {
            not(State::Limited, need, format!("/dev/kvm opens but no kernel booted in {seconds} s"), without)
        }
        KvmProbe::Fails { reason } | KvmProbe::NotTried { reason } => not(State::Limited, need, reason, without),
    };
    let fix = "the node image, control plane and snapshot take this much";
    vec![
        qemu(tools),
        kvm,
        at_least("memory available", host.memory_available, 4 * GIB, State::Missing, "close something, or use the provider sim"),
        at_least("disk for the cache", tools.cache_free, 20 * GIB, State::Missing, fix),
    ]
}

/// What a Docker must have for node containers with a kubelet.
pub fn judge_docker(facts: &EngineFacts) -> Vec<Check> {
    let need = "Docker 20.10 or newer (API 1.41)";
    // Docker's release notes: 20.10 is the first that knows cgroup v2.
    let has = format!("{} (API {}) at {}", facts.version, facts.api, facts.endpoint);
    let docker = match KernelVersion::parse(&facts.api) {
        Some(api) if api >= KernelVersion(1, 41) => ok(need, has),
        _ => {
            not(State::Missing, need, has, "older ones cannot hand out cgroup v2: install a newer one, or use a throwaway Docker")
        }
    };
    let cgroups = match facts.cgroup_version.as_str() {
        "2" => ok("cgroup v2 where Docker runs", "v2"),
        version => {
            let fix = "Memory QoS exists in v2 only: boot it with systemd.unified_cgroup_hierarchy=1, or use a throwaway Docker";
            let has = format!("v{version}, or v1 and v2 side by side");
            not(State::Missing, "cgroup v2 where Docker runs", has, fix)
        }
    };
    let controller = |need, there, state, fix| if there { ok(need, "yes") } else { not(state, need, "no", fix) };
    let memory = "boot it with cgroup_enable=memory, or use a throwaway Docker";
    let swap = "boot it with swapaccount=1, or use a throwaway Docker; without it labs with swap need sim or vm";
    let mut checks = vec![
        docker,
        cgroups,
        controller("a memory controller there", facts.memory_limit, State::Missing, memory),
        controller("a swap controller there", facts.swap_limit, State::Limited, swap),
    ];
    checks.extend(kernel_checks(Some(&facts.kernel)));
    checks
}

fn containers(tools: &ToolFacts) -> Vec<Check> {
    match &tools.docker {
        Ok(facts) => judge_docker(facts),
        Err(reason) => vec![not(State::Missing, "a Docker API", reason, "or have a throwaway one: highwater docker up")],
    }
}

fn kind(tools: &ToolFacts) -> Vec<Check> {
    let kind = match &tools.kind {
        Some(version) => ok("the kind command", version),
        None => not(State::Missing, "the kind command", "none", "install kind, or use the provider kubeadm or sim"),
    };
    [vec![kind], containers(tools)].concat()
}

fn throwaway(host: &HostFacts, tools: &ToolFacts) -> Vec<Check> {
    let need = "its machine, or what builds it";
    let machine = match &tools.throwaway {
        Ok(state) => ok(need, state),
        Err(reason) => not(State::Missing, need, "no", reason),
    };
    let qemu_img = match tools.qemu_img {
        true => ok("qemu-img", "yes"),
        false => not(State::Missing, "qemu-img", "none", "apt-get install qemu-utils"),
    };
    let less = "start it with less: highwater docker up --memory 2Gi";
    vec![
        qemu(tools),
        qemu_img,
        machine,
        at_least("memory available", host.memory_available, 4 * GIB, State::Limited, less),
        at_least("disk for the cache", tools.cache_free, 8 * GIB, State::Missing, "point XDG_CACHE_HOME at a larger disk"),
    ]
}

fn attach(host: &HostFacts, tools: &ToolFacts) -> Vec<Check> {
    let target = match &tools.kubeconfig {
        Some(path) => ok("a kubeconfig, or this host as the node", path.display().to_string()),
        None => not(
            State::Limited,
            "a kubeconfig, or this host as the node",
            "no kubeconfig",
            "only this host itself can be attached",
        ),
    };
    let mut checks = vec![target, memory_controller(host)];
    checks.extend(kernel_checks(host.kernel.as_deref()));
    checks.push(if host.psi {
        ok("pressure stall information", "yes")
    } else {
        not(State::Limited, "pressure stall information", "no", "boot with psi=1; without it no stall times are recorded")
    });
    checks.push(match host.swap_controller {
        Some(true) => ok("a swap controller", "yes"),
        Some(false) => not(
            State::Limited,
            "a swap controller",
            "no",
            "boot with swapaccount=1; without it swap is not limited per container",
        ),
        None => {
            not(State::Limited, "a swap controller", "unknown: no cgroup below the root to ask", "ask again on the node itself")
        }
    });
    checks.push(if host.swap_bytes > 0 {
        ok("swap for labs with swap", gib(host.swap_bytes))
    } else {
        not(State::Limited, "swap for labs with swap", "none", "labs with swap need swapon on this node, or the provider sim")
    });
    checks.extend(runtime_checks(tools));
    checks
}

fn memory_controller(host: &HostFacts) -> Check {
    let need = "the memory controller on cgroup v2";
    let unified = "boot with systemd.unified_cgroup_hierarchy=1, or use the provider sim, which brings its own kernel";
    match host.cgroups {
        CgroupLayout::Unified => ok(need, "unified: cgroup v2 only"),
        CgroupLayout::HybridMemoryOnV2 => ok(need, "hybrid, with memory on v2"),
        CgroupLayout::HybridMemoryOnV1 => {
            not(State::Missing, need, "hybrid, with memory on v1: no memory.high, no memory.min", unified)
        }
        CgroupLayout::V1 => not(State::Missing, need, "cgroup v1 only: no memory.high, no memory.min", unified),
        CgroupLayout::NoMemory => not(State::Missing, need, "no memory controller", "boot without cgroup_disable=memory"),
    }
}

/// Kernel 5.9: memory.high throttles as Memory QoS assumes (KEP-2570). Kernel 6.4: tmpfs with noswap, which the kubelet wants for secrets.
fn kernel_checks(release: Option<&str>) -> Vec<Check> {
    let version = release.and_then(KernelVersion::parse);
    let has = release.unwrap_or("unknown");
    [
        (KernelVersion(5, 9), State::Missing, "memory.high throttles as Memory QoS assumes from this version on"),
        (
            KernelVersion(6, 4),
            State::Limited,
            "older kernels have no tmpfs option noswap: the kubelet warns that secrets may be swapped",
        ),
    ]
    .into_iter()
    .map(|(wanted, state, why)| {
        let need = format!("kernel {wanted} or newer");
        if version.is_some_and(|v| v >= wanted) { ok(&need, has) } else { not(state, &need, has, why) }
    })
    .collect()
}

/// What swap in Kubernetes once needed, apart from what 1.37 is supported with.
fn runtime_checks(tools: &ToolFacts) -> Vec<Check> {
    let mut checks = Vec::new();
    let old = "swap and Memory QoS were never supported below this version: install a newer one";
    if let Some(version) = &tools.containerd {
        let number = KernelVersion::parse(version);
        let below = |wanted| number.is_none_or(|number| number < wanted);
        checks.push(if below(KernelVersion(1, 6)) {
            not(State::Missing, "containerd 1.6 or newer (the historical floor)", version, old)
        } else {
            ok("containerd 1.6 or newer (the historical floor)", version)
        });
        checks.push(if below(KernelVersion(2, 3)) {
            let fix = "Kubernetes 1.37 is supported with 2.3 and 2.4 only";
            not(State::Limited, "containerd 2.3 or 2.4 for Kubernetes 1.37", version, fix)
        } else {
            ok("containerd 2.3 or 2.4 for Kubernetes 1.37", version)
        });
    }
    if let Some(version) = &tools.crio {
        let need = "CRI-O 1.22 or newer (the historical floor)";
        let below = KernelVersion::parse(version).is_none_or(|number| number < KernelVersion(1, 22));
        checks.push(if below { not(State::Missing, need, version, old) } else { ok(need, version) });
    }
    if checks.is_empty() {
        let fix = "no runtime on this host; a node reached by kubeconfig is asked itself";
        checks.push(not(State::Limited, "containerd or CRI-O on the node", "none here", fix));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn host(name: &str) -> HostFacts {
        HostFacts::gather(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hosts").join(name))
    }

    fn usable(reports: &[ProviderReport]) -> Vec<&str> {
        reports.iter().filter(|report| report.usable).map(|report| report.provider).collect()
    }

    fn equipped() -> ToolFacts {
        ToolFacts {
            qemu: Some("7.2.22".into()),
            mke2fs: true,
            kernel: Ok("6.1.0-57-cloud-amd64".into()),
            programs: Ok(()),
            docker: Err("no Docker API at unix:///var/run/docker.sock".into()),
            throwaway: Ok("built".into()),
            qemu_img: true,
            cache_free: Some(50 * GIB),
            containerd: Some("1.7.20".into()),
            ..ToolFacts::default()
        }
    }

    #[test]
    fn the_simulator_asks_for_nothing_of_the_hosts_cgroups() {
        let hang = KvmProbe::Hangs { seconds: 15 };
        assert_eq!(usable(&judge(&host("hybrid"), &equipped(), &hang)), ["sim", "vm", "docker"]);
        assert_eq!(usable(&judge(&host("v1"), &equipped(), &hang)), ["sim", "vm", "docker"]);
        assert_eq!(usable(&judge(&host("unified"), &equipped(), &hang)), ["sim", "vm", "docker", "attach"]);
    }

    #[test]
    fn every_unmet_need_says_what_to_do() {
        let bare = ToolFacts { kernel: Err("fetch it".into()), programs: Err("build them".into()), ..equipped() };
        let bare = ToolFacts { qemu: None, qemu_img: false, mke2fs: false, cache_free: None, ..bare };
        let bare = ToolFacts { throwaway: Err("install mmdebstrap".into()), ..bare };
        let probe = KvmProbe::NotTried { reason: "there is no /dev/kvm".into() };
        let reports = judge(&host("v1"), &bare, &probe);
        assert!(usable(&reports).is_empty());
        for check in reports.iter().flat_map(|report| &report.checks) {
            assert_eq!(check.state == State::Ok, check.fix.is_none(), "{check:?}");
        }
    }

    #[test]
    fn a_docker_that_will_not_do_is_told_all_that_it_lacks() {
        let good = EngineFacts {
            api: "1.41".into(),
            cgroup_version: "2".into(),
            kernel: "6.12.1".into(),
            memory_limit: true,
            swap_limit: true,
            ..EngineFacts::default()
        };
        assert!(judge_docker(&good).iter().all(|check| check.state == State::Ok));
        let bad = EngineFacts { api: "1.40".into(), cgroup_version: "1".into(), swap_limit: false, ..good };
        let fixes: Vec<_> = judge_docker(&bad).into_iter().filter_map(|check| check.fix).collect();
        assert_eq!(fixes.len(), 3, "{fixes:?}");
        for (fix, word) in fixes.iter().zip(["install a newer one", "systemd.unified_cgroup_hierarchy=1", "swapaccount=1"]) {
            assert!(fix.contains(word), "{fix}");
        }
    }

    #[test]
    fn the_floor_and_what_is_supported_are_told_apart() {
        let states = |version: &str| {
            let tools = ToolFacts { containerd: Some(version.into()), ..equipped() };
            runtime_checks(&tools).iter().map(|check| check.state).collect::<Vec<_>>()
        };
        assert_eq!(states("1.5.9"), [State::Missing, State::Limited]);
        assert_eq!(states("1.7.20"), [State::Ok, State::Limited]);
        assert_eq!(states("2.3.0"), [State::Ok, State::Ok]);
    }
}
