//! `cargo xtask bench-capture`: a capture and its verification on a made tree of many containers, in seconds and resident memory.

use crate::bench_plan::peak_kib;
use anyhow::{Context, ensure};
use highwater::ledger::CONTROLS;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use xshell::{Shell, cmd};

/// The project's limit for 10,000 containers.
const LIMIT: Duration = Duration::from_secs(10);

/// Makes the tree, runs both commands, prints what they took.
///
/// # Errors
/// A command fails otherwise than by its verdict, or 10,000 containers take longer than ten seconds.
#[expect(clippy::print_stdout, reason = "the result of the task")]
pub fn run(sh: &Shell, containers: usize) -> anyhow::Result<()> {
    cmd!(sh, "cargo build --quiet --release --bin highwater").run()?;
    let program = sh.current_dir().join("target/release/highwater");
    let folder = sh.create_temp_dir()?;
    let (root, pods, out) = (folder.path().join("root"), folder.path().join("pods.json"), folder.path().join("out"));
    make(&root, &pods, containers.div_ceil(2))?;
    let capture = measured(Command::new(&program).args(["capture", "--host", "--duration", "0"]).args([
        Path::new("--root"),
        &root,
        Path::new("--pods"),
        &pods,
        Path::new("--out"),
        &out,
    ]))?;
    let verify = measured(Command::new(&program).arg("verify").arg(&out))?;
    for (name, (time, kib)) in [("capture", capture), ("verify", verify)] {
        println!("{name}: {containers} containers in {:.2} s, {kib} KiB at most", time.as_secs_f64());
    }
    ensure!(containers != 10_000 || capture.0 < LIMIT, "a capture of 10,000 containers took longer than {LIMIT:?}");
    Ok(())
}

/// Pods of two containers and a pause container each, with the cgroupfs driver.
fn make(root: &Path, list: &Path, pods: usize) -> anyhow::Result<()> {
    let put = |path: &str, text: &str| -> anyhow::Result<()> {
        let path = root.join(path);
        fs::create_dir_all(path.parent().context("it has one")?)?;
        Ok(fs::write(path, text)?)
    };
    put("proc/meminfo", "MemTotal: 1073741824 kB\nSwapTotal: 0 kB\n")?;
    put("proc/1/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,memory_recursiveprot\n")?;
    put("kind/version", "v1.37.2\n")?;
    put(
        "var/lib/kubelet/config.yaml",
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: cgroupfs\n",
    )?;
    let cgroup = |path: &str| -> anyhow::Result<()> {
        let usage = [
            ("memory.current", "1048576"),
            ("memory.stat", "anon 524288\nfile 524288\ninactive_file 0"),
            ("memory.swap.current", "0"),
        ];
        for (file, text) in CONTROLS.into_iter().chain(usage) {
            put(&format!("sys/fs/cgroup{path}/{file}"), &format!("{text}\n"))?;
        }
        Ok(())
    };
    for path in ["/kubepods", "/kubepods/burstable", "/kubepods/besteffort"] {
        cgroup(path)?;
    }
    let mut items = Vec::with_capacity(pods);
    for pod in 0..pods {
        let path = format!("/kubepods/burstable/pod{pod}");
        cgroup(&path)?;
        let mut statuses = Vec::new();
        for (at, name) in ["pause", "main", "side"].into_iter().enumerate() {
            let (number, id) = (3 * pod + at, format!("{:064x}", 3 * pod + at));
            cgroup(&format!("{path}/{id}"))?;
            put(&format!("proc/{}/cgroup", 100 + number), &format!("0::{path}/{id}\n"))?;
            put(&format!("proc/{}/oom_score_adj", 100 + number), "999\n")?;
            if name != "pause" {
                statuses.push(format!(r#"{{"name":"{name}","containerID":"containerd://{id}","state":{{"running":{{}}}}}}"#));
            }
        }
        let container = |name: &str| format!(r#"{{"name":"{name}","resources":{{"requests":{{"memory":"1Mi"}}}}}}"#);
        items.push(format!(
            r#"{{"kind":"Pod","metadata":{{"name":"p{pod}","uid":"{pod}"}},"spec":{{"nodeName":"n","containers":[{},{}]}},"status":{{"containerStatuses":[{}]}}}}"#,
            container("main"),
            container("side"),
            statuses.join(",")
        ));
    }
    Ok(fs::write(list, format!(r#"{{"kind":"List","items":[{}]}}"#, items.join(",")))?)
}

/// Runs a command, and gives its time and its largest resident size in KiB.
fn measured(command: &mut Command) -> anyhow::Result<(Duration, u64)> {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::null()).spawn().context("starting highwater")?;
    let mut peak = 0;
    let ended = loop {
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        peak = peak.max(peak_kib(child.id()));
        std::thread::sleep(Duration::from_millis(5));
    };
    ensure!(matches!(ended.code(), Some(0 | 1)), "{command:?} ended with {ended}");
    Ok((start.elapsed(), peak))
}
