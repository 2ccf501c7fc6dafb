//! Phases: what starts and stops, the load, and when a phase ends.

use super::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A stretch of the script.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Pods to start, in order.
    #[serde(default)]
    pub start: Vec<String>,
    /// Pods to stop, before others start.
    #[serde(default)]
    pub stop: Vec<String>,
    /// What is done to the running node before pods start.
    #[serde(default)]
    pub step: Option<NodeStep>,
    /// Requests to send.
    #[serde(default)]
    pub load: Vec<Load>,
    /// When it ends.
    pub ends: Ends,
}

/// What an administrator does to a node whose pods run. The files that follow are written at once, the update of the QoS cgroups too.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum NodeStep {
    /// The kubelet starts again with another configuration.
    RestartKubelet(ConfigChange),
    /// A container's memory is resized in place.
    Resize(ResizeStep),
    /// A container is killed and started again by the kubelet, in a new cgroup; the phase goes on when it runs.
    RestartContainer(ContainerOf),
    /// A pod is deleted and made again; the phase goes on when its first container runs.
    RecreatePod(PodNamed),
}

/// A container that is killed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerOf {
    /// The pod.
    pub pod: String,
    /// The container.
    pub container: String,
}

/// A pod that is made again.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodNamed {
    /// The pod.
    pub pod: String,
}

impl NodeStep {
    /// The words with which the kubelet must refuse the step, where it must.
    #[must_use]
    pub fn refused(&self) -> Option<&str> {
        match self {
            NodeStep::RestartKubelet(change) => change.refused.as_deref(),
            NodeStep::Resize(resize) => resize.refused.as_deref(),
            NodeStep::RestartContainer(_) | NodeStep::RecreatePod(_) => None,
        }
    }

    /// The pod that must be running, and the field that names it.
    #[must_use]
    pub fn pod(&self) -> Option<(&'static str, &str)> {
        match self {
            NodeStep::RestartKubelet(_) => None,
            NodeStep::Resize(step) => Some(("resize.pod", &step.pod)),
            NodeStep::RestartContainer(step) => Some(("restartContainer.pod", &step.pod)),
            NodeStep::RecreatePod(step) => Some(("recreatePod.pod", &step.pod)),
        }
    }
}

/// What changes in a KubeletConfiguration.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigChange {
    /// Fields and their new values; maps such as featureGates are merged.
    #[serde(default)]
    pub set: serde_json::Map<String, serde_json::Value>,
    /// Fields to take out.
    #[serde(default)]
    pub unset: Vec<String>,
    /// The kubelet must refuse to start, with these words in its reason. The pods run on; only another configuration can follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A container's new memory.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResizeStep {
    /// The pod.
    pub pod: String,
    /// The container.
    pub container: String,
    /// Its new request; as before when absent.
    #[serde(default)]
    pub request: Option<Bytes>,
    /// Its new limit; as before when absent.
    #[serde(default)]
    pub limit: Option<Bytes>,
    /// The kubelet must refuse it as infeasible, with these words in its reason; then nothing changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// When a phase ends.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Ends {
    /// After this time.
    After(Span),
    /// When all started pods are ready, finished or given up, at the latest after this time.
    Ready(Span),
    /// When the load is answered and Job-like pods have finished, at the latest after this time.
    Settled(Span),
}

/// A load generator. Requests have a schedule and latency counts from it, whether or not the server keeps up.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Load {
    /// Its name.
    pub name: String,
    /// The pod it calls.
    pub pod: String,
    /// The server's port.
    #[serde(default = "port")]
    pub port: u16,
    /// When requests are due.
    pub arrivals: Arrivals,
    /// The size of a request.
    pub tokens: Tokens,
    /// At most so many in flight; the others wait and their wait counts.
    #[serde(default)]
    pub concurrency: Option<u32>,
    /// When a request counts as failed.
    pub timeout: Span,
    /// What a good answer is, for goodput.
    #[serde(default)]
    pub slo: Option<Slo>,
}

fn port() -> u16 {
    8000
}

/// When requests are due. Rates are requests per second.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Arrivals {
    /// At even intervals.
    Constant {
        /// Requests per second.
        rate: f64,
        /// How long.
        duration: Span,
    },
    /// At random, with exponential intervals.
    Poisson {
        /// Mean requests per second.
        rate: f64,
        /// How long.
        duration: Span,
    },
    /// At a rate that changes evenly.
    Ramp {
        /// Requests per second at the start.
        from: f64,
        /// Requests per second at the end.
        to: f64,
        /// How long.
        duration: Span,
    },
    /// At these times from the phase's start.
    Trace(Vec<Span>),
}

/// The size of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tokens {
    /// Tokens of the prompt.
    pub prompt: u32,
    /// Tokens to generate.
    pub output: u32,
}

/// A service level objective for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Slo {
    /// Published bounds on the first token and the time per token; what is given beside it takes precedence.
    #[serde(default)]
    pub preset: Option<SloPreset>,
    /// From the scheduled time to the last token.
    #[serde(default)]
    pub latency: Option<Span>,
    /// From the scheduled time to the first token.
    #[serde(default)]
    pub ttft: Option<Span>,
    /// Mean time per token after the first.
    #[serde(default)]
    pub tpot: Option<Span>,
}

/// Bounds of MLPerf Inference for GPT-OSS at P99, as report QOS gives them: a benchmark's, not defaults for production.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SloPreset {
    /// The interactive scenario: first token within 2 s, 15 ms per token.
    MlperfGptOssInteractive,
    /// The server scenario: first token within 3 s, 80 ms per token.
    MlperfGptOssServer,
}

impl Slo {
    /// The objective with its preset filled in.
    #[must_use]
    pub fn resolved(self) -> Slo {
        let (ttft, tpot) = match self.preset {
            None => (None, None),
            Some(SloPreset::MlperfGptOssInteractive) => (Some(Span::from_millis(2000)), Some(Span::from_millis(15))),
            Some(SloPreset::MlperfGptOssServer) => (Some(Span::from_millis(3000)), Some(Span::from_millis(80))),
        };
        Slo { preset: None, latency: self.latency, ttft: self.ttft.or(ttft), tpot: self.tpot.or(tpot) }
    }
}
