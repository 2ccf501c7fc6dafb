//! The lesson of a lab, told with what a run measured.

use crate::lab::{Lesson, Part, Prediction, one_line, parts};
use crate::study::{LabResult, Standing};
use serde::Serialize;

/// A lesson with the figures of a run in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    /// What was to be predicted.
    pub ask: String,
    /// The answers to choose from.
    pub choices: Vec<Choice>,
    /// Whether the run shows which is right.
    pub shown: bool,
    /// What happened.
    pub happened: String,
    /// Why.
    pub why: String,
    /// What to try next.
    pub next: Vec<String>,
}

/// An answer to choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    /// The answer.
    pub say: String,
    /// The run shows that it is the right one.
    pub right: bool,
}

/// Tells a lesson.
#[must_use]
pub fn told(lesson: &Lesson, result: &LabResult) -> Told {
    let find = |id: &str| result.expectations.iter().find(|e| e.id == id);
    let met = |id: &String| find(id).is_some_and(|e| e.standing == Standing::Met);
    let fill = |text: &str| -> String {
        let part = |part| match part {
            Part::Text(text) => text,
            Part::Figure(id) => find(id).map_or("(not measured in this run)", |e| e.measured.as_str()),
        };
        one_line(&parts(text).into_iter().map(part).collect::<String>())
    };
    let Prediction { ask, choices, answer, shown_by } = &lesson.predict;
    let shown = shown_by.iter().all(met);
    let choice = |(number, say): (usize, &String)| Choice { say: one_line(say), right: shown && number + 1 == *answer };
    Told {
        ask: one_line(ask),
        choices: choices.iter().enumerate().map(choice).collect(),
        shown,
        happened: fill(&lesson.happened),
        why: fill(&lesson.why),
        next: lesson.next.iter().map(|text| fill(text)).collect(),
    }
}
