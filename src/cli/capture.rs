//! `highwater capture --host`: what a node is, what its control files say and what its pods use, into a directory, without a write on it.

use super::{Exit, print, print_json};
use crate::provider::attach::{Root, Wanted, capture, read_pods};
use crate::provider::interrupt;
use camino::Utf8PathBuf;
use std::fmt::Write;
use std::time::{Duration, Instant};

const AFTER: &str = r#"Needs the right to read /proc/PID/cgroup of all processes and the cgroup hierarchy: root, or in a container the host's / mounted
read-only somewhere (--root) with the host's PID and cgroup namespaces. Nothing is written outside --out, no process is asked for its arguments
or its environment, and of the pods and the kubelet's configuration only what decides about memory is kept.

  kubectl get nodes,pods -A -o json > pods.json
  sudo highwater capture --host --pods pods.json --out node-a
  highwater verify node-a
  highwater plan --against node-a --kubernetes 1.37

Exit codes: 0 captured; 2 bad input; 4 captured, and something that a verdict needs is not known."#;

/// What to capture.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER)]
pub struct Args {
    /// Capture the machine itself.
    #[arg(long, required = true)]
    host: bool,
    /// The machine's file system, mounted or copied elsewhere.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: Utf8PathBuf,
    /// The new capture directory.
    #[arg(long, value_name = "DIR")]
    out: Utf8PathBuf,
    /// Pods and nodes, from `kubectl get nodes,pods -A -o json`.
    #[arg(long, value_name = "FILE")]
    pods: Option<Utf8PathBuf>,
    /// The node's name in that list [default: that of the pods that run here].
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// The KubeletConfiguration, inside of --root.
    #[arg(long, value_name = "PATH")]
    kubelet_config: Option<String>,
    /// How long usage is watched, in seconds; 0 takes one reading.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    duration: u64,
    /// Seconds between two readings; longer where a reading would take more than a hundredth of it.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
}

/// Captures and writes the directory.
pub fn run(args: &Args, json: bool) -> anyhow::Result<Exit> {
    let bad = |e: &dyn std::fmt::Display| Exit::BadInput.because(e);
    let root = Root::open(&args.root).map_err(|e| bad(&e))?;
    let listed = match &args.pods {
        Some(path) => {
            let text = fs_err::read_to_string(path).map_err(|e| bad(&e))?;
            Some(read_pods(&text).map_err(|e| bad(&format!("{path}: {e}")))?)
        }
        None => None,
    };
    let wanted = Wanted {
        node: args.node.clone(),
        kubelet_config: args.kubelet_config.clone(),
        listed,
        every: Duration::from_secs(args.every),
        length: Duration::from_secs(args.duration),
    };
    let captured = capture(&root, wanted, wait);
    if interrupt::requested() {
        return Ok(Exit::Interrupted);
    }
    captured.write(&args.out).map_err(|e| bad(&e))?;
    if json {
        print_json(&captured.capture)?;
    } else {
        print(text(&captured, &args.out))?;
    }
    Ok(if captured.capture.doubts.is_empty() { Exit::AsExpected } else { Exit::Uninformative })
}

/// Sleeps in short pieces, so that Ctrl-C ends it at once.
fn wait(time: Duration) -> bool {
    let ends = Instant::now() + time;
    while !interrupt::requested() {
        let left = ends.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
    false
}

fn text(captured: &crate::provider::attach::Captured, out: &camino::Utf8Path) -> String {
    let node = &captured.capture.node;
    let unknown = || "unknown".to_owned();
    let mut text = format!(
        "{}: kernel {}, kubelet {}, {:?}, {} cgroups, {} readings of usage\n",
        node.name.clone().unwrap_or_else(unknown),
        node.kernel.clone().unwrap_or_else(unknown),
        node.kubelet.clone().unwrap_or_else(unknown),
        node.cgroups,
        captured.ledger.entries.len(),
        captured.usage.samples,
    );
    for doubt in &captured.capture.doubts {
        let _ = writeln!(text, "  not known: {doubt}");
    }
    for note in &captured.capture.notes {
        let _ = writeln!(text, "  note: {note}");
    }
    let _ = writeln!(text, "{out}: written; `highwater verify {out}` holds it against its plan");
    text
}
