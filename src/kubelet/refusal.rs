//! Why the kubelet does not start, or why a pod cannot be planned, in the kubelet's own words.

use std::fmt;

/// The step that refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Feature gates, while the configuration's defaults are set. The kubelet panics.
    Gates,
    /// `ValidateKubeletConfiguration`.
    Validation,
    /// Parsing of the eviction thresholds.
    Eviction,
    /// `validateNodeAllocatable`: more is reserved than there is.
    Reservation,
    /// A check of the node at start, such as swap that is on.
    Node,
    /// A pod that cannot be planned.
    Pod,
}

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The step.
    pub stage: Stage,
    /// What the kubelet of that version says.
    pub message: String,
}

impl Refusal {
    pub(crate) fn new(stage: Stage, message: impl fmt::Display) -> Self {
        Refusal { stage, message: message.to_string() }
    }
}

/// Joins reasons as the kubelet does: one as it is, several in brackets (`utilerrors.Aggregate`).
pub fn aggregate(reasons: &[Refusal]) -> String {
    match reasons {
        [one] => one.message.clone(),
        many => format!("[{}]", many.iter().map(|r| r.message.as_str()).collect::<Vec<_>>().join(", ")),
    }
}
