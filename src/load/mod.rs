//! Load: open-loop schedules, computed beforehand and pure, and the client that executes one and measures from the scheduled time.

mod client;
mod response;
mod schedule;

pub use client::{ClientError, Span, execute, monotonic_ns};
pub use response::{Progress, Response};
pub use schedule::{LARGEST, ScheduleError, Tokens, constant, poisson, ramp, trace};
