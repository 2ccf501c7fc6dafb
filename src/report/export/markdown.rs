//! A run as Markdown for a pull request: the answer, the arms side by side, what was expected.

use crate::lab::{Lab, one_line};
use crate::report::headline::headline;
use crate::report::plain;
use crate::report::terminal::standing;
use crate::report::words::columns;
use crate::study::LabResult;
use std::fmt::Write;

/// The Markdown of a run.
#[must_use]
pub fn markdown(lab: &Lab, result: &LabResult) -> String {
    let mut out = format!(
        "### `{}`: {}\n\n{}\n\n> {}\n\n",
        result.lab.replace('`', "'"),
        text(&result.conclusion.to_string()),
        text(&headline(lab, result)),
        text(&one_line(&lab.question))
    );
    let arms: Vec<_> = result.arms.iter().map(|a| text(&a.name)).collect();
    let _ = writeln!(out, "| | {} |\n|---|{}", arms.join(" | "), "---:|".repeat(arms.len()));
    for column in columns(lab, result) {
        let cells: Vec<_> = column.cells.iter().map(|c| text(c)).collect();
        let _ = writeln!(out, "| {} | {} |", column.head, cells.join(" | "));
    }
    if !result.expectations.is_empty() {
        out += "\n| | Expected | Measured | Wanted | False in |\n|---|---|---|---|---|\n";
        for e in &result.expectations {
            let there = format!("{}: {}", e.false_in, e.measured_there);
            let cells = [standing(e.standing), &e.say, &e.measured, &e.bound, &there].map(text);
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
    }
    let _ = writeln!(out, "\n{}: {}.", text(&result.conclusion.to_string()), text(&result.because));
    plain(&out)
}

/// Text on one line that neither ends a cell nor is taken for markup or a mention.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '@' => out.push_str("&#64;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '!' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_stays_in_its_cell() {
        assert_eq!(super::text("a|b\n<img> @me [x](y)"), "a\\|b &lt;img&gt; &#64;me \\[x\\](y)");
    }
}
