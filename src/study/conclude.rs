//! How a run ended: expectations together, the precondition first.

use super::claims::claims;
use super::expect::judge;
use super::merge::{SeedResult, alone};
use super::result::{ArmResult, ExpectationResult, LabResult, Standing, SweepResult};
use super::sweep::sweep;
use crate::lab::Lab;
use crate::ledger::Verdict;
use crate::record::SCHEMA;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Conclusion {
    /// Every expectation was met.
    AsExpected,
    /// An expectation was not met, or the control files are not what the kubelet writes.
    Failed,
    /// The pressure the lab is about never occurred.
    Uninformative,
    /// A figure is missing, or the arms that would decide were not run.
    Inconclusive,
}

impl fmt::Display for Conclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Conclusion::AsExpected => "AS EXPECTED",
            Conclusion::Failed => "FAILED",
            Conclusion::Uninformative => "UNINFORMATIVE",
            Conclusion::Inconclusive => "INCONCLUSIVE",
        })
    }
}

/// Judges a run from its arms.
#[must_use]
pub fn conclude(lab: &Lab, arms: Vec<ArmResult>) -> LabResult {
    let expectations: Vec<_> = lab.expectations.iter().map(|e| judge(e, &arms)).collect();
    let sweep = sweep(lab, &arms);
    let (conclusion, because) = match &sweep {
        Some(sweep) => swept(sweep, judged(&expectations, &arms)),
        None => judged(&expectations, &arms),
    };
    LabResult {
        schema: SCHEMA,
        lab: lab.name.clone(),
        comparability_key: lab.key.clone(),
        conclusion,
        because: because.clone(),
        decision: alone(lab, &arms),
        seeds: vec![SeedResult { seed: lab.seed, run: None, conclusion, because }],
        claims: claims(lab, &arms),
        expectations,
        arms,
        sweep,
    }
}

/// A swept lab expects nothing but to find its crossing point; controls that drifted void it all the same.
fn swept(sweep: &SweepResult, judged: (Conclusion, String)) -> (Conclusion, String) {
    match (judged.0, sweep.crossed) {
        (Conclusion::Failed, _) => judged,
        (_, true) => (Conclusion::AsExpected, sweep.sentence.clone()),
        (_, false) => (Conclusion::Inconclusive, sweep.sentence.clone()),
    }
}

fn judged(expectations: &[ExpectationResult], arms: &[ArmResult]) -> (Conclusion, String) {
    let drifted = arms.iter().flat_map(|arm| arm.phases.iter().map(move |p| (arm, p))).find_map(|(arm, phase)| {
        let evidence = &phase.ledger.as_ref()?.evidence;
        let drift = evidence.drifts.first()?;
        let Verdict::Drifted = evidence.verdict else { return None };
        Some(format!(
            "arm {}, phase {}: {}/{} says {} and not {}",
            arm.name, phase.name, drift.role, drift.file, drift.found, drift.planned
        ))
    });
    if let Some(because) = drifted {
        return (Conclusion::Failed, because);
    }
    let with = |standing: Standing| expectations.iter().find(move |e| e.standing == standing);
    let precondition = |e: &&ExpectationResult| e.precondition && !matches!(e.standing, Standing::Met | Standing::NotRun);
    if let Some(e) = expectations.iter().find(precondition) {
        let because = format!("the pressure this lab is about did not occur: {} ({}, wanted {})", e.say, e.measured, e.bound);
        return (Conclusion::Uninformative, because);
    }
    if let Some(e) = with(Standing::NotMet) {
        return (Conclusion::Failed, format!("{}: {} is {}, wanted {}", e.id, e.figure, e.measured, e.bound));
    }
    if let Some(e) = with(Standing::Indistinct) {
        let because = format!("{}: it holds in arm {} as well ({}), where it must be false", e.id, e.false_in, e.measured_there);
        return (Conclusion::Failed, because);
    }
    if let Some(e) = with(Standing::Undecided) {
        return (
            Conclusion::Inconclusive,
            format!("{}: {} is {}; in arm {} {}", e.id, e.figure, e.measured, e.false_in, e.measured_there),
        );
    }
    if let Some(e) = with(Standing::NotRun) {
        return (Conclusion::Inconclusive, format!("{} needs arms that were not run", e.id));
    }
    (Conclusion::AsExpected, format!("all {} expectations are met", expectations.len()))
}

