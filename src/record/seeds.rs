//! A run with several seeds: one run directory for each, and this list of them beside the lab, in `seeds.json`.

use serde::{Deserialize, Serialize};

/// Its file's name.
pub const SEEDS: &str = "seeds.json";

/// The name under which a run's seed stands in its substrate.
pub const SEED: &str = "seed";

/// The seeds of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Seeds {
    /// Record schema, [`super::SCHEMA`].
    pub schema: u32,
    /// The runs, by seed.
    pub seeds: Vec<SeedRun>,
    /// Fields in which they differ although they are compared: the user said so.
    pub anyway: Vec<String>,
}

/// The run of one seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeedRun {
    /// What seeded its generators.
    pub seed: u64,
    /// Its run directory, relative to the one with this list where it lies below it.
    pub run: String,
}
