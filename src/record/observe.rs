//! What a real node's observer is told and what it answers: one line of JSON each way, over a socket on the node.

use super::EventKind;
use serde::{Deserialize, Serialize};

/// What the host tells the observer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Tell {
    /// A phase of the order begins.
    Begin {
        /// Its name.
        phase: String,
    },
    /// The load of a phase sets off; its arrivals count from now.
    Load {
        /// The phase's name.
        phase: String,
    },
    /// Answer when every request has been answered or given up, or when the time has come.
    Wait {
        /// Nanoseconds of the observer's time.
        until_ns: u64,
    },
    /// Something happened that only the API knows.
    Note {
        /// What.
        event: EventKind,
    },
    /// A phase ends: its load stops, everything is read once more.
    End {
        /// Its name.
        phase: String,
        /// True when its deadline ended it.
        deadline: bool,
    },
    /// The script has ended, and so does the observer.
    Done,
}

/// What the observer answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    /// Nanoseconds since the observer began.
    pub at_ns: u64,
    /// No request of the phase is under way or to come.
    pub answered: bool,
    /// The pods whose sandbox runs.
    pub pods: Vec<String>,
    /// Why it was not done.
    pub error: Option<String>,
}
