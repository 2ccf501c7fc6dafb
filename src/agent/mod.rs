//! The kubelet's behaviour over time as pure state machines with the clock passed in.
//!
//! A [`Pod`] is told what happened and when (virtual nanoseconds) and answers with [`Decision`]s; whoever owns it executes them and
//! reports back. Nothing here sleeps, reads a clock or touches a file, so timelines are tested as tables.
//!
//! Rules were read in Kubernetes 1.37.2. Two things of the real kubelet are left out on purpose, because they are noise and not policy:
//! the up to one second until the PLEG notices an exit (`genericPlegRelistPeriod`), and the jitter of up to half the delay that
//! `podWorkers.completeWork` adds to a back-off.

mod backoff;
mod pod;
mod probe;
#[cfg(test)]
mod timeline;

pub use backoff::BackOff;
pub use pod::{Decision, Outcome, Pod};
pub use probe::{ProbeRole, Worker};

/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000_000_000;
