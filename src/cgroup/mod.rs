//! Reading and writing cgroup v2 files: values, pressure, statistics, OOM lines and the walk over a tree.
//!
//! Parsers take text and never fail the caller for what a newer kernel adds: unknown keys are skipped, a missing key is absent. The
//! [`Tree`] takes a root directory, so that the same code reads the kernel's files and a test's.

mod keyed;
mod oom;
mod pressure;
mod tree;
mod value;

pub use keyed::{flat, flat_value, nested};
pub use oom::{OomLine, parse_oom_line};
pub use pressure::{PressureTotals, parse_pressure};
pub use tree::{CONTROLLERS, Tree, TreeError};
pub use value::{Limit, MalformedValue, parse_number};
