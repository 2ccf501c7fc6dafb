//! What each provider needs and what this machine has: facts first, judged afterwards.

mod facts;
mod judge;
mod kvm;
pub mod tools;

pub use facts::{CgroupLayout, HostFacts, KernelVersion};
pub use judge::{Check, ProviderReport, State, judge, judge_docker};
pub use kvm::{KvmProbe, probe as probe_kvm};
pub use tools::ToolFacts;
