//! Alerts that could never be evaluated.

use super::super::file::LabFile;
use super::unique;
use crate::lab::AlertWhen;
use crate::yaml::{Node, Problems};

pub(super) fn check(file: &LabFile, root: &Node, problems: &mut Problems) {
    let rules = file.alerts.as_ref().map_or(&[][..], |alerts| &alerts.rules);
    let names: Vec<_> = rules.iter().map(|rule| rule.name.as_str()).collect();
    unique(&names, "alerts.rules", root, problems);
    if let Some(alerts) = &file.alerts {
        let scale = u64::from(alerts.time_scale);
        if scale == 0 || alerts.every.0 == 0 || alerts.every.0 % scale != 0 || alerts.every.0 % 1_000_000 != 0 {
            let message = "every must be whole milliseconds above 0 that timeScale divides";
            problems.push(root.blame("alerts.every", message));
        }
    }
    for (i, rule) in rules.iter().enumerate() {
        let path = format!("alerts.rules[{i}]");
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if rule.name.is_empty() || !rule.name.chars().all(plain) || rule.name.starts_with(|c: char| c.is_ascii_digit()) {
            problems.push(root.blame(format!("{path}.name"), "must consist of letters, digits and _, as Prometheus' names do"));
        }
        let (AlertWhen::ContainerSwapAbove(bound) | AlertWhen::NodeSwapFreeBelow(bound) | AlertWhen::SwapIoAboveDevice(bound)) =
            rule.when;
        if !(bound.is_finite() && bound > 0.0) {
            problems.push(root.blame(format!("{path}.when"), "the bound must be above 0"));
        }
    }
}
