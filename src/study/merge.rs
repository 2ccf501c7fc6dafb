//! Runs of several seeds as one result: how they ended together, and the decision.

use super::Conclusion;
use super::decide::{Decided, Decision, Seed, decide};
use super::envelope::{Envelope, envelope};
use super::interval::CONFIDENCE;
use super::result::{ArmResult, LabResult};
use crate::lab::Lab;
use crate::record::SeedRun;
use serde::{Deserialize, Serialize};

/// What the acceptance rules say of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionResult {
    /// The decision and the rules behind it.
    pub decided: Decided,
    /// How intervals are made, with the source.
    pub method: String,
    /// Hash of the rules it was decided by, which must be the recorded one.
    pub rules_hash: String,
    /// What the decision holds for.
    pub envelope: Envelope,
    /// Fields in which the runs differ although they were compared, since the user said so.
    pub anyway: Vec<String>,
}

/// How one seed ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeedResult {
    /// The seed.
    pub seed: u64,
    /// Its run directory; none in the result of a single seed.
    pub run: Option<String>,
    /// How it ended.
    pub conclusion: Conclusion,
    /// Why.
    pub because: String,
}

/// The rules in a run of one seed, which asks for no decision.
pub(super) fn alone(lab: &Lab, arms: &[ArmResult]) -> Option<DecisionResult> {
    let seed = Seed { seed: lab.seed, arms };
    let mut found = decision(lab, &[seed], None, Vec::new())?;
    let because = "one seed has no spread: `--seeds 8` runs the arms with eight and decides".to_owned();
    found.decided = Decided { decision: Decision::NotAsked, because, ..found.decided };
    Some(found)
}

fn decision(lab: &Lab, seeds: &[Seed<'_>], void: Option<String>, anyway: Vec<String>) -> Option<DecisionResult> {
    let acceptance = lab.acceptance.as_ref()?;
    let arms = seeds.first().map_or(&[][..], |seed| seed.arms);
    Some(DecisionResult {
        decided: decide(acceptance, &lab.baseline, seeds, void),
        method: format!(
            "mean of paired differences, the same seed in both arms, with its two-sided {:.0} % interval by Student's t \
             (NIST/SEMATECH e-Handbook 7.3.1.1)",
            CONFIDENCE * 100.0
        ),
        rules_hash: acceptance.hash(&lab.baseline),
        envelope: envelope(lab, arms, seeds.iter().map(|seed| seed.seed).collect()),
        anyway,
    })
}

/// Puts the results of seeds together: the figures of the first, how all ended, and the decision. None without a seed.
#[must_use]
pub fn merge(lab: &Lab, runs: Vec<(SeedRun, LabResult)>, anyway: Vec<String>) -> Option<LabResult> {
    let worst = runs.iter().max_by_key(|(run, result)| (gravity(result.conclusion), std::cmp::Reverse(run.seed)))?;
    let conclusion = worst.1.conclusion;
    let (because, void) = match conclusion {
        Conclusion::AsExpected => (format!("{} with each of {} seeds", worst.1.because, runs.len()), None),
        _ => {
            let because = format!("seed {}: {}", worst.0.seed, worst.1.because);
            (because.clone(), Some(format!("the runs decide nothing, since one ended {conclusion}: {because}")))
        }
    };
    let seeds: Vec<Seed<'_>> = runs.iter().map(|(run, result)| Seed { seed: run.seed, arms: &result.arms }).collect();
    let decision = decision(lab, &seeds, void, anyway);
    let seed = |(run, result): &(SeedRun, LabResult)| SeedResult {
        seed: run.seed,
        run: Some(run.run.clone()),
        conclusion: result.conclusion,
        because: result.because.clone(),
    };
    let seeds = runs.iter().map(seed).collect();
    let first = runs.into_iter().next()?.1;
    Some(LabResult { conclusion, because, decision, seeds, ..first })
}

/// What voids most.
fn gravity(conclusion: Conclusion) -> u8 {
    match conclusion {
        Conclusion::AsExpected => 0,
        Conclusion::Inconclusive => 1,
        Conclusion::Uninformative => 2,
        Conclusion::Failed => 3,
    }
}
