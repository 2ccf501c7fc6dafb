//! What a study finds: plain figures, in the units of the records, ready to be written as `result.json`.

use super::{Conclusion, DecisionResult, SeedResult};
use crate::ledger::Evidence;
use crate::record::{DeviceFacts, Metric, Role};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A studied run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabResult {
    /// Record schema.
    pub schema: u32,
    /// The lab.
    pub lab: String,
    /// Hash of what arms share: results with equal keys may be compared.
    pub comparability_key: String,
    /// How the run ended.
    pub conclusion: Conclusion,
    /// Why, in one sentence.
    pub because: String,
    /// The arms that were run, in the lab's order.
    pub arms: Vec<ArmResult>,
    /// Each expectation.
    pub expectations: Vec<ExpectationResult>,
    /// What the acceptance rules say, when the lab has any.
    pub decision: Option<DecisionResult>,
    /// The seeds, and how each ended. The figures of the arms are those of the first.
    pub seeds: Vec<SeedResult>,
    /// What the source claims, beside what was measured. Decides nothing.
    pub claims: Vec<ClaimResult>,
    /// The sweep, in a swept lab.
    pub sweep: Option<SweepResult>,
}

/// A sweep over one field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SweepResult {
    /// The field.
    pub set: String,
    /// The figure at each value, in the sweep's order.
    pub points: Vec<SweepPoint>,
    /// The arm that stays.
    pub against: String,
    /// Its figure, in words.
    pub against_text: String,
    /// Whether a crossing point was found.
    pub crossed: bool,
    /// Where it lies, or why there is none.
    pub sentence: String,
}

/// A value and its figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SweepPoint {
    /// The value.
    pub value: String,
    /// The figure in its unit; none where it is absent.
    pub figure: Option<f64>,
    /// The figure, in words.
    pub text: String,
}

/// One arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArmResult {
    /// Its name.
    pub name: String,
    /// `uname -r` of the node.
    pub kernel: String,
    /// Virtual nanoseconds from the start of the script to its end.
    pub end_ns: u64,
    /// Busy virtual nanoseconds: the arm's cost.
    pub busy_ns: u64,
    /// The phases, in order.
    pub phases: Vec<PhaseResult>,
    /// The whole script, as one phase.
    pub whole: PhaseResult,
    /// Containers the OOM killer ended, in order.
    pub kills: Vec<Kill>,
    /// The first swap device as it was measured; none without swap.
    pub swap_device: Option<DeviceFacts>,
    /// Control files the kernel refused to take, as sentences.
    pub refused: Vec<String>,
    /// The lab's alerts on this arm's samples, in the lab's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alerts: Vec<AlertResult>,
}

/// An alert on an arm's samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AlertResult {
    /// The alert.
    pub name: String,
    /// When it fired, by beginning.
    pub firings: Vec<Firing>,
    /// The shortest time from firing to the OOM kill it preceded, in virtual nanoseconds; none when it preceded none.
    pub lead_ns: Option<u64>,
    /// OOM kills it did not precede.
    pub missed: u64,
}

/// A stretch in which an alert fired, from evaluation to evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Firing {
    /// The series it fired for: its number among the alert's series in the telemetry.
    pub series: usize,
    /// What that is: pod/container and which start, or node.
    pub of: String,
    /// Virtual nanoseconds since the arm began, of the first evaluation at which it fired.
    pub from_ns: u64,
    /// The same of the last one.
    pub to_ns: u64,
}

/// A stretch of the script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PhaseResult {
    /// Its name; empty for the whole script.
    pub name: String,
    /// Virtual nanoseconds since the arm began.
    pub start_ns: u64,
    /// Virtual nanoseconds since the arm began.
    pub end_ns: u64,
    /// True when its deadline ended it.
    pub deadline: bool,
    /// Requests by load; the one without a name is all of them.
    pub loads: Vec<LoadResult>,
    /// Memory by cgroup.
    pub cgroups: Vec<CgroupResult>,
    /// Lives by container; the ones without a container are whole pods.
    pub lives: Vec<LifeResult>,
    /// What workloads reported of themselves, by pod.
    pub reports: Vec<ReportResult>,
    /// The control files at its end; none for the whole script.
    pub ledger: Option<LedgerResult>,
}

/// Requests of a load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadResult {
    /// The load; none for all.
    pub load: Option<String>,
    /// Requests that were due.
    pub due: u64,
    /// Requests by outcome: ok, refused, reset, timeout, unfinished, or `status NNN`.
    pub outcomes: BTreeMap<String, u64>,
    /// Tokens received.
    pub tokens: u64,
    /// Requests served within their objective; none without objective.
    pub good: Option<u64>,
    /// Latency of served requests from the scheduled time, in nanoseconds.
    pub latency: Distribution,
    /// Latency of served requests from the send.
    pub service: Distribution,
    /// Time to the first token from the scheduled time.
    pub ttft: Distribution,
    /// Mean time per token after the first.
    pub tpot: Distribution,
}

