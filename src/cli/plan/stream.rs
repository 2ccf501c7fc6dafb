//! Many nodes as JSON lines: one line in, one line of values out, in memory that does not grow with the number of nodes.

use crate::cli::Exit;
use crate::kubelet::{
    ContainerPolicy, Decision, Effective, KubeletConfiguration, Limit, Node, NodeFacts, Pod, PodPolicy, QosClass, QosSums,
    Target, Version, aggregate, container_cgroup, container_id, periodic_writes, startup_writes,
};
use anyhow::Context;
use serde::Deserialize;
use std::io::{BufRead, Write};

/// A line.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NodeLine {
    name: String,
    node: NodeFacts,
    #[serde(default)]
    kubelet: KubeletConfiguration,
    kubernetes: Option<Version>,
    #[serde(default)]
    pods: Vec<Pod>,
}

/// Plans each line. A node whose kubelet does not start gets a line that says why, and the exit is "bad input".
pub(super) fn run(input: impl BufRead, output: impl Write, default: Version) -> anyhow::Result<Exit> {
    let mut streamer = Streamer { output, default, line: Vec::new() };
    let mut exit = Exit::AsExpected;
    let mut input = input;
    let mut text = String::new();
    let mut number = 0;
    loop {
        text.clear();
        if input.read_line(&mut text).context("cannot read standard input")? == 0 {
            break;
        }
        number += 1;
        if text.trim().is_empty() {
            continue;
        }
        let line: NodeLine =
            serde_json::from_str(&text).map_err(|error| Exit::BadInput.because(format!("line {number}: {error}")))?;
        if !streamer.node(line)? {
            exit = Exit::BadInput;
        }
    }
    streamer.output.flush().context("cannot write to standard output")?;
    Ok(exit)
}

struct Streamer<W> {
    output: W,
    default: Version,
    /// Reused for every node.
    line: Vec<u8>,
}

impl<W: Write> Streamer<W> {
    /// Writes the line of a node, and says whether its kubelet starts.
    fn node(&mut self, line: NodeLine) -> anyhow::Result<bool> {
        let version = line.kubernetes.unwrap_or(self.default);
        self.line.clear();
        write!(self.line, "{{\"name\":{}", serde_json::to_string(&line.name)?)?;
        let node = Effective::resolve(version, &line.kubelet).map(|effective| Node::new(effective, line.node));
        let node = node.and_then(|node| node.check_start().and_then(|()| node.check_swap()).map(|()| node));
        let started = match node {
            Ok(node) => {
                self.values(&node, line.pods)?;
                true
            }
            Err(reasons) => {
                write!(self.line, ",\"refused\":{}", serde_json::to_string(&aggregate(&reasons))?)?;
                false
            }
        };
        self.line.extend_from_slice(b"}\n");
        self.output.write_all(&self.line).context("cannot write to standard output")?;
        Ok(started)
    }

    fn values(&mut self, node: &Node, mut pods: Vec<Pod>) -> anyhow::Result<()> {
        write!(self.line, ",\"allocatable\":{},\"cgroups\":{{", node.status_allocatable)?;
        let mut policies = Vec::with_capacity(pods.len());
        for pod in &mut pods {
            pod.set_defaults(&node.config.gates);
            pod.set_uid();
            policies.push(PodPolicy::of(node, pod));
        }
        let sums = QosSums::of(&policies);
        let writes: Vec<_> = startup_writes(node).into_iter().chain(periodic_writes(node, &sums)).collect();
        let targets = [
            (Target::Kubepods, node.hierarchy.kubepods()),
            (Target::Burstable, node.hierarchy.qos(QosClass::Burstable)),
            (Target::BestEffort, node.hierarchy.qos(QosClass::BestEffort)),
        ];
        for (index, (target, path)) in targets.into_iter().enumerate() {
            if index > 0 {
                self.line.push(b',');
            }
            self.open(path);
            for file in ["memory.min", "memory.low", "memory.max"] {
                let last = writes.iter().filter(|w| w.target == target).flat_map(|w| &w.files).rfind(|f| f.0.name() == file);
                if let Some((_, value, _)) = last {
                    self.value(file, *value);
                }
            }
            self.close();
        }
        for (pod, policy) in pods.iter().zip(&policies) {
            self.pod(node, pod, policy);
        }
        self.line.push(b'}');
        Ok(())
    }

    fn pod(&mut self, node: &Node, pod: &Pod, policy: &PodPolicy) {
        let path = node.hierarchy.pod(policy.qos, &pod.metadata.uid);
        self.line.push(b',');
        self.open(&path);
        let files =
            [("memory.min", policy.min), ("memory.low", policy.low), ("memory.high", policy.high), ("memory.max", policy.max)];
        self.decisions(&files);
        self.close();
        for container in pod.containers() {
            let values = ContainerPolicy::of(node, pod, policy, container);
            let id = container_id(&pod.metadata.uid, &container.name, 0);
            self.line.push(b',');
            self.open(&container_cgroup(node.hierarchy.driver(), &path, &id));
            self.decisions(&[
                ("memory.min", values.min),
                ("memory.low", values.low),
                ("memory.high", values.high),
                ("memory.max", values.max),
                ("memory.swap.max", values.swap_max),
                ("memory.oom.group", values.oom_group),
            ]);
            let score = values.oom_score_adj.value;
            let _ = write!(self.line, "\"oom_score_adj\":\"{score}\",");
            self.close();
        }
    }

    /// Paths and file names hold nothing that JSON escapes.
    fn open(&mut self, path: &str) {
        self.line.push(b'"');
        self.line.extend_from_slice(path.as_bytes());
        self.line.extend_from_slice(b"\":{");
    }

    fn decisions(&mut self, files: &[(&str, Decision)]) {
        for (file, decision) in files {
            if let Some(value) = decision.value {
                self.value(file, value);
            }
        }
    }

    fn value(&mut self, file: &str, value: Limit) {
        let _ = write!(self.line, "\"{file}\":\"{value}\",");
    }

    fn close(&mut self) {
        if self.line.last() == Some(&b',') {
            self.line.pop();
        }
        self.line.push(b'}');
    }
}
