//! The decision framework as a page: each line with the labs that bear on it and what the runs given say.

use crate::study::{LineVerdict, Says};
use askama::Template;

/// A run that was given.
#[derive(Debug, Clone)]
pub struct FrameworkRun {
    /// Where it lies, as it was given.
    pub path: String,
    /// Where its report is, as a link.
    pub report: String,
    /// How it ended.
    pub conclusion: String,
    /// Hash of its substrate.
    pub identity: String,
}

#[derive(Template)]
#[template(path = "framework.html", config = "src/report/askama.toml")]
struct Page<'a> {
    lines: &'a [LineVerdict],
    runs: &'a [FrameworkRun],
    headline: String,
}

/// Writes the page.
///
/// # Errors
/// None that runs can cause; the template engine's otherwise.
pub fn framework_html(lines: &[LineVerdict], runs: &[FrameworkRun]) -> Result<String, askama::Error> {
    Page { lines, runs, headline: headline(lines) }.render()
}

/// How many lines the runs back, refute or leave open.
#[must_use]
pub fn headline(lines: &[LineVerdict]) -> String {
    let count = |says: Says| lines.iter().filter(|line| line.says == says).count();
    let kinds = [Says::Backed, Says::Mixed, Says::Refuted, Says::Nothing, Says::NotRun, Says::NoLab];
    let parts: Vec<String> = kinds.into_iter().filter(|k| count(*k) > 0).map(|k| format!("{} {}", count(k), k.words())).collect();
    format!("Of {} lines of advice: {}.", lines.len(), parts.join(", "))
}

impl Says {
    fn badge(self) -> &'static str {
        match self {
            Says::Backed => "good",
            Says::Refuted => "bad",
            _ => "open",
        }
    }
}
