//! The terminal's table of arms, claims beside them, and the verdict.

use super::ArmRecords;
use super::figures::sum;
use super::words::columns;
use crate::lab::{Lab, one_line};
use crate::record::Metric;
use crate::study::{ExpectationResult, LabResult, Standing};
use comfy_table::{CellAlignment, Table};

/// The result of a run as text; with what was recorded, the table of the arms draws them small, as a terminal can.
#[must_use]
pub fn terminal(lab: &Lab, result: &LabResult, recorded: &[ArmRecords]) -> String {
    let mut parts = vec![format!("{}\n{}", lab.name, one_line(&lab.question)), arms(lab, result, recorded)];
    if !result.expectations.is_empty() {
        parts.push(expectations(&result.expectations));
    }
    if !result.claims.is_empty() {
        parts.push(claims(lab, result));
    }
    let rows = super::alerts::rows(lab, result);
    if !rows.is_empty() {
        parts.push(alerts(&rows));
    }
    parts.push(format!("{}  {}", result.conclusion, result.because));
    parts.extend(super::decision::text(lab, result));
    parts.join("\n\n")
}

fn table() -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table
}

/// Figures down, arms across: arms are few and figures many.
fn arms(lab: &Lab, result: &LabResult, recorded: &[ArmRecords]) -> String {
    let mut table = table();
    let head = result.arms.iter().map(|a| if a.name == lab.baseline { format!("{} (base)", a.name) } else { a.name.clone() });
    table.set_header(std::iter::once(String::new()).chain(head));
    for column in columns(lab, result) {
        table.add_row(std::iter::once(column.head.to_owned()).chain(column.cells));
    }
    for (head, metric) in DRAWN {
        let of = |arm: &str| recorded.iter().find(|known| known.name == arm).map(|known| sum(&known.curves, metric, None));
        let drawn: Vec<_> = result.arms.iter().map(|arm| of(&arm.name).unwrap_or_default()).collect();
        let most = drawn.iter().flatten().map(|(_, value)| *value).fold(0.0, f64::max);
        if most > 0.0 {
            table.add_row(std::iter::once(head.to_owned()).chain(drawn.iter().map(|points| sparkline(points, most))));
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// What is drawn over the time of each arm, of all pods together, on one scale for all arms.
const DRAWN: [(&str, Metric); 3] = [
    ("memory of pods, over time", Metric::MemoryCurrent),
    ("swap of pods, over time", Metric::MemorySwapCurrent),
    ("pressure of pods, over time", Metric::PressureFullUs),
];
/// Characters of a sparkline.
const CELLS: usize = 16;

/// The largest value in each part of the time, as blocks of eight heights.
fn sparkline(points: &[(u64, f64)], most: f64) -> String {
    let cell = |n: usize| &points[points.len() * n / CELLS..points.len() * (n + 1) / CELLS];
    let block = |part: &[(u64, f64)]| match part.iter().map(|(_, value)| *value).fold(0.0, f64::max) / most {
        share if share > 0.0 => ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][((share * 8.0).ceil() as usize).clamp(1, 8) - 1],
        _ => ' ',
    };
    (0..CELLS).map(|n| block(cell(n))).collect()
}

fn expectations(list: &[ExpectationResult]) -> String {
    let mut table = table();
    table.set_header(["", "EXPECTED", "MEASURED", "WANTED", "MARGIN", "FALSE IN"]);
    for e in list {
        let margin = e.margin.map_or_else(|| "exact".to_owned(), |m| format!("{m:.1}x"));
        let there = format!("{}: {}", e.false_in, e.measured_there);
        table.add_row([standing(e.standing).to_owned(), e.say.clone(), e.measured.clone(), e.bound.clone(), margin, there]);
    }
    table.trim_fmt()
}

fn alerts(rows: &[super::alerts::AlertRow]) -> String {
    let mut table = table();
    table.set_header(["ALERT", "ARM", "FIRED", "BEFORE THE KILL"]);
    for row in rows {
        table.add_row([row.alert.clone(), row.arm.clone(), row.fired.clone(), row.before.clone()]);
    }
    table.trim_fmt()
}

/// How an expectation fared, in a word.
pub fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Met => "met",
        Standing::NotMet => "NOT MET",
        Standing::Indistinct => "INDISTINCT",
        Standing::Undecided => "undecided",
        Standing::NotRun => "not run",
    }
}

fn claims(lab: &Lab, result: &LabResult) -> String {
    let mut table = table();
    table.set_header(["CLAIMED", "LITERALLY", "LIKELY", "HERE"]);
    for claim in &result.claims {
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        table.add_row([claim.says.clone(), or_dash(&claim.literal), or_dash(&claim.likely), or_dash(&claim.here)]);
    }
    format!(
        "claims of {} (scaled down here by {}; they decide nothing)\n{}",
        one_line(&lab.source.name),
        lab.scale.factor,
        table.trim_fmt()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_has_the_largest_value_of_each_part() {
        let points: Vec<_> = (0..240).map(|n| (n, if n == 100 { 8.0 } else { n as f64 / 60.0 })).collect();
        assert_eq!(sparkline(&points, 8.0), "▁▁▁▁▂▂█▂▃▃▃▃▄▄▄▄");
        assert_eq!(sparkline(&[], 8.0), " ".repeat(CELLS));
    }
}