#[cfg(test)]
mod tests {
    use super::super::{Records, study_arm};
    use super::*;
    use crate::lab::{self, Arm};
    use crate::record::{
        Change, Event, EventKind, FileValue, Frame, LedgerEntry, LedgerSnapshot, Metric, Outcome, Plan, PlannedCgroup,
        PlannedFile, Request, Role, Rule, Tick, Watch,
    };
    use std::convert::Infallible;

    const S: u64 = 1_000_000_000;

    /// What an arm of swap/cpu-inference might have recorded.
    struct Story {
        latency_ms: u64,
        faults: i64,
        swapped: i64,
        killed: bool,
        limit: &'static str,
    }

    const CALM: Story = Story { latency_ms: 10, faults: 0, swapped: 0, killed: false, limit: "4096" };
    const SWAPPED: Story = Story { latency_ms: 80, faults: 50_000, swapped: 24 << 20, killed: false, limit: "4096" };
    const KILLED: Story = Story { latency_ms: 10, faults: 0, swapped: 0, killed: true, limit: "4096" };

    fn plan() -> Plan {
        let rule = Rule { formula: "limit".into(), inputs: vec![], source: "test".into() };
        let file = PlannedFile { file: "memory.max".into(), value: "4096".into(), rule };
        Plan {
            schema: SCHEMA,
            kubernetes: "1.29".into(),
            cgroup_driver: Default::default(),
            node_memory: 1,
            node_swap: 1,
            page_size: 4096,
            allocatable: 1,
            cgroups: vec![PlannedCgroup { role: Role::Kubepods, path: "/k".into(), files: vec![file], oom_score_adj: None }],
            warnings: vec![],
            stepped: Default::default(),
            fresh: Default::default(),
            refused: Default::default(),
        }
    }

    fn study(arm: &Arm, story: &Story) -> ArmResult {
        let (pod, container) = ("server".to_owned(), "server".to_owned());
        let mut events = Vec::new();
        let mut event = |s: u64, kind| events.push(Event { at_ns: s * S, kind });
        event(0, EventKind::PhaseStarted { phase: "start".into() });
        event(0, EventKind::ContainerStarted { pod: pod.clone(), container: container.clone(), attempt: 0, cgroup: "/c".into() });
        if story.killed {
            let (code, signal, memory_peak) = (None, Some(9), None);
            event(0, EventKind::ContainerExited { pod, container, attempt: 0, code, signal, oom_killed: true, memory_peak });
        }
        event(1, EventKind::PhaseEnded { phase: "start".into(), deadline: false });
        event(1, EventKind::PhaseStarted { phase: "serve".into() });
        event(30, EventKind::PhaseEnded { phase: "serve".into(), deadline: false });
        let role = Role::Pod { pod: "server".into() };
        let watch = Watch { id: 0, role, cgroup: "/p".into(), attempt: 0, unsupported: vec![] };
        let change = |metric, delta| Change { watch: 0, metric, delta };
        let changes = vec![change(Metric::StatPgmajfault, story.faults), change(Metric::MemorySwapCurrent, story.swapped)];
        let tick = Frame::Tick(Tick { at_ns: 10 * S, changes });
        let samples = [Frame::Watch(watch), tick, Frame::Done { at_ns: 30 * S, busy_ns: S }];
        let request = |i: u64| Request {
            load: "chat".into(),
            phase: "serve".into(),
            seq: i as u32,
            scheduled_ns: (i + 1) * S,
            sent_ns: Some((i + 1) * S),
            first_token_ns: None,
            done_ns: (i + 1) * S + story.latency_ms * 1_000_000,
            outcome: if story.killed { Outcome::Refused } else { Outcome::Ok },
            tokens: 0,
            gaps_ns: vec![],
        };
        let files = [("memory.max".to_owned(), FileValue::Text(story.limit.into()))].into();
        let entries = vec![LedgerEntry { role: Role::Kubepods, path: "/k".into(), files }];
        let ledgers = [LedgerSnapshot { at_ns: 30 * S, phase: "serve".into(), entries }];
        let requests = (0..24).map(request).map(Ok::<_, Infallible>);
        let samples = samples.into_iter().map(Ok);
        let (plan, reports) = (plan(), []);
        let records =
            Records { plan: &plan, events: &events, samples, requests, reports: &reports, swap_device: None, ledgers: &ledgers };
        study_arm(arm, records).unwrap()
    }

