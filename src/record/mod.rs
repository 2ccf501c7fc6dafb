//! The records of a run: what goes to the guest, what comes back, and the files of the run directory.
//!
//! Records are plain and carry a schema version. What was observed (`record`) and what is derived from it (`study`) never mix.

mod capture;
mod cgroup;
mod frame;
#[cfg(feature = "cli")]
mod live;
mod node;
mod observe;
mod order;
mod plan;
pub mod port;
#[cfg(feature = "cli")]
mod run;
#[cfg(feature = "cli")]
mod seeds;
pub mod shm;

pub use capture::{Capture, CapturedNode, CgroupMode, CgroupUsage, Levels, SwapArea, Usage};
pub use cgroup::{CgroupDriver, FileValue, LedgerEntry, LedgerSnapshot, Role};
pub use frame::{
    Change, Event, EventKind, Frame, Metric, Outcome, ReadError, Report, Request, Tick, Watch, decode_frames, encode_frame,
};
#[cfg(feature = "cli")]
pub use live::{Follow, Growing, LiveArm, Writing};
pub use node::{DeviceFacts, DeviceRole, NodeFacts};
pub use observe::{Tell, Told};
pub use order::{
    Action, Arrival, CgroupOrder, ContainerKind, ContainerOrder, ControlWrite, DISK, LoadOrder, Order, PhaseEnd, PhaseOrder,
    PodOrder, Probe, ProbeKind, RestartPolicy, Sampling, Setting, SwapOn, Volume,
};
pub use plan::{Plan, PlannedCgroup, PlannedFile, Rule};
#[cfg(feature = "cli")]
pub use run::{BootedNode, Ending, NodeRecord, RunDir, RunError, frames};
#[cfg(feature = "cli")]
pub use seeds::{SEED, SEEDS, SeedRun, Seeds};

/// Version of every record type of this module. A reader refuses records of another version.
pub const SCHEMA: u32 = 1;
