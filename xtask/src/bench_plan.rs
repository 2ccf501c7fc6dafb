//! `cargo xtask bench-plan`: what the policy costs beside parsing, and whether `highwater plan --stream` stays flat in memory.
//!
//! Ratios within one run, on one machine: no stored figures to compare with.

use anyhow::{Context, bail};
use highwater::kubelet::{ContainerPolicy, Effective, KubeletConfiguration, Node, NodeFacts, Pod, PodPolicy, Version};
use std::io::{BufRead, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use xshell::{Shell, cmd};

const CONTAINERS: usize = 100;

/// Runs both parts and prints the figures.
///
/// # Errors
/// A limit of the project is broken: 2 µs per container, 1.5 times the parsing, or memory that grows with the number of nodes.
#[expect(clippy::print_stdout, reason = "the result of the task")]
pub fn run(sh: &Shell, nodes: usize) -> anyhow::Result<()> {
    let lines: Vec<String> = (0..100).map(line).collect();
    let policy = policy_cost(&lines)?;
    println!("policy alone: {:.3} µs per container", policy.as_secs_f64() * 1e6);

    cmd!(sh, "cargo build --quiet --release --bin highwater").run()?;
    let program = sh.current_dir().join("target/release/highwater");
    let parse = parse_alone(&lines, nodes)?;
    let (small, small_kib) = stream(&program, &lines, nodes / 10)?;
    let (all, all_kib) = stream(&program, &lines, nodes)?;
    let ratio = all.as_secs_f64() / parse.as_secs_f64();
    let per_container = |time: Duration, nodes: usize| time.as_secs_f64() * 1e6 / (nodes * CONTAINERS) as f64;
    println!(
        "parsing alone:    {nodes} nodes in {:.2} s, {:.3} µs per container",
        parse.as_secs_f64(),
        per_container(parse, nodes)
    );
    println!("plan --stream:    {nodes} nodes in {:.2} s, {:.3} µs per container", all.as_secs_f64(), per_container(all, nodes));
    println!("ratio: {ratio:.2} (at most 1.5)");
    println!(
        "memory: {small_kib} KiB at most for {} nodes ({:.2} s), {all_kib} KiB for {nodes}",
        nodes / 10,
        small.as_secs_f64()
    );
    println!("shares of a container, in µs: {}", shares(&lines)?);
    if policy > Duration::from_micros(2) {
        bail!("the policy costs more than 2 µs per container");
    }
    if ratio > 1.5 {
        bail!("planning takes more than 1.5 times as long as parsing");
    }
    if all_kib > small_kib + small_kib / 4 {
        bail!("memory grows with the number of nodes");
    }
    Ok(())
}

/// A node of 50 pods with two containers each: every QoS class, sidecars, pod-level resources.
fn line(index: usize) -> String {
    let pods: Vec<String> = (0..CONTAINERS / 2)
        .map(|pod| {
            let resources = match pod % 5 {
                0 => r#"{"requests":{"cpu":"500m","memory":"512Mi"},"limits":{"cpu":"500m","memory":"512Mi"}}"#,
                1 => r#"{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"memory":"256Mi"}}"#,
                2 => r#"{"requests":{"memory":"1.5Gi"}}"#,
                3 => r#"{"limits":{"memory":"1e9","cpu":"2"}}"#,
                _ => "{}",
            };
            let level = if pod % 10 == 7 { r#""resources":{"limits":{"memory":"4Gi"}},"# } else { "" };
            let (kind, other) = if pod % 4 == 1 { ("initContainers", r#""restartPolicy":"Always","#) } else { ("", "") };
            let container = |name: &str, extra: &str| {
                format!(
                    r#"{{"name":"{name}","image":"registry.example/team/{name}:1.2.3",{extra}"args":["--port=8080"],"env":[{{"name":"A","value":"b"}}],"ports":[{{"containerPort":8080}}],"resources":{resources}}}"#
                )
            };
            let containers = match kind {
                "" => format!(r#""containers":[{},{}]"#, container("main", ""), container("side", "")),
                _ => format!(r#""initContainers":[{}],"containers":[{}]"#, container("side", other), container("main", "")),
            };
            format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"pod-{pod}","namespace":"lab","uid":"{index:08x}-0000-4000-8000-{pod:012x}","labels":{{"app":"web"}}}},"spec":{{{level}{containers}}}}}"#
            )
        })
        .collect();
    format!(
        r#"{{"name":"node-{index}","node":{{"memory":{},"swap":17179869184,"pageSize":4096,"swapController":true,"cpuMillis":64000,"kernel":[6,12],"cgroupDriver":"systemd","cgroupRoot":""}},"kubelet":{{"failSwapOn":false,"memorySwap":{{"swapBehavior":"LimitedSwap"}},"memoryThrottlingFactor":0.9,"memoryReservationPolicy":"TieredReservation","systemReserved":{{"memory":"2Gi"}}}},"pods":[{}]}}"#,
        274_877_906_944u64 + index as u64 * 4096,
        pods.join(",")
    )
}

fn parts(lines: &[String]) -> anyhow::Result<Vec<(Node, Vec<Pod>)>> {
    lines
        .iter()
        .map(|line| {
            let value: serde_json::Value = serde_json::from_str(line)?;
            let config: KubeletConfiguration = serde_json::from_value(value["kubelet"].clone())?;
            let facts: NodeFacts = serde_json::from_value(value["node"].clone())?;
            let effective = Effective::resolve(Version::V1_37, &config).map_err(|reasons| anyhow::anyhow!("{reasons:?}"))?;
            let mut pods: Vec<Pod> = serde_json::from_value(value["pods"].clone())?;
            let node = Node::new(effective, facts);
            pods.iter_mut().for_each(|pod| pod.set_defaults(&node.config.gates));
            Ok((node, pods))
        })
        .collect()
}

/// The best of several rounds, per container.
fn best(containers: usize, mut round: impl FnMut()) -> Duration {
    let rounds = (0..15).map(|_| {
        let start = Instant::now();
        round();
        start.elapsed()
    });
    rounds.min().unwrap_or_default() / containers as u32
}

fn policy_cost(lines: &[String]) -> anyhow::Result<Duration> {
    let nodes = parts(lines)?;
    Ok(best(nodes.len() * CONTAINERS, || {
        for (node, pods) in &nodes {
            for pod in pods {
                let policy = PodPolicy::of(node, pod);
                for container in pod.containers() {
                    std::hint::black_box(ContainerPolicy::of(node, pod, &policy, container));
                }
            }
        }
    }))
}

/// The three largest shares of a streamed container, each measured alone.
fn shares(lines: &[String]) -> anyhow::Result<String> {
    let nodes = parts(lines)?;
    let all = nodes.len() * CONTAINERS;
    let parse = best(all, || {
        for line in lines {
            std::hint::black_box(serde_json::from_str::<StreamLine>(line).ok());
        }
    });
    let defaults = best(all, || {
        for (node, pods) in &nodes {
            for pod in pods {
                let mut pod = pod.clone();
                pod.set_defaults(&node.config.gates);
                std::hint::black_box(pod);
            }
        }
    });
    let names = best(all, || {
        for (node, pods) in &nodes {
            for pod in pods {
                let path = node.hierarchy.pod(highwater::kubelet::QosClass::Burstable, &pod.metadata.uid);
                for container in pod.containers() {
                    let id = highwater::kubelet::container_id(&pod.metadata.uid, &container.name, 0);
                    std::hint::black_box(highwater::kubelet::container_cgroup(node.hierarchy.driver(), &path, &id));
                }
            }
        }
    });
    let policy = policy_cost(lines)?;
    let mut shares =
        [("parsing", parse), ("cgroup names with SHA-256 ids", names), ("clone and defaults", defaults), ("policy", policy)];
    shares.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    Ok(shares.map(|(name, time)| format!("{name} {:.3}", time.as_secs_f64() * 1e6)).join(", "))
}

/// The same shape as the command reads, so that parsing alone does the same work.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only parsed")]
struct StreamLine {
    name: String,
    node: NodeFacts,
    kubelet: KubeletConfiguration,
    kubernetes: Option<Version>,
    pods: Vec<Pod>,
}

/// Reads as many lines as the command does, through a pipe of its own, and only parses them.
fn parse_alone(lines: &[String], nodes: usize) -> anyhow::Result<Duration> {
    let (reader, mut writer) = std::io::pipe()?;
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || (0..nodes).try_for_each(|i| writeln!(writer, "{}", lines[i % lines.len()])));
        let mut reader = std::io::BufReader::new(reader);
        let mut text = String::new();
        while reader.read_line(&mut text)? > 0 {
            std::hint::black_box(serde_json::from_str::<StreamLine>(&text)?);
            text.clear();
        }
        anyhow::Ok(())
    })?;
    Ok(start.elapsed())
}

/// Feeds the command, drains its output, and gives the time and the largest resident size in KiB.
fn stream(program: &std::path::Path, lines: &[String], nodes: usize) -> anyhow::Result<(Duration, u64)> {
    let start = Instant::now();
    let mut child = Command::new(program)
        .args(["plan", "--stream"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let mut input = child.stdin.take().context("no stdin")?;
    let mut output = child.stdout.take().context("no stdout")?;
    let process = child.id();
    let peak = std::thread::scope(|scope| {
        scope.spawn(move || (0..nodes).try_for_each(|i| writeln!(input, "{}", lines[i % lines.len()])));
        let mut peak = 0;
        let mut buffer = vec![0; 1 << 20];
        while std::io::Read::read(&mut output, &mut buffer)? > 0 {
            peak = peak.max(peak_kib(process));
        }
        anyhow::Ok(peak)
    })?;
    let ended = child.wait()?;
    if !ended.success() {
        bail!("plan --stream ended with {ended}");
    }
    Ok((start.elapsed(), peak))
}

/// The largest resident size of a running process so far, in KiB; 0 when it has ended.
pub fn peak_kib(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let high = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    high.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}
