//! Alerts that a lab asks about: Prometheus rules that the study evaluates on a run's samples.

use super::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The alerts of a lab, on the source's scale of time.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Alerts {
    /// How many seconds of the source one second of the lab stands for. Rates are kept; what a counter counts grows with it.
    pub time_scale: u32,
    /// Why that many.
    pub how: String,
    /// How often Prometheus reads and evaluates, in the source's time.
    pub every: Span,
    /// The rules.
    pub rules: Vec<AlertRule>,
}

/// One alert.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AlertRule {
    /// Its name in Prometheus.
    pub name: String,
    /// What it tells.
    pub says: String,
    /// How the source names the figure, and which exported figure that can be.
    pub reading: String,
    /// The condition.
    pub when: AlertWhen,
    /// How long the condition must hold, in the source's time.
    #[serde(rename = "for", default)]
    pub hold: Span,
}

/// A condition on exported figures.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AlertWhen {
    /// A container's swap is above this share of its limit.
    ContainerSwapAbove(f64),
    /// The node's free swap is below this share of all swap.
    NodeSwapFreeBelow(f64),
    /// Pages swapped in and out per second are above so many times the reads per second that the swap devices did when measured.
    SwapIoAboveDevice(f64),
}

impl Alerts {
    /// The time between two evaluations, in the lab's nanoseconds.
    #[must_use]
    pub fn step_ns(&self) -> u64 {
        self.every.0 / u64::from(self.time_scale.max(1))
    }
}
