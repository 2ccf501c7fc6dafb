//! Decisions are about figures and bounds and nothing else: they flip with the rules, and no name, order or seed number moves them.

use highwater::lab::{Acceptance, MetricRef, find, load};
use highwater::record::SeedRun;
use highwater::study::{
    ArmResult, Conclusion, Decided, Decision, Distribution, Holds, LabResult, LifeResult, LoadResult, PhaseResult, Seed,
    conclude, decide, merge,
};
use proptest::prelude::*;

/// Arms of a seed by name, each with its median latency in milliseconds and its kills.
type Figures<'a> = Vec<(&'a str, f64, u64)>;

fn arm(name: &str, latency_ms: f64, kills: u64) -> ArmResult {
    let latency = Distribution { count: 100, p50: Some((latency_ms * 1e6) as u64), ..Distribution::default() };
    let load = LoadResult { due: 100, outcomes: [("ok".to_owned(), 100)].into(), latency, ..LoadResult::default() };
    let whole = PhaseResult {
        name: String::new(),
        start_ns: 0,
        end_ns: 10_000_000_000,
        deadline: false,
        loads: vec![load],
        cgroups: vec![],
        lives: vec![LifeResult { pod: "p".into(), oom_kills: kills, ..LifeResult::default() }],
        reports: vec![],
        ledger: None,
    };
    ArmResult {
        name: name.to_owned(),
        kernel: String::new(),
        end_ns: whole.end_ns,
        busy_ns: 1,
        phases: vec![],
        whole,
        kills: vec![],
        swap_device: None,
        refused: vec![],
        alerts: vec![],
    }
}

fn acceptance(prefer: &[&str], rules: &[(&str, &str)]) -> Acceptance {
    let rules: Vec<_> = rules
        .iter()
        .enumerate()
        .map(|(i, (metric, is))| {
            let is: serde_json::Value = serde_json::from_str(is).expect("JSON");
            serde_json::json!({"id": format!("rule-{i}"), "say": "s", "metric": {"name": metric}, "is": is})
        })
        .collect();
    serde_json::from_value(serde_json::json!({"prefer": prefer, "rules": rules})).expect("rules")
}

