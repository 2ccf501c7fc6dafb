//! `highwater doctor`: what each provider needs, what this machine has, and what to do.

use super::{Exit, print, print_json};
use crate::provider::NodePrograms;
use crate::provider::cache::{Cache, cache_dir};
use crate::provider::doctor::{Check, HostFacts, KvmProbe, ProviderReport, State, ToolFacts, judge, probe_kvm, tools};
use crate::provider::image;
use crate::provider::kernel::{Kernel, KernelSource};
use crate::provider::lease::{Lease, leftovers, state_dir};
use crate::provider::machine::{Qemu, in_path};
use serde_json::json;
use std::fmt::Write;
use std::path::Path;

/// Looks at this machine. Ends with code 3 when the default provider cannot be used.
pub fn run(kernel: &KernelSource, json: bool) -> anyhow::Result<Exit> {
    let root = Path::new("/");
    let cache = Cache::at(cache_dir());
    let lease = Lease::open(&state_dir())?;
    let host = HostFacts::gather(root);
    let qemu = Qemu::find(&cache);
    let kernel = Kernel::find(kernel, &cache, &lease, &|_| {});
    let programs = NodePrograms::find();
    let kvm = match (&qemu, &kernel, &programs) {
        (Ok(qemu), Ok(kernel), Ok(programs)) => probe_kvm(root, qemu, kernel, programs, &lease)?,
        _ => KvmProbe::NotTried { reason: "QEMU, a kernel or the node programs are missing".into() },
    };
    let tools = ToolFacts {
        qemu: qemu.ok().map(|qemu| qemu.version),
        qemu_img: in_path("qemu-img".as_ref()).is_some(),
        mke2fs: in_path("mke2fs".as_ref()).is_some(),
        kernel: kernel.map(|kernel| kernel.release).map_err(|error| error.to_string()),
        programs: programs.map(drop).map_err(|error| error.to_string()),
        docker: tools::docker(),
        throwaway: image::docker_state(&cache).map(str::to_owned).map_err(|error| error.to_string()),
        kind: tools::version_of("kind", &["version"]),
        containerd: tools::version_of("containerd", &["--version"]),
        crio: tools::version_of("crio", &["--version"]),
        kubeconfig: tools::kubeconfig(),
        cache_free: tools::disk_free(cache.root()),
    };
    let reports = judge(&host, &tools, &kvm);
    let stale = leftovers(&state_dir())?.len();
    if json {
        print_json(&json!({ "host": host, "tools": tools, "kvm": kvm, "providers": reports, "staleLeases": stale }))?;
    } else {
        print(describe(&host, &reports, stale))?;
    }
    let sim = reports.iter().any(|report| report.provider == "sim" && report.usable);
    Ok(if sim { Exit::AsExpected } else { Exit::Substrate })
}

fn describe(host: &HostFacts, reports: &[ProviderReport], stale: usize) -> String {
    let mut text = String::new();
    let unknown = || "unknown".to_owned();
    let (system, kernel) = (host.system.clone().unwrap_or_else(unknown), host.kernel.clone().unwrap_or_else(unknown));
    _ = writeln!(text, "this machine: {system}, kernel {kernel}, {} cores", host.processors);
    for report in reports {
        let word = if report.usable { "usable" } else { "not usable" };
        _ = writeln!(text, "\n{} - {} - {}", report.provider, word, report.gives);
        text += &table(&report.checks);
    }
    if stale > 0 {
        _ = writeln!(text, "\n{stale} killed runs left something behind: run `highwater clean`");
    }
    text
}

/// Each need with what there is, and what to do where it is not met.
pub(super) fn table(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let mark = match check.state {
            State::Ok => "ok     ",
            State::Limited => "limited",
            State::Missing => "missing",
        };
        _ = writeln!(text, "  {mark}  {}: {}", check.need, check.has);
        if let Some(fix) = &check.fix {
            _ = writeln!(text, "           {fix}");
        }
    }
    text
}
