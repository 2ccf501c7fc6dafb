//! `highwater watch RUN`: a run that another process is writing, as it stands; of a finished one the last state.

mod arm;
mod show;

use super::{Exit, input, print, write};
use crate::lab::Lab;
use crate::provider::interrupt;
use crate::record::{Follow, Frame, RunDir, SEEDS, Seeds};
use arm::{Stage, State};
use camino::Utf8Path;
use console::Term;
use std::time::Duration;

/// How often the run is looked at: an eye sees no more, and the host hears no more often from its guests.
const LOOK: Duration = Duration::from_millis(200);

/// An arm of the run and where its frames come from.
#[derive(Debug)]
struct Watched {
    run: RunDir,
    arm: String,
    follow: Option<Follow>,
    state: State,
}

/// Follows a run to its end.
pub fn run(path: &Utf8Path, json: bool) -> anyhow::Result<Exit> {
    let run = RunDir::open(path).map_err(|e| Exit::BadInput.because(e))?;
    let lab = input::recorded(&run)?;
    let term = Term::stdout();
    let mut screen = show::Screen::new(&lab, (!json && term.is_term()).then_some(term));
    let mut arms: Vec<Watched> = Vec::new();
    loop {
        // Asked before the look, so that the look sees the end of what has ended.
        let ended = run.file("result.json").is_file();
        let written = run.is_written();
        discover(&run, &lab, &mut arms)?;
        for watched in &mut arms {
            watched.look()?;
            if json && watched.state.moved() {
                write(serde_json::to_string(&show::line(&watched.state))?)?;
                watched.state.seen();
            }
        }
        if !json {
            screen.show(arms.iter_mut().map(|watched| &mut watched.state), ended)?;
        }
        if ended {
            break;
        }
        if interrupt::requested() {
            return Ok(Exit::Interrupted);
        }
        if !run.file("lab.yaml").is_file() {
            return Err(
                Exit::Substrate.because(format!("{path} is gone: the run ended without a result, and its own output says why"))
            );
        }
        if !written && !run.is_written() && !run.file("result.json").is_file() {
            let message =
                format!("nobody writes {path} and it has no result: its run was killed; `highwater clean` removes what it left");
            return Err(Exit::Substrate.because(message));
        }
        std::thread::sleep(LOOK);
    }
    let result: serde_json::Value = run.read_json("result.json")?;
    let told = |key: &str| result[key].as_str().unwrap_or_default();
    if json {
        let end = serde_json::json!({"run": path, "conclusion": result["conclusion"], "because": result["because"]});
        write(serde_json::to_string(&end)?)
    } else {
        print(format!("\n{}  {}\nreport  {}", told("conclusion").replace('_', " "), told("because"), run.file("report.html")))
    }
}

/// Finds the arms that are being run: each has an order before any of them begins.
fn discover(run: &RunDir, lab: &Lab, arms: &mut Vec<Watched>) -> anyhow::Result<()> {
    let mut runs = vec![(String::new(), run.clone())];
    if run.file(SEEDS).is_file() {
        let seeds: Seeds = run.read_json(SEEDS)?;
        let member =
            |seed: &crate::record::SeedRun| Some((format!("seed {} ", seed.seed), RunDir::open(&run.file(&seed.run)).ok()?));
        runs = seeds.seeds.iter().filter_map(member).collect();
    }
    for (seed, run) in &runs {
        for arm in &lab.arms {
            let there = |kind: &str| run.file(kind).is_file();
            let begun = there(&format!("plan/{}.json", arm.name));
            if begun && !arms.iter().any(|known| known.run == *run && known.arm == arm.name) {
                let state = State::new(format!("{seed}{}", arm.name), run.plan(&arm.name)?);
                arms.push(Watched { run: run.clone(), arm: arm.name.clone(), follow: None, state });
            }
        }
    }
    Ok(())
}

impl Watched {
    fn look(&mut self) -> anyhow::Result<()> {
        if matches!(self.state.stage, Stage::Done | Stage::Failed(_)) {
            return Ok(());
        }
        if self.follow.is_none() {
            self.follow = self.run.follow(&self.arm);
        }
        if let Some(follow) = &mut self.follow {
            for frame in follow.new_frames().map_err(|e| Exit::Substrate.because(format!("arm {}: {e}", self.arm)))? {
                self.state.see(&frame);
            }
        } else if self.run.file(&format!("report/{}.jsonl", self.arm)).is_file() {
            self.recorded()?;
        }
        Ok(())
    }

    /// The records of an arm that has ended, in the order of time.
    fn recorded(&mut self) -> anyhow::Result<()> {
        let mut events = self.run.events(&self.arm)?.peekable();
        for frame in self.run.samples(&self.arm)? {
            let frame = frame?;
            if let Frame::Tick(tick) = &frame {
                while let Some(event) = events.next_if(|e| e.as_ref().is_ok_and(|e| e.at_ns <= tick.at_ns)) {
                    self.state.see(&Frame::Event(event?));
                }
            }
            if matches!(frame, Frame::Done { .. }) {
                for event in events.by_ref() {
                    self.state.see(&Frame::Event(event?));
                }
            }
            self.state.see(&frame);
        }
        Ok(())
    }
}
