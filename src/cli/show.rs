//! `highwater show LAB`: what a lab asks, varies, does and expects.

use super::{Exit, input, print, print_json};
use crate::lab::{Claim, Ends, Expectation, Lab, NodeStep, Phase, one_line};
use crate::study;
use std::fmt::Write;

/// Prints a lab after validating it.
pub fn run(argument: &str, json: bool) -> anyhow::Result<Exit> {
    let lab = input::lab(argument)?;
    if json {
        return print_json(&as_json(&lab));
    }
    print(text(&lab))
}

fn as_json(lab: &Lab) -> serde_json::Value {
    let arms: Vec<_> = lab
        .arms
        .iter()
        .map(|a| {
            serde_json::json!({
                "name": a.name, "about": a.about, "node": a.node, "kubelet": a.kubelet, "pods": a.pods, "phases": a.phases
            })
        })
        .collect();
    serde_json::json!({
        "name": lab.name, "title": lab.title, "question": lab.question, "source": lab.source, "scale": lab.scale, "baseline": lab.baseline,
        "vary": lab.vary, "key": lab.key, "arms": arms, "expectations": lab.expectations, "acceptance": lab.acceptance, "budget": lab.budget,
    })
}

fn text(lab: &Lab) -> String {
    let mut out = format!("{}\n  {}\n\nQuestion\n  {}\n", lab.name, lab.title, one_line(&lab.question));
    let mut section = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let _ = write!(out, "\n{title}\n{}", lines.iter().map(|l| format!("  {l}\n")).collect::<String>());
        }
    };
    if let Some(lesson) = &lab.lesson {
        let choices = lesson.predict.choices.iter().enumerate().map(|(at, choice)| format!("{}  {}", at + 1, one_line(choice)));
        section("Predict before it runs", std::iter::once(one_line(&lesson.predict.ask)).chain(choices).collect());
    }
    section("Arms", lab.arms.iter().map(|a| format!("{}: {}", a.name, one_line(&a.about))).collect());
    section("Arms may differ in", lab.vary.clone());
    if let Some(arm) = lab.arm(&lab.baseline) {
        let node = &arm.node;
        let devices = node.swap.iter().map(|d| ("swap", d)).chain(node.data.iter().map(|d| ("data", d)));
        let mut lines = vec![format!("Kubernetes {}, memory {}", node.kubernetes, node.memory)];
        lines.extend(devices.map(|(role, d)| format!("{role} {}: {}, {}", d.name, d.size, name_of(&d.profile))));
        lines.push(format!("scaled down by {}: {}", lab.scale.factor, one_line(&lab.scale.how)));
        section(&format!("Node (arm {})", arm.name), lines);
        section("Script", arm.phases.iter().map(phase).collect());
    }
    section("Expected", lab.expectations.iter().map(expectation).collect());
    if let Some(acceptance) = &lab.acceptance {
        section("Accepted, the smallest first", vec![acceptance.prefer.join(", ")]);
        let rule = |r: &crate::lab::Rule| format!("{}: {}, {}", r.id, one_line(&r.say), study::bound(&r.is, &r.metric));
        section("By rules written before the run", acceptance.rules.iter().map(rule).collect());
    }
    section(&format!("Claimed by {}", one_line(&lab.source.name)), lab.source.claims.iter().map(claim).collect());
    section("Budget", vec![format!("{} of busy virtual time, all arms together", lab.budget.busy)]);
    out
}

fn phase(phase: &Phase) -> String {
    let mut parts = Vec::new();
    parts.extend(phase.stop.iter().map(|p| format!("stop {p}")));
    parts.extend(phase.start.iter().map(|p| format!("start {p}")));
    parts.extend(phase.step.iter().map(|step| match step {
        NodeStep::RestartKubelet(change) => {
            let set = change.set.iter().map(|(field, value)| format!("{field} {value}"));
            let unset = change.unset.iter().map(|field| format!("no {field}"));
            format!("start the kubelet again with {}", set.chain(unset).collect::<Vec<_>>().join(" and "))
        }
        NodeStep::Resize(resize) => format!("resize {}/{} in place", resize.pod, resize.container),
        NodeStep::RestartContainer(step) => format!("restart {}/{}", step.pod, step.container),
        NodeStep::RecreatePod(step) => format!("make {} again", step.pod),
    }));
    parts.extend(phase.step.iter().filter_map(NodeStep::refused).map(|words| format!("which must be refused: {words}")));
    parts.extend(phase.load.iter().map(|l| format!("load {} on {}", l.name, l.pod)));
    parts.push(match phase.ends {
        Ends::After(t) => format!("ends after {t}"),
        Ends::Ready(t) => format!("ends when all are ready, at most {t}"),
        Ends::Settled(t) => format!("ends when all is answered, at most {t}"),
    });
    format!("{}: {}", phase.name, parts.join(", "))
}

fn expectation(e: &Expectation) -> String {
    let mark = if e.precondition { "precondition, " } else { "" };
    format!("{}: {} ({mark}false in {})", e.id, one_line(&e.say), e.false_in)
}

fn claim(c: &Claim) -> String {
    let mut line = one_line(&c.says);
    for (word, value) in [("literally", &c.literal), ("likely", &c.likely), ("for", &c.environment)] {
        if let Some(value) = value {
            let _ = write!(line, "; {word} {}", one_line(value));
        }
    }
    line
}

/// The word a value is typed as.
fn name_of(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}
