//! Acceptance rules: what a policy must keep to be enabled, written before the run and hashed into its record.

use super::key::hash;
use super::{MetricRef, Test};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rules by which a policy is accepted.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Acceptance {
    /// The arms that may be enabled, from the smallest policy to the largest: the first one that keeps every rule is chosen. The
    /// lab's baseline is what is kept when none does.
    pub prefer: Vec<String>,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// One rule, for every arm that may be enabled.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// A short name.
    pub id: String,
    /// What is required, in a sentence.
    pub say: String,
    /// The figure, without an arm.
    pub metric: MetricRef,
    /// The bound. `equals` must hold with every seed, the others for the mean over the seeds with its whole interval.
    pub is: Test,
}

impl Acceptance {
    /// Hash of the rules and of the arm they compare with: a rule that is changed after the run no longer has the hash that was recorded.
    #[must_use]
    pub fn hash(&self, baseline: &str) -> String {
        hash(&serde_json::json!({"acceptance": self, "baseline": baseline}))
    }
}