/// A distribution in nanoseconds. A percentile is absent with fewer than ten samples beyond it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Distribution {
    /// Samples.
    pub count: u64,
    /// Smallest.
    pub min: Option<u64>,
    /// Median.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// Largest.
    pub max: Option<u64>,
}

/// What the workload of a pod reported of itself, by key.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportResult {
    /// The pod.
    pub pod: String,
    /// Nanoseconds between the reports that growth is counted between.
    pub span_ns: u64,
    /// The latest values.
    pub last: BTreeMap<String, f64>,
    /// By how much they grew.
    pub grew: BTreeMap<String, f64>,
    /// The largest values.
    pub most: BTreeMap<String, f64>,
}

/// Memory of a cgroup, or of the node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CgroupResult {
    /// What the cgroup is for.
    pub role: Role,
    /// By how much counters grew, all starts of a container together.
    pub grew: BTreeMap<Metric, u64>,
    /// The largest value of each gauge.
    pub most: BTreeMap<Metric, u64>,
    /// The smallest value of each gauge.
    pub least: BTreeMap<Metric, u64>,
    /// The last value of each gauge.
    pub last: BTreeMap<Metric, u64>,
    /// What this kernel does not offer: unsupported, which is not 0.
    pub unsupported: BTreeSet<Metric>,
}

/// The life of a container, or of a pod.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LifeResult {
    /// The pod.
    pub pod: String,
    /// The container; none for the pod.
    pub container: Option<String>,
    /// Starts, the first one included.
    pub starts: u64,
    /// Starts after the first.
    pub restarts: u64,
    /// Ends.
    pub exits: u64,
    /// Ends by the OOM killer.
    pub oom_kills: u64,
    /// Nanoseconds that restarts were held back.
    pub back_off_ns: u64,
    /// Nanoseconds between the first start and the end in which it was not ready.
    pub outage_ns: u64,
    /// The largest memory.peak at an end, in bytes, where the kernel has it.
    pub memory_peak: Option<u64>,
}

/// A container that the OOM killer ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kill {
    /// When.
    pub at_ns: u64,
    /// The pod.
    pub pod: String,
    /// The container.
    pub container: String,
    /// Which start.
    pub attempt: u32,
    /// The cgroup whose limit was hit, where the kernel said so.
    pub limit_of: Option<String>,
}

/// The control files at the end of a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerResult {
    /// Compared with the plan.
    pub evidence: Evidence,
    /// `control` figures look files up here: role, then file and text.
    pub files: Vec<(Role, BTreeMap<String, String>)>,
}

/// Whether a statement holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Holds {
    /// Yes.
    Yes,
    /// No.
    No,
    /// The figure is not there.
    Unknown,
}

/// How an expectation fared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Standing {
    /// It holds where it should and not where it should not.
    Met,
    /// It does not hold.
    NotMet,
    /// It holds, but in the arm in which it should be false as well: it distinguishes nothing.
    Indistinct,
    /// A figure is not there, so nothing can be said.
    Undecided,
    /// An arm that it needs was not run.
    NotRun,
}

/// One expectation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpectationResult {
    /// Its id.
    pub id: String,
    /// The sentence.
    pub say: String,
    /// Whether it is the pressure the lab is about.
    pub precondition: bool,
    /// How it fared.
    pub standing: Standing,
    /// The figure, in words.
    pub figure: String,
    /// The bound, in words.
    pub bound: String,
    /// What was measured, in words.
    pub measured: String,
    /// Distance to the bound as a factor: 2 means twice as far as needed, below 1 means missed. None for exact statements.
    pub margin: Option<f64>,
    /// The arm in which it must be false.
    pub false_in: String,
    /// What was measured there.
    pub measured_there: String,
    /// Whether it holds there.
    pub holds_there: Holds,
}

/// A claim beside the figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimResult {
    /// What is claimed.
    pub says: String,
    /// The figure as it reached us.
    pub literal: Option<String>,
    /// The likely one.
    pub likely: Option<String>,
    /// What it was claimed for.
    pub environment: Option<String>,
    /// What this run shows, in words; none if the lab measures nothing beside it.
    pub here: Option<String>,
}

impl ArmResult {
    /// A phase by name; the whole script without one.
    #[must_use]
    pub fn phase(&self, name: Option<&str>) -> Option<&PhaseResult> {
        match name {
            None => Some(&self.whole),
            Some(name) => self.phases.iter().find(|p| p.name == name),
        }
    }
}

impl PhaseResult {
    /// Its length in nanoseconds.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// Requests of a load, or all.
    #[must_use]
    pub fn load(&self, name: Option<&str>) -> Option<&LoadResult> {
        self.loads.iter().find(|l| l.load.as_deref() == name)
    }

    /// Memory of a role.
    #[must_use]
    pub fn cgroup(&self, role: &Role) -> Option<&CgroupResult> {
        self.cgroups.iter().find(|c| c.role == *role)
    }
}

impl LoadResult {
    /// Requests that were served.
    #[must_use]
    pub fn ok(&self) -> u64 {
        self.outcomes.get("ok").copied().unwrap_or(0)
    }
}
