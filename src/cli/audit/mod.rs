//! `highwater audit`: the talk's quick actions over `kubectl get nodes,pods -A -o json` and usage samples.

mod objects;
mod show;

use super::plan::manifests::texts;
use super::{Exit, print, print_json};
use crate::kubelet::Version;
use crate::study::audit;
use crate::units::Quantity;
use crate::yaml::Problems;

const AFTER: &str = r#"Usage comes as the answer of a Prometheus range query, for example

  curl -sG "$PROMETHEUS/api/v1/query_range" -d start=$(date +%s -d -7days) -d end=$(date +%s) -d step=60 --data-urlencode \
    'query=max by (node, namespace, pod, container) (container_memory_working_set_bytes{container!="",pod!=""})' > usage.json

or as lines of kubectl top with the time before each, collected for as long as you like:

  while sleep 60; do kubectl top pod -A --containers --no-headers | sed "s/^/$(date +%s) /"; done | tee -a usage.txt

A pod says its latency need with the label or annotation highwater/latency: storage, sub-ms, sub-100ms or relaxed. Without it, habits
decide (critical pods, names of databases, priority class, Job, QoS class), and the output says which.

Exit codes: 0 nothing harmful; 1 a pod that must not swap would, or an entitlement is too small; 2 bad input; 4 no samples of these pods."#;

/// What to audit.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER)]
pub struct Args {
    /// Files of `kubectl get nodes,pods -A -o json`, directories of them, or - for standard input.
    #[arg(required = true)]
    files: Vec<String>,
    /// Usage samples: files, directories of JSON files, or - for standard input. May be given several times.
    #[arg(long, value_name = "FILE")]
    usage: Vec<String>,
    /// Swap that every node would have, to ask what it would do [default: the Node's own].
    #[arg(long, value_name = "QUANTITY")]
    swap: Option<Quantity>,
    /// Take this Kubernetes version for every node [default: the Node's own].
    #[arg(long, value_name = "VERSION")]
    kubernetes: Option<Version>,
}

/// Reads, audits, prints.
pub fn run(args: &Args, json: bool) -> anyhow::Result<Exit> {
    let mut problems = Problems::default();
    let cluster = problems.keep(objects::read(&args.files, args.kubernetes, args.swap));
    let samples = texts(&args.usage, &mut problems);
    let usage = problems.keep(audit::read(&samples)).unwrap_or_default();
    let cluster = problems.or(cluster).map_err(|problems| Exit::BadInput.because(problems))?.unwrap_or_default();
    let found =
        audit::audit(&cluster.nodes, &cluster.pods, &usage).map_err(|problems| Exit::BadInput.because(problems.join("\n")))?;
    if json {
        print_json(&found)?;
    } else {
        print(show::text(&found, &cluster))?;
    }
    Ok(match (found.informative(), found.harmful()) {
        (false, _) => Exit::Uninformative,
        (true, true) => Exit::Failed,
        (true, false) => Exit::AsExpected,
    })
}
