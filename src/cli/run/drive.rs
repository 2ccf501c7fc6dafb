//! Arms in parallel: each a fork of its node, at most so many at a time.

use super::machine_exit;
use super::progress::Progress;
use crate::cli::Exit;
use crate::lab::Arm;
use crate::provider::cache::Cache;
use crate::provider::lease::Lease;
use crate::provider::machine::ForkInput;
use crate::provider::sim::Checkpoint;
use crate::record::{Ending, Order, RunDir};
use serde::Serialize;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Wall times of an arm, in seconds.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ArmTiming {
    arm: String,
    restore_seconds: f64,
    guest_seconds: f64,
    transfer_seconds: f64,
    record_seconds: f64,
}

/// An arm to run.
#[derive(Debug, Clone, Copy)]
pub struct Fork<'a> {
    /// What it is called beside others: the arm, and its seed where there are several.
    pub name: &'a str,
    /// The arm.
    pub arm: &'a Arm,
    /// What its node is told.
    pub order: &'a Order,
    /// What it is forked from.
    pub checkpoint: &'a Checkpoint,
    /// Where its records go.
    pub run: &'a RunDir,
}

/// How often the guest's output is looked at for progress.
const LOOK: Duration = Duration::from_millis(200);

/// Runs the arms and sorts their records into the run directory.
pub fn drive(
    forks: &[Fork<'_>],
    program: &Path,
    guard: Duration,
    jobs: usize,
    cache: &Cache,
    lease: &Lease,
    progress: &Progress,
) -> anyhow::Result<Vec<ArmTiming>> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let results: Vec<Mutex<Option<anyhow::Result<ArmTiming>>>> = forks.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(forks.len()) {
            scope.spawn(|| {
                while !failed.load(Ordering::SeqCst) {
                    let index = next.fetch_add(1, Ordering::SeqCst);
                    let Some(fork) = forks.get(index) else { break };
                    let result = one(index, fork, program, guard, cache, lease, progress);
                    failed.fetch_or(result.is_err(), Ordering::SeqCst);
                    *results[index].lock().expect("no panic while held") = Some(result);
                }
            });
        }
    });
    let mut timings = Vec::new();
    for result in results {
        if let Some(result) = result.into_inner().expect("no panic while held") {
            timings.push(result?);
        }
    }
    Ok(timings)
}

fn one(
    index: usize,
    fork: &Fork<'_>,
    program: &Path,
    guard: Duration,
    cache: &Cache,
    lease: &Lease,
    progress: &Progress,
) -> anyhow::Result<ArmTiming> {
    let named = |exit: Exit, error: &dyn std::fmt::Display| exit.because(format!("arm {}: {error}", fork.name));
    let Fork { arm, order, checkpoint, run, .. } = *fork;
    let order = serde_json::to_vec(order)?;
    let (dir, held) = cache.scratch("forks", lease)?;
    let input = ForkInput { program, order: &order, dir: &dir, guard };
    progress.begin(index);
    let running = checkpoint.fork(input).map_err(|e| named(machine_exit(&e), &e))?;
    let mut phases = progress.phases(index);
    let (mut live, mut written) = (run.live(&arm.name)?, Ok(()));
    let mut look = |new: &[u8]| {
        phases.see(new);
        if written.is_ok() {
            written = live.put(new);
        }
    };
    let output = running.wait(LOOK, &mut look).map_err(|e| named(machine_exit(&e), &e))?;
    written.map_err(|e| named(Exit::Substrate, &e))?;
    let recording = Instant::now();
    let ending = run.record(&arm.name, &output.frames[..]).map_err(|e| named(Exit::Substrate, &e))?;
    match ending {
        Ending { fault: Some(message), .. } => return Err(named(Exit::Substrate, &format!("the node failed: {message}"))),
        Ending { done: None, .. } => return Err(named(Exit::Substrate, &"the node ended before the script did")),
        _ => {}
    }
    drop(held);
    progress.end(index);
    Ok(ArmTiming {
        arm: fork.name.to_owned(),
        restore_seconds: output.restore.as_secs_f64(),
        guest_seconds: output.run.as_secs_f64(),
        transfer_seconds: output.transfer.as_secs_f64(),
        record_seconds: recording.elapsed().as_secs_f64(),
    })
}
