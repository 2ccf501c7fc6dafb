//! The page: one HTML file with everything inside, light or dark, that reads without scripts.

use super::Subject;
use super::alerts::{AlertRow, Reading, readings, rows};
use super::answers::answers;
use super::decision::{badge, section};
use super::events::{EventList, lists};
use super::figures::{Figure, class, latencies, overlays};
use super::headline::headline;
use super::layers::layers;
use super::lesson::{Told, told};
use super::memory::{ByPod, by_pod, memory};
use super::plain::plain;
use super::terminal::standing;
use super::tree::{ArmTrees, trees};
use super::words::{Column, columns};
use crate::lab::{Unit, one_line};
use crate::study::{ExpectationResult, Holds, Standing, say};
use askama::Template;

#[derive(Template)]
#[template(path = "report.html", config = "src/report/askama.toml")]
struct Page<'a> {
    subject: &'a Subject<'a>,
    question: String,
    headline: String,
    badge: &'static str,
    decision: String,
    because: String,
    arms: Vec<ArmHead>,
    columns: Vec<Column>,
    memory: Vec<Figure>,
    by_pod: Vec<ByPod>,
    events: Vec<EventList>,
    layers: Vec<Figure>,
    answers: Vec<Figure>,
    overlays: Vec<Figure>,
    latencies: Option<Figure>,
    lesson: Option<Told>,
    trees: Vec<ArmTrees>,
    alerts: Vec<AlertRow>,
    readings: Vec<Reading>,
    alert_time: String,
    devices: Vec<Device>,
    node: String,
    cost: String,
    budget: String,
    scale: String,
    source: String,
    kernels: String,
}

struct ArmHead {
    name: String,
    about: String,
    class: String,
    base: bool,
}

struct Device {
    name: String,
    size: String,
    random: String,
    sequential: String,
}

/// Writes the page.
///
/// # Errors
/// None that a subject can cause; the template engine's otherwise.
pub fn html(subject: &Subject<'_>) -> Result<String, askama::Error> {
    let (lab, result) = (subject.lab, subject.result);
    let about = |name: &str| lab.arm(name).map(|a| one_line(&a.about)).unwrap_or_default();
    let arms = result.arms.iter().enumerate().map(|(i, arm)| ArmHead {
        name: arm.name.clone(),
        about: about(&arm.name),
        class: class(i),
        base: arm.name == lab.baseline,
    });
    let devices = subject.node.nodes.iter().flat_map(|n| &n.facts.devices).map(|d| Device {
        name: d.name.clone(),
        size: say(d.size as f64, Unit::Bytes),
        random: say(d.random_read_ns as f64, Unit::Time),
        sequential: format!("{} MB/s", d.sequential_read_bps / 1_000_000),
    });
    let baseline = lab.arm(&lab.baseline).or(lab.arms.first());
    let node = baseline.map(|a| format!("Kubernetes {} with {} of memory", a.node.kubernetes, a.node.memory)).unwrap_or_default();
    let mut kernels: Vec<_> = result.arms.iter().map(|a| a.kernel.as_str()).collect();
    kernels.dedup();
    let busy: u64 = result.arms.iter().map(|a| a.busy_ns).sum();
    let page = Page {
        question: one_line(&lab.question),
        headline: headline(lab, result),
        badge: badge(result.conclusion),
        decision: section(lab, result)?,
        because: result.because.clone(),
        arms: arms.collect(),
        columns: columns(lab, result),
        memory: memory(subject),
        by_pod: by_pod(subject),
        events: lists(subject),
        layers: layers(subject),
        answers: answers(subject),
        overlays: overlays(subject),
        latencies: latencies(subject),
        lesson: lab.lesson.as_ref().map(|lesson| told(lesson, result)),
        trees: trees(subject),
        alerts: rows(lab, result),
        readings: readings(lab),
        alert_time: lab.alerts.as_ref().map(|a| one_line(&a.how)).unwrap_or_default(),
        devices: devices.collect(),
        node,
        cost: say(busy as f64, Unit::Time),
        budget: lab.budget.busy.to_string(),
        scale: one_line(&lab.scale.how),
        source: one_line(&lab.source.name),
        kernels: kernels.join(", "),
        subject,
    };
    Ok(plain(&page.render()?))
}

impl ExpectationResult {
    fn word(&self) -> &'static str {
        standing(self.standing)
    }

    fn class(&self) -> &'static str {
        match self.standing {
            Standing::Met => "good",
            Standing::NotMet | Standing::Indistinct => "bad",
            Standing::Undecided | Standing::NotRun => "open",
        }
    }

    fn margin_words(&self) -> String {
        self.margin.map_or_else(|| "exact".to_owned(), |m| format!("{m:.1} x the bound"))
    }

    fn there(&self) -> &'static str {
        match self.holds_there {
            Holds::No => "false there, as it must be",
            Holds::Yes => "true there as well",
            Holds::Unknown => "nothing to measure there",
        }
    }
}
