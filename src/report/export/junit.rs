//! A run's expectations as JUnit XML for CI: a case each; what does not hold is a failure, what cannot be said an error.

use crate::report::terminal::standing;
use crate::report::{plain, xml};
use crate::study::{LabResult, Standing};
use std::fmt::Write;

/// The XML of a run.
#[must_use]
pub fn junit(result: &LabResult) -> String {
    let clean = |text: &str| xml(&plain(text));
    let count = |of: &[Standing]| result.expectations.iter().filter(|e| of.contains(&e.standing)).count();
    let (failures, errors) = (count(&[Standing::NotMet, Standing::Indistinct]), count(&[Standing::Undecided]));
    let (tests, skipped, lab) = (result.expectations.len(), count(&[Standing::NotRun]), clean(&result.lab));
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"highwater\">\n");
    let _ = writeln!(
        out,
        "  <testsuite name=\"{lab}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\">"
    );
    for e in &result.expectations {
        let name = clean(&format!("{}: {}", e.id, e.say));
        let _ = write!(out, "    <testcase classname=\"{lab}\" name=\"{name}\"");
        let tag = match e.standing {
            Standing::Met => {
                out.push_str("/>\n");
                continue;
            }
            Standing::NotMet | Standing::Indistinct => "failure",
            Standing::Undecided => "error",
            Standing::NotRun => "skipped",
        };
        let message = format!("{}: {} measured {}, wanted {}", standing(e.standing), e.figure, e.measured, e.bound);
        let there = format!("in {}, where it must be false: {}", e.false_in, e.measured_there);
        let _ = writeln!(out, "><{tag} message=\"{}\">{}</{tag}></testcase>", clean(&message), clean(&there));
    }
    out + "  </testsuite>\n</testsuites>\n"
}
