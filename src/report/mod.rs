//! What a person reads: terminal tables and the self-contained HTML report.

mod alerts;
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
use crate::study::{Curves, LabResult};

/// All that a page shows.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The lab.
    pub lab: &'a Lab,
    /// Its figures.
    pub result: &'a LabResult,
    /// Substrate and node.
    pub node: &'a NodeRecord,
    /// Curves by arm.
    pub curves: &'a [(String, Curves)],
    /// Plans by arm.
    pub plans: &'a [(String, Plan)],
    /// Snapshots by arm.
    pub ledgers: &'a [(String, Vec<LedgerSnapshot>)],
    /// Events by arm.
    pub events: &'a [(String, Vec<Event>)],
    /// What workloads reported of themselves, by arm.
    pub reports: &'a [(String, Vec<Report>)],
}
