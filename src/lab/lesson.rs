//! A lab as a lesson: what to predict before it runs, and what to make of what happened.

use super::Expectation;
use crate::yaml::{self, Node, Problems};
use serde::{Deserialize, Serialize};

/// `lesson.yaml` of a lab. In its texts `{ID}` stands for what the expectation ID measured, so that no figure is written down before the run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lesson {
    /// What to predict before running.
    pub predict: Prediction,
    /// What happened.
    pub happened: String,
    /// Why.
    pub why: String,
    /// What to try next: a sentence or a command each.
    pub next: Vec<String>,
}

/// A question with answers to choose from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Prediction {
    /// The question.
    pub ask: String,
    /// The answers.
    pub choices: Vec<String>,
    /// Which of them is right where all of `shownBy` are met, counted from 1.
    pub answer: usize,
    /// Expectations that show it. Where one is missed, the run does not show the answer.
    pub shown_by: Vec<String>,
}

/// Reads a lesson and holds it against its lab's expectations.
///
/// # Errors
/// Every error, with file, line and path.
pub fn read(file: &str, text: &str, expectations: &[Expectation]) -> Result<Lesson, Problems> {
    let tree = yaml::read(file, text)?;
    let lesson: Lesson = tree.decode()?;
    let mut problems = Problems::default();
    check(&lesson, &tree, expectations, &mut problems);
    problems.or(lesson)
}

fn check(lesson: &Lesson, tree: &Node, expectations: &[Expectation], problems: &mut Problems) {
    let known = |id: &str| expectations.iter().any(|e| e.id == id);
    let Prediction { choices, answer, shown_by, .. } = &lesson.predict;
    if choices.len() < 2 {
        problems.push(tree.blame("predict.choices", "a prediction needs at least two answers to choose from"));
    }
    if !(1..=choices.len()).contains(answer) {
        let message = format!("must be the number of one of the {} choices, counted from 1", choices.len());
        problems.push(tree.blame("predict.answer", message));
    }
    if shown_by.is_empty() {
        problems.push(tree.blame("predict.shownBy", "name the expectations that show the answer"));
    }
    for id in shown_by.iter().filter(|id| !known(id)) {
        problems.push(tree.blame("predict.shownBy", format!("the lab has no expectation {id}")));
    }
    let texts = [("happened", &lesson.happened), ("why", &lesson.why)];
    let texts = texts.into_iter().chain(lesson.next.iter().map(|text| ("next", text)));
    for (path, text) in texts {
        for id in parts(text).into_iter().filter_map(Part::figure).filter(|id| !known(id)) {
            problems.push(tree.blame(path, format!("{{{id}}}: the lab has no expectation {id}")));
        }
    }
}

/// A piece of a lesson's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// As it stands.
    Text(&'a str),
    /// What this expectation measured.
    Figure(&'a str),
}

impl<'a> Part<'a> {
    fn figure(self) -> Option<&'a str> {
        match self {
            Part::Figure(id) => Some(id),
            Part::Text(_) => None,
        }
    }
}

/// A text cut at its figures.
#[must_use]
pub fn parts(text: &str) -> Vec<Part<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((before, (id, after))) = rest.split_once('{').and_then(|(before, from)| Some((before, from.split_once('}')?)))
    {
        found.extend([Part::Text(before), Part::Figure(id)]);
        rest = after;
    }
    found.push(Part::Text(rest));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{catalogue, load};

    #[test]
    fn every_lab_of_the_catalogue_has_a_lesson() {
        for files in catalogue() {
            let lab = load(&files).unwrap_or_else(|problems| panic!("{problems}"));
            let lesson = lab.lesson.unwrap_or_else(|| panic!("{} has no lesson.yaml", lab.name));
            assert!(lesson.happened.contains('{'), "{}: what happened is told with figures of the run", lab.name);
        }
    }

    #[test]
    fn all_that_is_wrong_with_a_lesson_is_told_at_once() {
        let text = "predict:\n  ask: q\n  choices: [one]\n  answer: 2\n  shownBy: [ghost]\nhappened: 'it was {gone}'\nwhy: w\nnext: []\n";
        let told = read("lesson.yaml", text, &[]).unwrap_err().to_string();
        for part in
            ["lesson.yaml:3", "at least two", "lesson.yaml:4", "no expectation ghost", "no expectation gone", "lesson.yaml:6"]
        {
            assert!(told.contains(part), "{part}: {told}");
        }
    }

    #[test]
    fn a_text_is_cut_at_its_figures() {
        assert_eq!(parts("a {b} c"), [Part::Text("a "), Part::Figure("b"), Part::Text(" c")]);
        assert_eq!(parts("open { only"), [Part::Text("open { only")]);
    }
}
