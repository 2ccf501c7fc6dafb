//! The state of a run's arms as a picture that is drawn again, as plain lines, or as JSON.

use super::arm::{Memory, Stage, State};
use crate::lab::{Lab, Unit, one_line};
use crate::report::{plain, shortened};
use crate::study::say;
use console::{Term, truncate_str};

/// Events of an arm on the screen.
const EVENTS: usize = 3;
/// Cells of a bar.
const BAR: u64 = 12;
/// Characters of a name.
const NAME: usize = 32;

/// Where the state is shown: drawn again and again on a terminal, else told as things happen.
#[derive(Debug)]
pub struct Screen {
    head: String,
    term: Option<Term>,
    drawn: Vec<String>,
    begun: bool,
}

impl Screen {
    /// Nothing shown yet.
    pub fn new(lab: &Lab, term: Option<Term>) -> Screen {
        let head = name(&format!("{}: {}", lab.name, one_line(&lab.title)), 200);
        Screen { head, term, drawn: Vec::new(), begun: false }
    }

    /// Shows what stands; `last` when nothing follows.
    pub fn show<'a>(&mut self, arms: impl Iterator<Item = &'a mut State>, last: bool) -> anyhow::Result<()> {
        let arms: Vec<_> = arms.collect();
        match self.term.clone() {
            Some(term) => self.draw(&term, &arms, last)?,
            None => self.tell(&arms, last)?,
        }
        arms.into_iter().for_each(State::seen);
        Ok(())
    }

    fn draw(&mut self, term: &Term, arms: &[&mut State], last: bool) -> anyhow::Result<()> {
        let (rows, columns) = term.size();
        let mut lines = vec![self.head.clone()];
        if arms.is_empty() {
            lines.push("preparing the node".to_owned());
        }
        for arm in arms {
            lines.extend(picture(arm));
        }
        // What scrolled away cannot be drawn again; the last picture may scroll.
        if !last {
            lines.truncate(usize::from(rows.saturating_sub(1)).max(1));
        }
        let lines: Vec<_> = lines.iter().map(|line| truncate_str(line, usize::from(columns).max(20), "…").into_owned()).collect();
        // Up to where the picture began, and away with it, in one write: nothing flickers, and at every moment the cursor is at a line's start.
        if lines == self.drawn {
            return Ok(());
        }
        let back = match self.drawn.len() {
            0 => String::new(),
            drawn => format!("\u{1b}[{drawn}A\r\u{1b}[J"),
        };
        term.write_str(&format!("{back}{}\n", lines.join("\n")))?;
        self.drawn = lines;
        Ok(())
    }

    fn tell(&mut self, arms: &[&mut State], last: bool) -> anyhow::Result<()> {
        let mut lines = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            lines.push(self.head.clone());
        }
        for arm in arms {
            let unseen = arm.unseen().iter();
            lines.extend(unseen.map(|(at, text)| format!("{}  {:>8}  {}", name(&arm.name, NAME), time(*at), name(text, 200))));
        }
        if last {
            lines.extend(arms.iter().flat_map(|arm| picture(arm)));
        }
        if !lines.is_empty() {
            super::write(lines.join("\n"))?;
        }
        Ok(())
    }
}

/// A text on one line, of at most so many characters, and without what steers a terminal.
fn name(text: &str, most: usize) -> String {
    shortened(&plain(&one_line(text)), most)
}

fn time(ns: u64) -> String {
    format!("{:.1} s", ns as f64 / 1e9)
}

/// An arm: how far it is, the node, each pod, the last events.
fn picture(arm: &State) -> Vec<String> {
    let far = match &arm.stage {
        Stage::Waiting => "waits".to_owned(),
        Stage::Running => format!("{}, phase {}", time(arm.at_ns), arm.phase),
        Stage::Done => format!("{}, done", time(arm.at_ns)),
        Stage::Failed(message) => format!("{}, its node failed: {message}", time(arm.at_ns)),
    };
    let mut lines = vec![String::new(), format!("{}  {}", name(&arm.name, NAME), name(&far, 200))];
    if arm.stage != Stage::Waiting {
        lines.extend(std::iter::once(arm.node()).chain(arm.pods()).map(|memory| row(&memory)));
    }
    let from = arm.events.len().saturating_sub(EVENTS);
    lines.extend(arm.events[from..].iter().map(|(at, text)| format!("  {:>8}  {}", time(*at), name(text, 200))));
    lines
}

fn row(memory: &Memory) -> String {
    let bytes = |bytes: u64| say(bytes as f64, Unit::Bytes);
    let who = memory.pod.as_ref().map_or("node".to_owned(), |pod| format!("pod/{pod}"));
    let mut parts = vec![format!("  {:20}", name(&who, 20))];
    let share = memory.memory.zip(memory.max).map(|(used, max)| (used * BAR).checked_div(max).unwrap_or(0).min(BAR));
    let bar = share.map_or(String::new(), |n| format!("[{}{}]", "#".repeat(n as usize), ".".repeat((BAR - n) as usize)));
    parts.push(format!("{bar:14}"));
    let limits = [("high", memory.high), ("max", memory.max)];
    let limits = limits.into_iter().filter_map(|(word, limit)| Some(format!("{word} {}", bytes(limit?))));
    let limits = limits.collect::<Vec<_>>().join(", ");
    let used = memory.memory.map_or("-".to_owned(), bytes);
    parts.push(if limits.is_empty() { used } else { format!("{used} of {limits}") });
    parts.push(match (memory.swap, memory.swap_max) {
        (0, None | Some(0)) => String::new(),
        (swap, Some(max)) => format!("swap {} of {}", bytes(swap), bytes(max)),
        (swap, None) => format!("swap {}", bytes(swap)),
    });
    parts.push(format!("PSI full {}", say(memory.full, Unit::Percent)));
    parts.retain(|part| !part.is_empty());
    parts.join("  ").trim_end().to_owned()
}

/// What stands in an arm and what happened since the line before, as one object.
pub fn line(arm: &State) -> serde_json::Value {
    let stage = match &arm.stage {
        Stage::Waiting => "waiting",
        Stage::Running => "running",
        Stage::Done => "done",
        Stage::Failed(_) => "failed",
    };
    let memory = |m: &Memory| {
        serde_json::json!({
            "pod": m.pod, "memory": m.memory, "high": m.high, "max": m.max, "swap": m.swap, "swapMax": m.swap_max, "psiFullPercent": m.full,
        })
    };
    let events: Vec<_> = arm.unseen().iter().map(|(at_ns, text)| serde_json::json!({"atNs": at_ns, "event": text})).collect();
    let pods: Vec<_> = arm.pods().iter().map(memory).collect();
    serde_json::json!({
        "arm": arm.name, "stage": stage, "phase": arm.phase, "atNs": arm.at_ns, "node": memory(&arm.node()), "pods": pods, "events": events,
    })
}
