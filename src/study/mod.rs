//! Statistics over the records of a run: percentiles, comparison of arms, expectations, decision.
//!
//! Records come in as streams and are read once; nothing here reads a file or a clock, so an old run can be studied again by newer code.

mod alerts;
mod answers;
mod arm;
pub mod audit;
mod claims;
mod conclude;
mod curves;
mod decide;
mod envelope;
mod expect;
mod figure;
mod framework;
mod interval;
pub mod inventory;
mod life;
mod memory;
mod merge;
mod reports;
mod requests;
mod result;
mod samples;
mod scrape;
mod sweep;
mod window;

pub use alerts::{Container as ContainerSwap, RATE_WINDOW, Series, Telemetry, evaluate, telemetry, threshold};
pub use answers::{Answer, answers};
pub use arm::{Records, study_arm};
pub use conclude::{Conclusion, conclude};
pub use curves::{BUCKETS, Curve, Curves, curves};
pub use decide::{Decided, Decision, RuleResult, Seed, decide};
pub use envelope::Envelope;
pub use expect::bound;
pub use figure::{Figure, figure, say};
pub use framework::{FRAMEWORK, LabVerdict, LineVerdict, Says, framework};
pub use interval::{CONFIDENCE, Interval, interval};
pub use life::alive;
pub use memory::{Levels, Reading};
pub use merge::{DecisionResult, SeedResult, merge};
pub use result::{
    AlertResult, ArmResult, CgroupResult, ClaimResult, Distribution, ExpectationResult, Firing, Holds, Kill, LabResult,
    LedgerResult, LifeResult, LoadResult, PhaseResult, ReportResult, Standing, SweepPoint, SweepResult,
};
pub use scrape::{Scrape, Stood, scrape};