fn decided(acceptance: &Acceptance, seeds: &[Figures<'_>]) -> Decided {
    let arms: Vec<Vec<ArmResult>> =
        seeds.iter().map(|seed| seed.iter().map(|(name, latency, kills)| arm(name, *latency, *kills)).collect()).collect();
    let seeds: Vec<_> = (1..).zip(&arms).map(|(seed, arms)| Seed { seed, arms }).collect();
    decide(acceptance, "base", &seeds, None)
}

fn faster(times: f64) -> String {
    format!(r#"{{"ratioTo": {{"arm": "base", "atMost": {times}}}}}"#)
}

fn slower(times: f64) -> String {
    format!(r#"{{"ratioTo": {{"arm": "base", "atLeast": {times}}}}}"#)
}

/// Four seeds that move every arm alike: what pairs take out.
fn quiet(small: f64, large: f64) -> Vec<Figures<'static>> {
    let seed = |load: f64| vec![("base", 10.0 * load, 0), ("small", small * load, 0), ("large", large * load, 0)];
    [1.0, 1.5, 2.0, 1.2].into_iter().map(seed).collect()
}

const PREFER: [&str; 2] = ["small", "large"];

#[test]
fn the_smallest_policy_that_passes_is_enabled_and_the_rule_that_stopped_the_smaller_one_is_named() {
    let rules = |times| acceptance(&PREFER, &[("latency.p50", &faster(times)), ("oomKills", r#"{"equals": "0"}"#)]);
    assert_eq!(decided(&rules(0.9), &quiet(5.0, 2.0)).decision, Decision::Enable("small".into()));
    let larger = decided(&rules(0.4), &quiet(5.0, 2.0));
    assert_eq!(larger.decision, Decision::Enable("large".into()));
    assert!(larger.because.contains("small breaks rule-0"), "{}", larger.because);
    assert_eq!(larger.decided_by, ["rule-0"]);
    let none = decided(&rules(0.1), &quiet(5.0, 2.0));
    assert_eq!(none.decision, Decision::KeepDefaults);
    assert!(none.because.contains("small breaks") && none.because.contains("large breaks"), "{}", none.because);
}

#[test]
fn one_seed_and_an_interval_that_straddles_the_bound_decide_nothing() {
    let rules = acceptance(&PREFER, &[("latency.p50", &faster(0.9))]);
    let seeds = quiet(5.0, 2.0);
    assert_eq!(decided(&rules, &seeds[..1]).decision, Decision::Inconclusive);
    assert_eq!(decided(&rules, &[]).decision, Decision::Inconclusive);
    // Twice as fast at one seed, slower at the next.
    let mut torn = seeds.clone();
    torn.iter_mut().step_by(2).for_each(|seed| seed[1].1 *= 3.0);
    let found = decided(&rules, &torn);
    assert_eq!(found.decision, Decision::Inconclusive, "{}", found.because);
    assert!(found.because.contains("the interval straddles the bound"), "{}", found.because);
    // The larger policy passes, but whether it is the smallest is not known.
    assert!(found.rules.iter().filter(|rule| rule.arm == "large").all(|rule| rule.holds == Holds::Yes));
    assert_eq!(found.decided_by, ["rule-0"]);
}

#[test]
fn what_must_be_exact_must_be_so_with_every_seed() {
    let rules = acceptance(&PREFER, &[("oomKills", r#"{"equals": "0"}"#)]);
    let mut seeds = quiet(5.0, 5.0);
    seeds[3][1].2 = 1;
    assert_eq!(decided(&rules, &seeds).decision, Decision::Enable("large".into()));
}

#[test]
fn a_figure_that_is_not_there_and_an_arm_that_was_not_run_decide_nothing() {
    let missing = acceptance(&PREFER, &[("ttft.p50", &faster(0.9))]);
    assert_eq!(decided(&missing, &quiet(5.0, 2.0)).decision, Decision::Inconclusive);
    let rules = acceptance(&["other"], &[("latency.p50", &faster(0.9))]);
    let found = decided(&rules, &quiet(5.0, 2.0));
    assert_eq!(found.decision, Decision::Inconclusive);
    assert!(found.because.contains("arm other was not run with seed 1"), "{}", found.because);
}

#[test]
fn runs_that_are_void_decide_nothing_whatever_they_show() {
    let rules = acceptance(&PREFER, &[("latency.p50", &faster(0.9))]);
    let arms: Vec<_> = ["base", "small", "large"].iter().map(|name| arm(name, 1.0, 0)).collect();
    let seeds: Vec<_> = (1..3).map(|seed| Seed { seed, arms: &arms }).collect();
    let found = decide(&rules, "base", &seeds, Some("no pressure".into()));
    assert_eq!((found.decision, found.because.as_str()), (Decision::Inconclusive, "no pressure"));
}

/// Any figures, of 2 to 9 seeds.
fn runs() -> impl Strategy<Value = Vec<[f64; 3]>> {
    prop::collection::vec([1.0f64..100.0, 1.0f64..100.0, 1.0f64..100.0], 2..10)
}

fn named<'a>(runs: &[[f64; 3]], names: [&'a str; 3]) -> Vec<Figures<'a>> {
    runs.iter().map(|seed| names.iter().zip(seed).map(|(name, latency)| (*name, *latency, 0)).collect()).collect()
}

proptest! {
    #[test]
    fn the_decision_turns_with_the_rule(runs in runs(), times in 0.2f64..3.0) {
        let seeds = named(&runs, ["base", "small", "large"]);
        let of = |is: &str| decided(&acceptance(&["small"], &[("latency.p50", is)]), &seeds).decision;
        match of(&faster(times)) {
            Decision::Enable(_) => prop_assert_eq!(of(&slower(times)), Decision::KeepDefaults),
            Decision::KeepDefaults => prop_assert_eq!(of(&slower(times)), Decision::Enable("small".into())),
            other => prop_assert_eq!(of(&slower(times)), other),
        }
    }

    #[test]
    fn names_do_not_count(runs in runs(), times in 0.2f64..3.0) {
        let plain = decided(&acceptance(&PREFER, &[("latency.p50", &faster(times))]), &named(&runs, ["base", "small", "large"]));
        // The baseline keeps its name here: it is what `decide` is told.
        let names = ["base", "zebra", "ant"];
        let renamed = decided(&acceptance(&names[1..], &[("latency.p50", &faster(times))]), &named(&runs, names));
        let back = match renamed.decision {
            Decision::Enable(arm) if arm == "zebra" => Decision::Enable("small".into()),
            Decision::Enable(_) => Decision::Enable("large".into()),
            other => other,
        };
        prop_assert_eq!(plain.decision, back);
        for (one, other) in plain.rules.iter().zip(&renamed.rules) {
            prop_assert_eq!((one.holds, one.difference), (other.holds, other.difference));
        }
    }

    #[test]
    fn the_order_of_arms_rules_and_seeds_does_not_count(runs in runs(), times in 0.2f64..3.0, more in 0.2f64..3.0) {
        let rules = [("latency.p50", faster(times)), ("latency.p50", slower(more))];
        let of = |rules: &[(&str, String)], seeds: &[Figures<'_>]| {
            let rules: Vec<_> = rules.iter().map(|(metric, is)| (*metric, is.as_str())).collect();
            decided(&acceptance(&PREFER, &rules), seeds).decision
        };
        let seeds = named(&runs, ["base", "small", "large"]);
        let plain = of(&rules, &seeds);
        let mut turned = seeds.clone();
        turned.iter_mut().for_each(|seed| seed.reverse());
        prop_assert_eq!(&of(&rules, &turned), &plain);
        let back: Vec<_> = rules.iter().rev().cloned().collect();
        prop_assert_eq!(&of(&back, &seeds), &plain);
        turned.reverse();
        prop_assert_eq!(&of(&rules, &turned), &plain);
    }

    /// A wider bound never stops a policy that passed.
    #[test]
    fn a_wider_bound_accepts_no_less(runs in runs(), times in 0.2f64..3.0, wider in 1.0f64..3.0) {
        let seeds = named(&runs, ["base", "small", "large"]);
        let of = |times: f64| decided(&acceptance(&["small"], &[("latency.p50", &faster(times))]), &seeds).rules[0].beyond[0].mean;
        prop_assert!(of(times * wider) <= of(times));
    }
}

/// Every seed of a run counts for how it ended, and one that shows nothing voids the decision.
#[test]
fn the_worst_seed_is_how_the_run_ended() {
    let lab = load(&find("memory-qos/policies").expect("it is in the catalogue")).expect("it is good");
    let run = |seed, conclusion| {
        let result = LabResult { conclusion, because: format!("so {seed}"), ..conclude(&lab, vec![]) };
        (SeedRun { seed, run: format!("seed-{seed}") }, result)
    };
    let good = || vec![run(1, Conclusion::AsExpected), run(2, Conclusion::AsExpected)];
    let found = merge(&lab, good(), vec![]).expect("it has seeds");
    assert_eq!((found.conclusion, found.because.as_str()), (Conclusion::AsExpected, "so 1 with each of 2 seeds"));
    let because = |found: LabResult| found.decision.expect("the lab has rules").decided.because;
    assert!(because(found).contains("arm throttling was not run"), "the rules are asked");
    for worst in [Conclusion::Failed, Conclusion::Uninformative, Conclusion::Inconclusive] {
        let runs = good().into_iter().chain([run(3, worst), run(4, worst)]).collect();
        let found = merge(&lab, runs, vec!["qemu".into()]).expect("it has seeds");
        assert_eq!((found.conclusion, found.because.as_str(), found.seeds.len()), (worst, "seed 3: so 3", 4));
        let decision = found.decision.expect("the lab has rules");
        assert_eq!((decision.decided.decision, decision.anyway), (Decision::Inconclusive, vec!["qemu".to_owned()]));
        assert!(decision.decided.because.contains("seed 3: so 3"));
        assert_eq!(decision.envelope.seeds, [1, 2, 3, 4]);
    }
    assert_eq!(merge(&lab, vec![], vec![]), None);
    // One seed asks for no decision.
    assert_eq!(conclude(&lab, vec![]).decision.expect("the lab has rules").decided.decision, Decision::NotAsked);
}

#[test]
fn a_rule_that_is_changed_after_the_run_has_another_hash() {
    let one = acceptance(&PREFER, &[("latency.p50", &faster(0.9))]);
    let hash = one.hash("base");
    assert_eq!(hash, acceptance(&PREFER, &[("latency.p50", &faster(0.9))]).hash("base"));
    let metric: MetricRef = serde_json::from_value(serde_json::json!({"name": "latency.p90"})).expect("a figure");
    let mut other = one.clone();
    other.rules[0].metric = metric;
    for changed in [
        acceptance(&PREFER, &[("latency.p50", &faster(0.91))]),
        acceptance(&["large", "small"], &[("latency.p50", &faster(0.9))]),
        other,
    ] {
        assert_ne!(changed.hash("base"), hash);
    }
    assert_ne!(one.hash("other"), hash);
}
