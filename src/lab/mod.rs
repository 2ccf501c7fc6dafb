//! The lab file: node, arms as patches, phases, expectations; read, validated and resolved.
//!
//! Two shapes. As typed: [`LabFile`] and the objects beside it, in the words of the files. Resolved: [`Lab`], in which every arm stands
//! on its own, quantities are numbers and every name has been found. Only the resolved shape goes on.

mod accept;
mod alert;
mod catalogue;
mod check;
mod expect;
mod file;
mod key;
mod lesson;
mod merge;
mod metric;
mod node;
mod phase;
mod pod;
mod resolve;
mod sweep;
mod value;

pub use accept::{Acceptance, Rule};
pub use alert::{AlertRule, AlertWhen, Alerts};
pub use catalogue::{LESSON, LabFiles, catalogue, find};
pub use expect::{Bound, Expectation, MetricRef, Ratio, Test};
pub use file::{ArmFile, Budget, Claim, Entitlement, LabFile, Scale, SourceFile};
pub use lesson::{Lesson, Part, Prediction, parts};
pub use metric::{MetricName, Quantile, Unit};
pub use node::{Device, Kernel, NodeShape, Profile, Switch, Thp};
pub use phase::{Arrivals, ConfigChange, ContainerOf, Ends, Load, NodeStep, Phase, PodNamed, ResizeStep, Slo, SloPreset, Tokens};
pub use pod::{HONOURED, Honour, slice};
pub use resolve::{Arm, Lab, differences, load};
pub use sweep::{Sweep, swept};
pub use value::{Amount, Bytes, Span, one_line};

/// The JSON Schema of `lab.yaml`, for editors and for checks outside this program.
#[must_use]
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(LabFile)
}
