//! `lab.yaml` as it is typed.

use super::{Acceptance, Alerts, Bytes, Expectation, MetricRef, NodeShape, Phase, Span, Sweep};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A lab: one question about memory pressure, the arms that answer it and what must be seen.
///
/// Beside `lab.yaml` stand `kubelet.yaml`, a KubeletConfiguration v1beta1, and `pods/*.yaml`, v1 Pods.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabFile {
    /// Always `highwater/v1alpha1`.
    pub api_version: String,
    /// Always `Lab`.
    pub kind: String,
    /// One line for the catalogue.
    pub title: String,
    /// What the lab answers.
    pub question: String,
    /// Where the question comes from, and what is claimed there.
    pub source: SourceFile,
    /// What was made smaller, and how.
    pub scale: Scale,
    /// The node.
    pub node: NodeShape,
    /// The variants that are compared.
    pub arms: Vec<ArmFile>,
    /// The paths that arms may differ in, for example `kubelet.memorySwap`; a difference elsewhere is an error.
    #[serde(default)]
    pub vary: Vec<String>,
    /// The arm that others are compared with.
    pub baseline: String,
    /// The script.
    pub phases: Vec<Phase>,
    /// What must be seen for the lab to have shown its point.
    #[serde(default)]
    pub expectations: Vec<Expectation>,
    /// Rules by which a policy is accepted, written before the run: what `highwater run LAB --seeds N` decides by.
    #[serde(default)]
    pub acceptance: Option<Acceptance>,
    /// What `highwater sweep` does with the lab when it is told nothing else.
    #[serde(default)]
    pub sweep: Option<Sweep>,
    /// Prometheus alerts to evaluate on the samples.
    #[serde(default)]
    pub alerts: Option<Alerts>,
    /// What the lab may cost.
    pub budget: Budget,
    /// Seeds every generator; arms share it.
    #[serde(default = "one")]
    pub seed: u64,
    /// Time between readings of the cheap files; 0s switches sampling off.
    #[serde(default = "sampling")]
    pub sample_every: Span,
}

fn one() -> u64 {
    1
}

fn sampling() -> Span {
    Span::from_millis(100)
}

/// Where a lab's question comes from.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SourceFile {
    /// A talk, an article, a report.
    pub name: String,
    /// What it claims. Claims are printed beside what was measured and decide nothing.
    #[serde(default)]
    pub claims: Vec<Claim>,
}

/// A figure or a statement of the source.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Claim {
    /// What is claimed.
    pub says: String,
    /// The figure as it reached us.
    #[serde(default)]
    pub literal: Option<String>,
    /// The likely figure, where the literal one cannot be right, and why.
    #[serde(default)]
    pub likely: Option<String>,
    /// What it was claimed for.
    #[serde(default)]
    pub environment: Option<String>,
    /// The figure of this lab to print beside it.
    #[serde(default)]
    pub measured: Option<MetricRef>,
    /// Print the measured figure as a ratio to this arm's.
    #[serde(default)]
    pub ratio_to: Option<String>,
    /// Compute the kubelet's swap limit for these figures and print it beside the claim.
    #[serde(default)]
    pub entitlement: Option<Entitlement>,
}

/// The inputs of a LimitedSwap entitlement.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entitlement {
    /// The node's memory.
    pub memory: Bytes,
    /// The node's swap.
    pub swap: Bytes,
    /// The container's memory request.
    pub request: Bytes,
}

/// How the lab relates to the source's sizes.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scale {
    /// The source's sizes divided by the lab's.
    pub factor: f64,
    /// What was scaled, what was kept.
    pub how: String,
}

/// One variant.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArmFile {
    /// Its name.
    pub name: String,
    /// What it stands for.
    pub about: String,
    /// A JSON merge patch over `{node, kubelet, pods, phases}`. `pods` is a map by the pod's name; lists whose items all have a
    /// `name` merge by it, and an item with `$patch: delete` is taken out.
    #[serde(default)]
    pub patch: Option<serde_json::Map<String, serde_json::Value>>,
}

/// What a lab may cost, in busy virtual time: exact on every machine.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Budget {
    /// Busy virtual time of all arms together.
    pub busy: Span,
}
