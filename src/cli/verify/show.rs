//! Verdicts as text: what is not fulfilled, what is without effect, and the known defects with what ends them.

use super::Verified;
use crate::ledger::{Defect, Finding, Verdict};
use crate::units::Quantity;
use comfy_table::{Table, presets};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Lines of one snapshot beyond which the rest is counted.
const MOST: usize = 200;

pub(super) fn text(verified: &[Verified], all: bool) -> String {
    let mut out = String::new();
    for (number, one) in verified.iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        let count = |verdict| one.findings.iter().filter(|f| f.verdict == verdict).count();
        let _ = writeln!(
            out,
            "{}  {}: {} files fulfilled, {} drifted, {} without evidence",
            one.verdict,
            one.name,
            count(Verdict::Fulfilled),
            count(Verdict::Drifted),
            count(Verdict::InsufficientEvidence)
        );
        for doubt in &one.doubts {
            let _ = writeln!(out, "  no proof: {doubt}");
        }
        files(&mut out, &one.findings, all);
        defects(&mut out, &one.findings);
    }
    out
}

fn files(out: &mut String, findings: &[Finding], all: bool) {
    let wrong = |f: &&Finding| all || f.verdict != Verdict::Fulfilled;
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["  VERDICT", "CGROUP", "FILE", "PLANNED", "FOUND", "EFFECT", "BECAUSE"]);
    let shown: Vec<&Finding> = findings.iter().filter(wrong).collect();
    for finding in shown.iter().take(if all { usize::MAX } else { MOST }) {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let because = match &finding.rule {
            Some(rule) if finding.verdict == Verdict::Drifted => format!("{}: {}", finding.reason, rule.formula),
            _ => finding.reason.clone(),
        };
        table.add_row([
            format!("  {}", finding.verdict),
            finding.role.to_string(),
            finding.file.clone(),
            text(&finding.planned),
            text(&finding.found),
            effect(finding),
            because,
        ]);
    }
    if !shown.is_empty() {
        out.push_str(&table.trim_fmt());
        out.push('\n');
    }
    if !all && shown.len() > MOST {
        let _ = writeln!(out, "  and {} more: --all, --json or --junit has them", shown.len() - MOST);
    }
}

/// The ceiling or the protection that the file really comes to, and who decides it.
fn effect(finding: &Finding) -> String {
    let size = |bytes: u64| Quantity::bytes(bytes).to_string();
    match (&finding.ceiling, &finding.protection) {
        (Some(ceiling), _) => format!("at most {} by {}", size(ceiling.value), ceiling.set_by),
        (None, Some(protection)) => {
            let bound = protection.bound_by.as_ref();
            let by = bound.map(|role| format!("at most {} by {role}", size(protection.passed_on)));
            let now = protection.effective.map(|bytes| format!("{} protected now", size(bytes)));
            [now, by].into_iter().flatten().collect::<Vec<_>>().join(", ")
        }
        (None, None) => String::new(),
    }
}

fn defects(out: &mut String, findings: &[Finding]) {
    let mut known: BTreeMap<Defect, Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        if let Some(defect) = finding.defect {
            known.entry(defect).or_default().push(finding);
        }
    }
    for (defect, findings) in known {
        let places: Vec<_> = findings.iter().take(3).map(|f| format!("{}/{}", f.role, f.file)).collect();
        let more = findings.len().saturating_sub(3);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = writeln!(out, "  {} ({}{more}): {}", defect.name(), places.join(", "), defect.says());
    }
}
