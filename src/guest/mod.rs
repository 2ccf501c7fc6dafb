//! PID 1 of the deterministic node: executes one order and streams what happened. On a real node `observe` streams the same of what a
//! kubelet does.
//!
//! Threads, by real-time priority (one vCPU, so a higher one always runs first): the sampler, one load client per generator, and the main
//! thread, which plays script and kubelet. Workloads run at ordinary priority, so measuring is late for nobody. The main thread is one loop
//! around `ppoll`: exits of processes, their output, the kernel log, probes, and the next deadline.

mod busy;
mod error;
mod kernel_log;
mod ledger;
mod loads;
mod namespaces;
mod node;
mod observe;
mod pods;
mod probes;
mod process;
mod recorder;
mod sampling;
mod script;
mod setup;
mod tasks;
mod threads;

pub use error::GuestError;
pub use observe::{observe, tell};

use crate::record::shm::{ENV_FACTS, ENV_SHM, Region};
use crate::record::{Frame, NodeFacts, Order, SCHEMA, port};
use recorder::Recorder;
use std::path::Path;
use std::sync::Arc;

/// Runs as PID 1 and ends the machine: the script's end is [`Frame::Done`], any failure or panic [`Frame::Fault`].
pub fn run() -> std::io::Error {
    let region = std::env::var_os(ENV_SHM).ok_or(GuestError::Environment { variable: ENV_SHM });
    let region = region.and_then(|path| Region::open(Path::new(&path)).map_err(GuestError::from));
    match region.and_then(|region| Ok((region.input()?, region.output()?))) {
        Ok((input, output)) => {
            let recorder = Arc::new(Recorder::new(output));
            recorder::report_panics(&recorder);
            if let Err(error) = execute(input.order(), &recorder) {
                recorder.fault(&error.to_string());
            }
        }
        // Without the region there is nobody to tell but the console.
        Err(error) => _ = std::fs::write("/dev/console", format!("highwater-node: {error}\n")),
    }
    match port::end() {
        Err(error) => error,
        Ok(()) => std::io::Error::other("the machine went on after its end"),
    }
}

fn execute(order: &[u8], recorder: &Arc<Recorder>) -> Result<(), GuestError> {
    let facts = std::env::var(ENV_FACTS).map_err(|_| GuestError::Environment { variable: ENV_FACTS })?;
    let facts: NodeFacts =
        serde_json::from_str(&facts).map_err(|e| GuestError::Input { what: "node facts", reason: e.to_string() })?;
    let order: Order = serde_json::from_slice(order).map_err(|e| GuestError::Input { what: "order", reason: e.to_string() })?;
    if order.schema != SCHEMA {
        return Err(GuestError::Schema { found: order.schema });
    }
    threads::become_realtime(threads::MAIN)?;
    threads::never_swap()?;
    recorder.frame(&Frame::Hello {
        schema: SCHEMA,
        kernel: facts.kernel.clone(),
        page_size: rustix::param::page_size() as u64,
        mem_total: facts.mem_total,
        device_bytes: facts.device_bytes + facts.ballast_bytes,
    });
    let busy_before = busy::busy_ns()?;
    setup::prepare(&order)?;
    let mut node = node::Node::new(&order, recorder)?;
    script::play(&mut node, &order)?;
    let busy_ns = busy::busy_ns()?.saturating_sub(busy_before);
    recorder.frame(&Frame::Done { at_ns: recorder.now(), busy_ns });
    Ok(())
}
