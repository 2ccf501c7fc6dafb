//! Progress: a line per arm that moves on a terminal, plain lines elsewhere. All of it on stderr.

use crate::record::{EventKind, Frame, Growing};
use crate::report::plain;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// The progress of a run.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    preparing: ProgressBar,
    arms: Vec<(String, ProgressBar)>,
}

impl Progress {
    /// Shows nothing yet but the arms to come.
    pub fn new(arms: Vec<String>) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        let bars = if terminal {
            MultiProgress::new()
        } else {
            MultiProgress::with_draw_target(indicatif::ProgressDrawTarget::hidden())
        };
        let style = |template: &str| ProgressStyle::with_template(template).expect("the template is constant");
        let preparing = bars.add(ProgressBar::new_spinner().with_style(style("{spinner:.cyan} {msg}")));
        let width = arms.iter().map(String::len).max().unwrap_or(0);
        let arms = arms.into_iter().map(|arm| {
            let bar = ProgressBar::new_spinner().with_style(style("{spinner:.cyan} {prefix}  {msg} {elapsed:.dim}"));
            bar.set_prefix(plain(&format!("{arm:width$}")));
            (arm, bars.add(bar))
        });
        Progress { terminal, preparing, arms: arms.collect() }
    }

    /// Says what is being prepared.
    pub fn say(&self, text: &str) {
        if self.terminal {
            self.preparing.enable_steady_tick(Duration::from_millis(100));
            self.preparing.set_message(plain(text));
        } else {
            line(text);
        }
    }

    /// An arm begins.
    pub fn begin(&self, arm: usize) {
        self.preparing.finish_and_clear();
        self.arms[arm].1.enable_steady_tick(Duration::from_millis(100));
        self.show(arm, "restore");
    }

    /// An arm has ended.
    pub fn end(&self, arm: usize) {
        self.show(arm, "done");
        self.arms[arm].1.finish();
    }

    /// Follows the phases of an arm.
    pub fn phases(&self, arm: usize) -> Phases<'_> {
        Phases { progress: self, arm, growing: Growing::default() }
    }

    /// Takes the lines away; the result follows.
    pub fn finish(&self) {
        self.preparing.finish_and_clear();
        self.arms.iter().for_each(|(_, bar)| bar.finish_and_clear());
    }

    fn show(&self, arm: usize, text: &str) {
        let (name, bar) = &self.arms[arm];
        bar.set_message(plain(text));
        if !self.terminal {
            line(&format!("{name}: {text}"));
        }
    }
}

#[expect(clippy::print_stderr, reason = "progress belongs to the command line")]
fn line(text: &str) {
    eprintln!("{}", plain(text));
}

/// Finds the phases in the output of a running guest.
#[derive(Debug)]
pub struct Phases<'a> {
    progress: &'a Progress,
    arm: usize,
    growing: Growing,
}

impl Phases<'_> {
    /// More output; it may begin and end inside a frame.
    pub fn see(&mut self, new: &[u8]) {
        // What cannot be decoded is told when the arm is recorded.
        for frame in self.growing.see(new).unwrap_or_default() {
            if let Frame::Event(event) = frame
                && let EventKind::PhaseStarted { phase } = event.kind
            {
                self.progress.show(self.arm, &phase);
            }
        }
    }
}
