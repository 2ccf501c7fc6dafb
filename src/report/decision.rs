//! The decision of a canary: what it is and why, the rules behind it, and what it holds for.

use crate::lab::{Lab, Unit};
use crate::study::{Conclusion, Decision, DecisionResult, Holds, Interval, LabResult, RuleResult, SeedResult, say};
use askama::Template;
use comfy_table::Table;

#[derive(Template)]
#[template(path = "decision.html", config = "src/report/askama.toml")]
struct Section<'a> {
    result: &'a LabResult,
    decision: &'a DecisionResult,
    badge: &'static str,
    baseline: &'a str,
    arms: Vec<&'a str>,
    rows: Vec<Row>,
}

/// A rule, in every arm that may be enabled.
struct Row {
    id: String,
    say: String,
    wanted: String,
    cells: Vec<Cell>,
}

struct Cell {
    word: &'static str,
    class: &'static str,
    text: String,
    full: String,
}

/// The section of the page; empty for a lab without rules.
///
/// # Errors
/// The template engine's.
pub fn section(lab: &Lab, result: &LabResult) -> Result<String, askama::Error> {
    let Some(decision) = &result.decision else { return Ok(String::new()) };
    let badge = match decision.decided.decision {
        Decision::Enable(_) | Decision::KeepDefaults => "good",
        Decision::Inconclusive | Decision::NotAsked => "open",
    };
    Section { result, decision, badge, baseline: &lab.baseline, arms: arms(decision), rows: rows(lab, decision) }.render()
}

/// The rules as a table, the envelope, and the decision in the last line.
pub fn text(lab: &Lab, result: &LabResult) -> Option<String> {
    let decision = result.decision.as_ref()?;
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    let head = ["RULE".to_owned(), "WANTED".to_owned()];
    table.set_header(head.into_iter().chain(arms(decision).into_iter().map(str::to_owned)));
    for row in rows(lab, decision) {
        let cells = row.cells.into_iter().map(|cell| format!("{} {}", cell.word, cell.text));
        table.add_row([row.id, row.wanted].into_iter().chain(cells));
    }
    let envelope = &decision.envelope;
    let mut lines = vec![table.trim_fmt(), String::new(), format!("tested on  {}", envelope.node)];
    lines.extend(envelope.workloads.iter().map(|workload| format!("           {workload}")));
    lines.extend(envelope.loads.iter().map(|load| format!("           {load}")));
    lines.push(format!("           seeds {}; {}", seeds(&envelope.seeds), decision.method));
    if !decision.anyway.is_empty() {
        lines.push(format!("           compared although these differ: {}", decision.anyway.join(", ")));
    }
    lines.push(String::new());
    lines.push(format!("{}  {}", decision.decided.decision, decision.decided.because));
    Some(lines.join("\n"))
}

fn arms(decision: &DecisionResult) -> Vec<&str> {
    let mut arms: Vec<&str> = decision.decided.rules.iter().map(|rule| rule.arm.as_str()).collect();
    arms.dedup();
    arms
}

fn rows(lab: &Lab, decision: &DecisionResult) -> Vec<Row> {
    let rules = lab.acceptance.iter().flat_map(|a| &a.rules);
    let row = |rule: &crate::lab::Rule| {
        let found: Vec<&RuleResult> = decision.decided.rules.iter().filter(|r| r.id == rule.id).collect();
        let first = found.first()?;
        let cells = found.iter().map(|result| cell(result, rule.metric.unit())).collect();
        Some(Row { id: rule.id.clone(), say: first.say.clone(), wanted: first.bound.clone(), cells })
    };
    rules.filter_map(row).collect()
}

fn cell(rule: &RuleResult, unit: Unit) -> Cell {
    let (word, class) = match rule.holds {
        Holds::Yes => ("kept", "good"),
        Holds::No => ("BROKEN", "bad"),
        Holds::Unknown => ("open", "open"),
    };
    let numbers: Option<Vec<f64>> = rule.figures.iter().copied().collect();
    let text = match numbers.filter(|n| !n.is_empty()) {
        None => String::new(),
        Some(numbers) => {
            let mean = say(numbers.iter().sum::<f64>() / numbers.len() as f64, unit);
            rule.difference.map_or_else(|| mean.clone(), |d| format!("{mean} ({})", about(&d, unit)))
        }
    };
    Cell { word, class, text, full: rule.measured.clone() }
}

/// A difference with half the length of its interval.
fn about(difference: &Interval, unit: Unit) -> String {
    let sign = if difference.mean < 0.0 { "−" } else { "+" };
    format!("{sign}{} ± {}", say(difference.mean.abs(), unit), say(difference.high - difference.mean, unit))
}

/// `1 to 8` where they follow each other, else one by one.
fn seeds(list: &[u64]) -> String {
    match list {
        [first, .., last] if list.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)) => format!("{first} to {last}"),
        list => list.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    }
}

impl DecisionResult {
    fn seed_words(&self) -> String {
        seeds(&self.envelope.seeds)
    }
}

impl SeedResult {
    fn class(&self) -> &'static str {
        badge(self.conclusion)
    }
}

/// The colour of how a run ended.
pub fn badge(conclusion: Conclusion) -> &'static str {
    match conclusion {
        Conclusion::AsExpected => "good",
        Conclusion::Failed => "bad",
        Conclusion::Uninformative | Conclusion::Inconclusive => "open",
    }
}
