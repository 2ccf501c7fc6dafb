//! Verdicts as JUnit XML: a suite per snapshot, a case per file; a drift is a failure, missing evidence an error.

use super::Verified;
use crate::ledger::{Finding, Verdict};
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

/// Escapes for attributes and text; characters that XML 1.0 cannot hold become question marks.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            c if c < ' ' || matches!(c, '\u{7f}' | '\u{fffe}' | '\u{ffff}') => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_that_xml_cannot_hold_gets_out() {
        assert_eq!(super::escape("a<b> & \"c\"\n\u{1}é"), "a&lt;b&gt; &amp; &quot;c&quot;&#10;?é");
    }
}
