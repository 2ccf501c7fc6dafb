//! Verdicts as JUnit XML: a suite per snapshot, a case per file; a drift is a failure, missing evidence an error.

use super::Verified;
use crate::ledger::{Finding, Verdict};
use crate::report::xml as escape;
use std::fmt::Write;

pub(super) fn text(verified: &[Verified]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"highwater verify\">\n");
    for one in verified {
        let count = |verdict| one.findings.iter().filter(|f| f.verdict == verdict).count();
        let errors = count(Verdict::InsufficientEvidence) + one.doubts.len();
        let tests = one.findings.len() + one.doubts.len();
        let name = escape(&one.name);
        let failures = count(Verdict::Drifted);
        let _ = writeln!(out, "  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\">");
        for doubt in &one.doubts {
            let _ = writeln!(
                out,
                "    <testcase classname=\"{name}\" name=\"evidence\"><error message=\"{}\"/></testcase>",
                escape(doubt)
            );
        }
        for finding in &one.findings {
            case(&mut out, finding);
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

fn case(out: &mut String, finding: &Finding) {
    let (class, name) = (escape(&finding.role.to_string()), escape(&finding.file));
    let _ = write!(out, "    <testcase classname=\"{class}\" name=\"{name}\"");
    let tag = match finding.verdict {
        Verdict::Fulfilled => return out.push_str("/>\n"),
        Verdict::Drifted => "failure",
        Verdict::InsufficientEvidence => "error",
    };
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
    let defect = finding.defect.map(|d| format!(" ({}: {})", d.name(), d.says())).unwrap_or_default();
    let message = format!("{}: planned {}, found {}{defect}", finding.reason, value(&finding.planned), value(&finding.found));
    let _ = writeln!(out, "><{tag} message=\"{}\">{}</{tag}></testcase>", escape(&message), escape(&finding.path));
}
