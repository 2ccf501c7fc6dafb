//! What happened, as marks on the time axis and as a list to read: starts, readiness, exits, kills, refused writes.

use super::Subject;
use super::chart::Moment;
use crate::lab::Unit;
use crate::record::{Event, EventKind};
use crate::study::{ArmResult, say};

/// Marks and lines of an arm beyond which the rest is counted.
const MOST: usize = 150;

/// The events of an arm, for the page.
#[derive(Debug, Clone)]
pub struct EventList {
    /// The arm.
    pub arm: String,
    /// Moment and sentence, in order.
    pub lines: Vec<(String, String)>,
    /// How many more there are.
    pub more: usize,
}

/// The events of every arm that has any.
#[must_use]
pub fn lists(subject: &Subject<'_>) -> Vec<EventList> {
    let list = |arm: &ArmResult| {
        let moments = moments(subject, arm);
        let line = |m: &Moment| (say(m.at_ns as f64, Unit::Time), m.label.clone());
        let lines: Vec<_> = moments.iter().take(MOST).map(line).collect();
        EventList { arm: arm.name.clone(), more: moments.len() - lines.len(), lines }
    };
    subject.result.arms.iter().map(list).filter(|list| !list.lines.is_empty()).collect()
}

/// The marks of an arm: every kill, and of the rest as many as a reader can tell apart.
#[must_use]
pub fn marks(subject: &Subject<'_>, arm: &ArmResult) -> Vec<Moment> {
    let mut room = MOST;
    let mut marks = moments(subject, arm);
    marks.retain(|m| {
        let keep = m.class == "kill" || room > 0;
        room = room.saturating_sub(1);
        keep
    });
    marks
}

/// Kills as the study found them, and what else the record says; the same moment keeps the record's order.
fn moments(subject: &Subject<'_>, arm: &ArmResult) -> Vec<Moment> {
    let kills = arm.kills.iter().map(|kill| Moment {
        label: killed(&kill.pod, &kill.container, kill.attempt),
        at_ns: kill.at_ns,
        class: "kill",
    });
    let events = subject.arm(&arm.name).map_or(&[][..], |records| &records.events);
    let mut all: Vec<Moment> = kills.chain(events.iter().filter_map(moment)).collect();
    all.sort_by_key(|m| m.at_ns);
    all
}

/// An event in words, phases included; none for what only repeats another: the kernel's report of a kill, the wait before a restart.
#[must_use]
pub fn sentence(event: &Event) -> Option<String> {
    match &event.kind {
        EventKind::PhaseStarted { phase } => Some(format!("phase {phase} begins")),
        EventKind::PhaseEnded { phase, deadline: false } => Some(format!("phase {phase} ends")),
        EventKind::PhaseEnded { phase, deadline: true } => Some(format!("phase {phase} ends at its deadline")),
        EventKind::ContainerExited { pod, container, attempt, oom_killed: true, .. } => Some(killed(pod, container, *attempt)),
        _ => moment(event).map(|m| m.label),
    }
}

fn killed(pod: &str, container: &str, attempt: u32) -> String {
    format!("{pod}/{container} OOM-killed, start {}", attempt + 1)
}

fn moment(event: &Event) -> Option<Moment> {
    let (class, label) = match &event.kind {
        EventKind::ContainerStarted { pod, container, attempt: 0, .. } => ("start", format!("{pod}/{container} started")),
        EventKind::ContainerStarted { pod, container, attempt, .. } => {
            ("start", format!("{pod}/{container} restarted, start {}", attempt + 1))
        }
        EventKind::Ready { pod, container, ready: true } => ("ready", format!("{pod}/{container} ready")),
        EventKind::Ready { pod, container, ready: false } => ("exit", format!("{pod}/{container} no longer ready")),
        // The study counts these as kills.
        EventKind::ContainerExited { oom_killed: true, .. } => return None,
        EventKind::ContainerExited { pod, container, code, signal, .. } => {
            let how = match (code, signal) {
                (Some(code), _) => format!("exited with {code}"),
                (None, Some(signal)) => format!("ended by signal {signal}"),
                (None, None) => "ended".to_owned(),
            };
            ("exit", format!("{pod}/{container} {how}"))
        }
        EventKind::WriteRefused { path, value, error } => ("exit", format!("{path} refused {value}: {error}")),
        EventKind::StepRefused { reason } => ("exit", reason.clone()),
        EventKind::PhaseStarted { .. } | EventKind::PhaseEnded { .. } | EventKind::BackOff { .. } | EventKind::OomKill { .. } => {
            return None;
        }
    };
    Some(Moment { label, at_ns: event.at_ns, class })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_in_words_and_phases_are_drawn_elsewhere() {
        let of = |kind| moment(&Event { at_ns: 7, kind }).map(|m| (m.class, m.label));
        let (pod, container) = ("p".to_owned(), "c".to_owned());
        let started =
            EventKind::ContainerStarted { pod: pod.clone(), container: container.clone(), attempt: 1, cgroup: "/".into() };
        assert_eq!(of(started), Some(("start", "p/c restarted, start 2".into())));
        let exited = |oom_killed| EventKind::ContainerExited {
            pod: pod.clone(),
            container: container.clone(),
            attempt: 0,
            code: None,
            signal: Some(9),
            oom_killed,
            memory_peak: None,
        };
        assert_eq!(of(exited(false)), Some(("exit", "p/c ended by signal 9".into())));
        assert_eq!(of(exited(true)), None, "a kill comes from the study");
        assert_eq!(of(EventKind::PhaseStarted { phase: "run".into() }), None);
    }
}
