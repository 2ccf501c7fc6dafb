//! Whether runs may be compared or decided together: the fields in which they differ although neither is about them.

use super::{Exit, input};
use crate::lab::{self, Lab, LabFiles};
use crate::record::{NodeRecord, RunDir, SEED};

/// Fields of the labs of two runs that differ outside of what the labs are about. Runs with equal comparability keys have none.
pub fn labs(one: &RunDir, other: &RunDir) -> anyhow::Result<Vec<String>> {
    let files = |run: &RunDir| anyhow::Ok(LabFiles::from_joined(run.file("lab.yaml").as_str(), run.read_text("lab.yaml")?));
    lab::differences(&files(one)?, &files(other)?).map_err(|problems| Exit::BadInput.because(problems))
}

/// Whether the lab's acceptance rules are other ones than a run recorded.
pub fn rules(lab: &Lab, run: &RunDir) -> anyhow::Result<Vec<String>> {
    let node: NodeRecord = run.read_json("node.json")?;
    let rules = lab.acceptance.as_ref().map(|rules| rules.hash(&lab.baseline));
    // Runs before this version recorded no hash; then nothing can be said.
    let changed = node.acceptance.is_some() && node.acceptance != rules;
    Ok(changed.then(|| "acceptance".to_owned()).into_iter().collect())
}

/// What voids a decision by this lab's rules on runs like the first: rules that are not the recorded ones, another lab, another substrate.
pub fn voids(lab: &Lab, first: &RunDir, run: &RunDir) -> anyhow::Result<Vec<String>> {
    let mut found = labs(first, run)?;
    found.extend(rules(lab, run)?);
    let (one, other): (NodeRecord, NodeRecord) = (first.read_json("node.json")?, run.read_json("node.json")?);
    // The text of the lab is compared field by field above, and the seed is what differs.
    let own = one.substrate.iter().filter(|(name, _)| name != "lab" && name != SEED);
    found.extend(
        own.filter(|(name, value)| other.substrate.iter().any(|(n, v)| n == name && v != value)).map(|(name, _)| name.clone()),
    );
    Ok(found)
}

/// Refuses to compare what differs, unless the user says so; what differed is then recorded.
pub fn allow(differing: &[String], anyway: bool) -> anyhow::Result<()> {
    if differing.is_empty() || anyway {
        return Ok(());
    }
    let message = format!(
        "these runs cannot be compared, since more than the lab's subject differs: {}; --anyway compares them and records that",
        differing.join(", ")
    );
    Err(Exit::BadInput.because(message))
}

/// The lab of a run with the seed that the run recorded.
pub fn seeded(run: &RunDir) -> anyhow::Result<Lab> {
    let lab = input::recorded(run)?;
    let node: NodeRecord = run.read_json("node.json")?;
    let seed = node.substrate.iter().find(|(name, _)| name == SEED).and_then(|(_, seed)| seed.parse().ok());
    Ok(Lab { seed: seed.unwrap_or(lab.seed), ..lab })
}
