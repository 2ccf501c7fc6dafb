//! Highwater: a reproducible lab simulator for memory pressure on Kubernetes nodes.
//!
//! Data goes one way: `read → plan → provision → apply → drive → record → study → report`. Each stage writes plain records into
//! the run directory, and later stages read only those. A module imports only modules that stand above it in this file
//! (`cargo xtask check` enforces it); the modules behind the feature `cli` never reach a node.

#![cfg_attr(rustfmt, rustfmt::skip)]
pub mod units;
#[cfg(feature = "cli")]
pub mod yaml;
pub mod record;
pub mod kubelet;
#[cfg(feature = "cli")]
pub mod lab;
pub mod plan;
pub mod agent;
pub mod cgroup;
pub mod ledger;
pub mod workload;
pub mod load;
pub mod sample;
pub mod guest;
#[cfg(feature = "cli")]
pub mod provider;
#[cfg(feature = "cli")]
pub mod study;
#[cfg(feature = "cli")]
pub mod report;
#[cfg(feature = "cli")]
pub mod cli;
