//! Compares the kubelet policy with golden vectors: what the real kubelet of a version did with a case.

mod case;
mod diff;
mod expected;
mod resize;

use anyhow::{Context, bail};
use highwater::kubelet::Version;
use serde_json::Value;

/// What comparing a file, or one line of it, gave.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Cases read.
    pub cases: usize,
    /// Values compared.
    pub values: usize,
    /// Cases that were validated with gates which an earlier case had left behind.
    pub leftover_gates: usize,
    /// One line per difference.
    pub differences: Vec<String>,
}

impl Outcome {
    fn add(&mut self, other: Outcome) {
        self.cases += other.cases;
        self.values += other.values;
        self.leftover_gates += other.leftover_gates;
        self.differences.extend(other.differences);
    }
}

/// Checks files and prints the cases, the values compared and each difference.
///
/// # Errors
/// A file that cannot be read, or a difference.
#[expect(clippy::print_stdout, reason = "the result of the task")]
pub fn run(files: &[std::path::PathBuf]) -> anyhow::Result<()> {
    let mut all = Outcome::default();
    for file in files {
        let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let outcome = check(&text).with_context(|| format!("checking {}", file.display()))?;
        outcome.differences.iter().for_each(|difference| println!("{difference}"));
        let (cases, values, found) = (outcome.cases, outcome.values, outcome.differences.len());
        let name = file.display();
        println!("{name}: {cases} cases, {values} values compared, {found} differences");
        if outcome.leftover_gates > 0 {
            println!("{name}: {} cases were validated with the gates of an earlier case", outcome.leftover_gates);
        }
        all.add(outcome);
    }
    if all.differences.is_empty() { Ok(()) } else { bail!("{} differences", all.differences.len()) }
}

/// Checks the lines of a vector file, in the format that `fixtures/vectors/README.md` describes.
pub fn check(text: &str) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let vector: Value = serde_json::from_str(line).with_context(|| format!("line {}", index + 1))?;
        let check = if vector.get("container_old").is_some() { resize::check } else { check_case };
        outcome.add(check(&vector).with_context(|| format!("line {}", index + 1))?);
    }
    if outcome.cases == 0 {
        bail!("there is no case in it");
    }
    Ok(outcome)
}

fn check_case(vector: &Value) -> anyhow::Result<Outcome> {
    let id = vector["id"].as_str().context("id is missing")?;
    let version: Version = vector["version"].as_str().context("version is missing")?.parse()?;
    let mut leftover_gates = false;
    let computed = expected::compute(version, &vector["case"], &vector["expected"], &mut leftover_gates)?;
    let mut differences = Vec::new();
    let values = diff::compare(&vector["expected"], &computed, id, &mut differences);
    Ok(Outcome { cases: 1, values, leftover_gates: usize::from(leftover_gates), differences })
}