    fn conclusion(stories: [&Story; 3]) -> LabResult {
        let lab = lab::load(&lab::find("swap/cpu-inference").unwrap()).unwrap();
        let arms = lab.arms.iter().zip(stories).map(|(arm, story)| study(arm, story)).collect();
        conclude(&lab, arms)
    }

    #[test]
    fn a_run_that_shows_the_mechanism_is_as_expected() {
        let result = conclusion([&CALM, &SWAPPED, &KILLED]);
        assert_eq!(result.conclusion, Conclusion::AsExpected, "{}", result.because);
        let slower = result.expectations.iter().find(|e| e.id == "slower").unwrap();
        let margin = slower.margin.unwrap();
        assert!((3.99..4.01).contains(&margin), "8 times as slow is 4 times the bound of 2: {margin}");
        assert!(slower.measured.starts_with("8.0"), "{}", slower.measured);
        let json = serde_json::to_string(&result).unwrap();
        assert_eq!(serde_json::from_str::<LabResult>(&json).unwrap(), result, "a result can be read back");
    }

    #[test]
    fn without_the_pressure_it_is_uninformative_and_nothing_else() {
        let calm = Story { faults: 3, ..SWAPPED };
        assert_eq!(conclusion([&CALM, &calm, &KILLED]).conclusion, Conclusion::Uninformative);
    }

    #[test]
    fn a_precondition_that_holds_without_pressure_as_well_shows_nothing() {
        let noisy = Story { faults: 50_000, ..CALM };
        assert_eq!(conclusion([&noisy, &SWAPPED, &KILLED]).conclusion, Conclusion::Uninformative);
    }

    #[test]
    fn a_missed_bound_and_an_indistinct_one_fail() {
        let quick = Story { latency_ms: 15, ..SWAPPED };
        let result = conclusion([&CALM, &quick, &KILLED]);
        assert_eq!(result.conclusion, Conclusion::Failed);
        assert!(result.because.starts_with("slower: latency.p50 in serve, arm unlimited-swap is 1.50 x"), "{}", result.because);
        let killed_too = Story { killed: true, ..SWAPPED };
        assert_eq!(conclusion([&CALM, &killed_too, &KILLED]).conclusion, Conclusion::Failed);
    }

    #[test]
    fn a_control_that_drifted_fails_whatever_the_outcomes() {
        let drifted = Story { limit: "8192", ..SWAPPED };
        let result = conclusion([&CALM, &drifted, &KILLED]);
        assert_eq!(result.conclusion, Conclusion::Failed);
        assert!(result.because.contains("memory.max says 8192 and not 4096"), "{}", result.because);
    }

    #[test]
    fn arms_that_were_not_run_leave_it_inconclusive() {
        let lab = lab::load(&lab::find("swap/cpu-inference").unwrap()).unwrap();
        let result = conclude(&lab, vec![study(&lab.arms[0], &CALM)]);
        assert_eq!(result.conclusion, Conclusion::Inconclusive);
        assert!(result.expectations.iter().all(|e| e.standing == Standing::NotRun));
    }

    #[test]
    fn entitlements_of_the_source_are_computed_by_the_kubelet_s_rule() {
        let lab = lab::load(&lab::find("swap/limited-entitlement").unwrap()).unwrap();
        let result = conclude(&lab, vec![]);
        let here: Vec<_> = result.claims.iter().filter_map(|c| c.here.as_deref()).collect();
        assert!(here[0].starts_with("33554432 bytes, that is 32Mi"), "{here:?}");
        assert!(here[1].starts_with("4026531840 bytes, that is 3.75 GiB"), "{here:?}");
    }
}
