//! When each alert would have fired, and how long before the kill: one row per arm and alert, in the lab's time and the source's.

use crate::lab::{Alerts, Lab, Unit, one_line};
use crate::study::{AlertResult, LabResult, say};

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertRow {
    /// The arm.
    pub arm: String,
    /// The alert.
    pub alert: String,
    /// When it fired.
    pub fired: String,
    /// How long before the kill, or that it came too late.
    pub before: String,
}

/// A mapping of a spoken name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The alert.
    pub alert: String,
    /// What it tells.
    pub says: String,
    /// The source's name for the figure, and the exported one.
    pub reading: String,
}

/// The rows of a run; none for labs without alerts.
pub fn rows(lab: &Lab, result: &LabResult) -> Vec<AlertRow> {
    let Some(alerts) = &lab.alerts else { return Vec::new() };
    let row = |arm: &str, kills: usize, alert: &AlertResult| AlertRow {
        arm: arm.to_owned(),
        alert: alert.name.clone(),
        fired: fired(alerts, alert),
        before: before(alerts, alert, kills),
    };
    result.arms.iter().flat_map(|arm| arm.alerts.iter().map(|alert| row(&arm.name, arm.kills.len(), alert))).collect()
}

/// What each alert reads.
pub fn readings(lab: &Lab) -> Vec<Reading> {
    let rules = lab.alerts.iter().flat_map(|alerts| &alerts.rules);
    rules.map(|rule| Reading { alert: rule.name.clone(), says: one_line(&rule.says), reading: one_line(&rule.reading) }).collect()
}

fn time(alerts: &Alerts, ns: u64) -> String {
    let minutes = ns as f64 * f64::from(alerts.time_scale) / 60e9;
    format!("{} ({minutes:.1} min)", say(ns as f64, Unit::Time))
}

fn fired(alerts: &Alerts, alert: &AlertResult) -> String {
    match &alert.firings[..] {
        [] => "never".to_owned(),
        [first, rest @ ..] => {
            let more = match rest.len() {
                0 => String::new(),
                1 => ", and once more".to_owned(),
                n => format!(", and {n} times more"),
            };
            format!("at {} for {}{more}", time(alerts, first.from_ns), first.of)
        }
    }
}

fn before(alerts: &Alerts, alert: &AlertResult, kills: usize) -> String {
    match (alert.lead_ns, alert.missed, kills) {
        (_, _, 0) => "nothing was killed".to_owned(),
        (None, _, 1) => "no warning of the kill".to_owned(),
        (None, ..) => format!("no warning of any of {kills} kills"),
        (Some(lead), 0, _) => format!("{} before", time(alerts, lead)),
        (Some(lead), missed, _) => format!("{} before; no warning of {missed} of {kills} kills", time(alerts, lead)),
    }
}
