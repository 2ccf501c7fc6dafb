//! What a person reads: terminal tables and the self-contained HTML report.

mod alerts;
mod answers;
mod chart;
mod decision;
mod events;
pub mod export;
mod figures;
mod framework;
mod headline;
mod layers;
mod lesson;
mod memory;
mod page;
mod plain;
mod prometheus;
mod spread;
mod terminal;
mod tree;
mod words;

pub use events::sentence;
pub use framework::{FrameworkRun, framework_html, headline as framework_headline};
pub use lesson::{Choice, Told, told};
pub use page::html;
pub use plain::{plain, shortened, xml};
pub use prometheus::{rules, unit_test};
pub use terminal::terminal;

use crate::lab::Lab;
use crate::record::{Event, LedgerSnapshot, NodeRecord, Plan, Report};
use crate::study::{Answer, Curves, LabResult};

/// All that a page shows.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The lab.
    pub lab: &'a Lab,
    /// Its figures.
    pub result: &'a LabResult,
    /// Substrate and node.
    pub node: &'a NodeRecord,
    /// What was recorded of each arm.
    pub arms: &'a [ArmRecords],
}

/// What pages show of an arm beside its figures.
#[derive(Debug)]
pub struct ArmRecords {
    /// The arm.
    pub name: String,
    /// What the kubelet writes.
    pub plan: Plan,
    /// Curves of its pods.
    pub curves: Curves,
    /// Controls at the ends of its phases.
    pub ledgers: Vec<LedgerSnapshot>,
    /// What happened.
    pub events: Vec<Event>,
    /// What workloads reported of themselves.
    pub reports: Vec<Report>,
    /// Its requests as points.
    pub answers: Vec<Answer>,
}

impl Subject<'_> {
    fn arm(&self, name: &str) -> Option<&ArmRecords> {
        self.arms.iter().find(|arm| arm.name == name)
    }
}
