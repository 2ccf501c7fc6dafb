//! Expectations: a figure, a bound, and an arm in which it must be false.

use super::{Amount, MetricName, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that must be seen for the lab to have shown its point.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expectation {
    /// A short name.
    pub id: String,
    /// What is expected, in a sentence.
    pub say: String,
    /// The pressure the lab is about: when it is not seen, the lab is UNINFORMATIVE and the rest decides nothing.
    #[serde(default)]
    pub precondition: bool,
    /// The figure.
    pub metric: MetricRef,
    /// The bound it must keep.
    pub is: Test,
    /// An arm in which the same statement is false; the runner checks that it is.
    pub false_in: String,
}

/// A figure of a run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MetricRef {
    /// The arm. Left out in acceptance rules, which hold for every arm.
    #[serde(default)]
    pub arm: Option<String>,
    /// Which figure.
    pub name: MetricName,
    /// The phase; the whole script when left out.
    #[serde(default)]
    pub phase: Option<String>,
    /// The pod; the node when left out.
    #[serde(default)]
    pub pod: Option<String>,
    /// The container; the pod's own cgroup when left out.
    #[serde(default)]
    pub container: Option<String>,
    /// The load; all loads when left out.
    #[serde(default)]
    pub load: Option<String>,
    /// The control file, for `control`.
    #[serde(default)]
    pub file: Option<String>,
    /// The name in the workload's report, for `report`.
    #[serde(default)]
    pub key: Option<String>,
    /// The alert, for figures of alerts.
    #[serde(default)]
    pub alert: Option<String>,
}

impl MetricRef {
    /// The figure's unit. What a workload reports has the unit its key ends in; times are nanoseconds here whatever they were.
    #[must_use]
    pub fn unit(&self) -> Unit {
        match self.key.as_deref() {
            Some(key) if key.ends_with("_s") || key.ends_with("_ms") || key.ends_with("_us") => Unit::Time,
            Some(key) if key.ends_with("_bytes") => Unit::Bytes,
            _ => self.name.unit(),
        }
    }
}

/// The bounds of a statement; all that are given must hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Test {
    /// Not less than this.
    #[serde(default)]
    pub at_least: Option<Amount>,
    /// Not more than this.
    #[serde(default)]
    pub at_most: Option<Amount>,
    /// Exactly this.
    #[serde(default)]
    pub equals: Option<Amount>,
    /// The figure divided by the same figure of another arm.
    #[serde(default)]
    pub ratio_to: Option<Ratio>,
}

/// Bounds of a ratio between arms.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ratio {
    /// The arm divided by.
    pub arm: String,
    /// Not less than this.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// Not more than this.
    #[serde(default)]
    pub at_most: Option<f64>,
}

/// A bound in the metric's unit, after parsing.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// Counts, bytes, nanoseconds, percent, per second.
    Number(f64),
    /// A control file's text.
    Text(String),
}

impl Amount {
    /// Reads the bound in a metric's unit.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn bound(&self, metric: &MetricRef) -> Result<Bound, String> {
        use super::{Bytes, Span};
        let number = || self.0.parse::<f64>().ok().filter(|n| n.is_finite());
        match metric.unit() {
            Unit::Text => Ok(Bound::Text(self.0.clone())),
            Unit::Bytes => Bytes::parse(&self.0).map(|b| Bound::Number(b.0 as f64)),
            Unit::Time => Span::parse(&self.0).map(|s| Bound::Number(s.0 as f64)),
            Unit::Count | Unit::Percent | Unit::PerSecond | Unit::Rate => number()
                .map(Bound::Number)
                .ok_or_else(|| format!("`{}` is not a number, but {} is one", self.0, metric.name.text())),
        }
    }
}
