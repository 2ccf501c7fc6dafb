//! `highwater verify`: what a snapshot says against what the kubelet writes, file by file, with the reason.

mod junit;
mod show;
mod subject;

use super::plan::options::Inputs;
use super::{Exit, print, print_json};
use crate::ledger::{Finding, Moment, Verdict, findings, overall, places};
use camino::Utf8PathBuf;
use serde::Serialize;
use subject::Subject;

const AFTER: &str = r#"A run directory is held against its own plans, a capture (`highwater capture`) against the plan of its own node, pods and configuration;
files, --kubelet and --kubernetes replace those. A ledger as JSON (one of a run, or what `highwater snapshot --json` prints) needs
the plan: --plan, or what `highwater plan` takes. A file of fixtures/ledger-real, a node's life, has its own plans too.

Each file is FULFILLED, DRIFTED or INSUFFICIENT EVIDENCE (it should be there and is not, or cannot be read). A pattern that is known has a
name and says what ends it. By default only files that are not fulfilled, or that are without effect, are printed.

Exit codes: 0 fulfilled; 1 drifted; 2 bad input; 4 insufficient evidence."#;

/// What to verify, and against what.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER)]
pub struct Args {
    /// A run directory, a capture, or a ledger as JSON.
    snapshot: Utf8PathBuf,
    /// The plan, as `highwater plan --json` prints it.
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    plan: Option<Utf8PathBuf>,
    /// Only this arm of a run.
    #[arg(long, value_name = "ARM")]
    arm: Vec<String>,
    /// Only this phase of a run [default: each arm's last].
    #[arg(long, value_name = "PHASE")]
    phase: Vec<String>,
    /// Print every file.
    #[arg(long)]
    all: bool,
    /// Write the verdicts as JUnit XML: a suite per snapshot, a case per file.
    #[arg(long, value_name = "FILE")]
    junit: Option<Utf8PathBuf>,
    #[command(flatten)]
    inputs: Inputs,
}

/// The verdict on one snapshot.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Verified {
    /// What was verified.
    name: String,
    verdict: Verdict,
    /// What keeps the whole from being proved, whatever the files say.
    doubts: Vec<String>,
    findings: Vec<Finding>,
}

/// Verifies every snapshot. The worst verdict decides how the command ends.
pub fn run(args: &Args, json: bool) -> anyhow::Result<Exit> {
    let verified: Vec<Verified> = subject::read(args)?.into_iter().map(verify).collect();
    if let Some(path) = &args.junit {
        fs_err::write(path, junit::text(&verified)).map_err(|e| Exit::BadInput.because(e))?;
    }
    if json {
        print_json(&verified)?
    } else {
        print(show::text(&verified, args.all))?
    };
    Ok(match verified.iter().map(|v| v.verdict).max() {
        Some(Verdict::Fulfilled) => Exit::AsExpected,
        Some(Verdict::Drifted) => Exit::Failed,
        Some(Verdict::InsufficientEvidence) | None => Exit::Uninformative,
    })
}

fn verify(subject: Subject) -> Verified {
    let Subject { name, plan, snapshot, alive, usage, recursive, above, doubts } = subject;
    let moment = Moment { alive: &*alive, usage: &|path| usage.get(path).copied(), recursive };
    let mut found = Vec::new();
    if let Some(plan) = &plan {
        found = findings(plan, &snapshot, &moment);
        if let Some(above) = above {
            found.extend(places(plan, &snapshot.entries, &above));
        }
    }
    let verdict = overall(&found);
    let verdict = if doubts.is_empty() { verdict } else { verdict.max(Verdict::InsufficientEvidence) };
    Verified { name, verdict, doubts, findings: found }
}
