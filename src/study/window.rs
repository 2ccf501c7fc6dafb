//! The windows of the phases, and which of them a moment belongs to.

use crate::record::{Event, EventKind};

/// A phase's window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The phase.
    pub name: String,
    /// Nanoseconds since the arm began.
    pub start_ns: u64,
    /// Nanoseconds since the arm began.
    pub end_ns: u64,
    /// True when its deadline ended it.
    pub deadline: bool,
}

/// Reads the windows off the events. A phase that never ended ends with the last event.
pub fn windows(events: &[Event]) -> Vec<Window> {
    let last = events.iter().map(|e| e.at_ns).max().unwrap_or(0);
    let mut found: Vec<Window> = Vec::new();
    for event in events {
        match &event.kind {
            EventKind::PhaseStarted { phase } => {
                found.push(Window { name: phase.clone(), start_ns: event.at_ns, end_ns: last, deadline: false });
            }
            EventKind::PhaseEnded { phase, deadline } => {
                if let Some(window) = found.iter_mut().rev().find(|w| w.name == *phase) {
                    (window.end_ns, window.deadline) = (event.at_ns, *deadline);
                }
            }
            _ => {}
        }
    }
    found
}

/// The window that a reading at this moment tells about: one taken at a boundary tells about the phase that ends there.
pub fn at(windows: &[Window], at_ns: u64) -> Option<usize> {
    windows
        .iter()
        .position(|w| at_ns > w.start_ns && at_ns <= w.end_ns)
        .or_else(|| windows.iter().position(|w| at_ns == w.start_ns))
}

/// How long two stretches overlap.
pub fn overlap(a: (u64, u64), b: (u64, u64)) -> u64 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}
