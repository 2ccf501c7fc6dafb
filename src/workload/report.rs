//! What a workload reports of itself: lines of `key=value` on stdout.
//!
//! A line is the word `report` and then pairs separated by single blanks, `report elapsed_s=3.000 commits=1200 commit_p99_us=850`. Keys are
//! lower case with `_`, and end in their unit (`_s`, `_ms`, `_us`, `_bytes`) unless they count something. Values are decimal numbers.
//! Everything is cumulative since the process started, so the last line of a stretch says it all and differences are rates.

use super::{WorkloadError, system};
use std::fmt::Write as _;
use std::io::Write as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A line under construction.
#[derive(Debug)]
pub struct Line(String);

impl Line {
    /// A line that says how long the process has been at work.
    pub fn new(elapsed: Duration) -> Line {
        Line("report".to_owned()).seconds("elapsed_s", elapsed)
    }

    /// A count or a size in bytes.
    #[must_use]
    pub fn count(mut self, key: &str, value: u64) -> Line {
        _ = write!(self.0, " {key}={value}");
        self
    }

    /// A time in seconds, with microseconds.
    #[must_use]
    pub fn seconds(mut self, key: &str, value: Duration) -> Line {
        _ = write!(self.0, " {key}={}.{:06}", value.as_secs(), value.subsec_micros());
        self
    }

    /// A time in microseconds.
    #[must_use]
    pub fn micros(self, key: &str, nanos: u64) -> Line {
        self.count(key, nanos / 1000)
    }

    /// Writes the line to stdout at once. A stdout that nobody reads ends no workload.
    pub fn print(mut self) {
        self.0.push('\n');
        _ = std::io::stdout().lock().write_all(self.0.as_bytes());
    }

    #[cfg(test)]
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// Calls `report` from a thread of its own again and again; never with a period of 0.
///
/// # Errors
/// A thread could not be started.
pub fn every(period: Duration, report: impl Fn() + Send + 'static) -> Result<(), WorkloadError> {
    if period.is_zero() {
        return Ok(());
    }
    let begin = Instant::now();
    let run = move || {
        for number in 1.. {
            sleep((begin + period * number).saturating_duration_since(Instant::now()));
            report();
        }
    };
    std::thread::Builder::new().stack_size(128 << 10).spawn(run).map_err(system("start a thread"))?;
    Ok(())
}

/// Writes a remark for people to stdout.
pub fn note(text: &str) {
    _ = std::io::stdout().lock().write_all(format!("note {text}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form() {
        let line = Line::new(Duration::from_millis(3050)).count("commits", 12).micros("p99_us", 850_900);
        assert_eq!(line.into_text(), "report elapsed_s=3.050000 commits=12 p99_us=850");
    }
}
