//! A run for other tools: samples as CSV and OpenMetrics, a Grafana dashboard, Markdown for a pull request, JUnit for CI.

mod csv;
mod grafana;
mod junit;
mod markdown;
mod names;
mod openmetrics;

pub use csv::{HEAD, rows};
pub use grafana::dashboard;
pub use junit::junit;
pub use markdown::markdown;
pub use names::{FAMILIES, Family, Kind, Value};
pub use openmetrics::OpenMetrics;
