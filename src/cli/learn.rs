//! `highwater learn`: the labs as a course, each with a prediction first.

use super::run::{self, How};
use super::{Exit, input, print, print_json, studied};
use crate::lab::{Lab, Lesson, one_line};
use crate::provider::interrupt;
use crate::provider::lease::state_dir;
use crate::record::RunDir;
use crate::report::{self, Told};
use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `highwater learn`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The lab to learn from; by default the next one of the course.
    lab: Option<String>,
    /// The course.
    #[arg(long, value_enum, default_value_t = Course::Talk)]
    course: Course,
    /// Only say which labs the course has and what you predicted so far.
    #[arg(long)]
    list: bool,
    /// Your prediction, the number of an answer, instead of being asked for it.
    #[arg(long, value_name = "NUMBER")]
    predict: Option<usize>,
    /// A finished run of the lab, instead of running it.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["out", "jobs"])]
    run: Option<Utf8PathBuf>,
    #[command(flatten)]
    how: How,
}

/// A course: labs in the order in which they are best learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Course {
    /// The talk "To Swap or Not To Swap", from its first question to its alerts.
    Talk,
    /// Memory QoS: what the kubelet writes, what it does, and the way back.
    MemoryQos,
}

impl Course {
    /// The names of its labs, in order.
    #[must_use]
    pub fn labs(self) -> &'static [&'static str] {
        match self {
            Course::Talk => &[
                "swap/cpu-inference",
                "swap/gpu-inference",
                "swap/unlimited-exhausts-node",
                "swap/limited-entitlement",
                "swap/traffic-burst",
                "swap/mis-sized",
                "swap/multi-model",
                "swap/tiers",
                "swap/training",
                "swap/speech",
                "swap/latency-critical",
                "swap/etcd",
                "swap/alerts",
            ],
            Course::MemoryQos => &[
                "memory-qos/node-budget",
                "memory-qos/upgrade-defaults",
                "memory-qos/file-reader",
                "memory-qos/hierarchy",
                "memory-qos/unprotected-neighbour",
                "memory-qos/concurrent-loaders",
                "memory-qos/offload-neighbour",
                "memory-qos/daemon-activity",
                "memory-qos/guaranteed-page-cache",
                "memory-qos/throttle-boundary",
                "memory-qos/eviction",
                "memory-qos/psi-cost",
                "memory-qos/policies",
                "memory-qos/rollback",
            ],
        }
    }
}

/// What was predicted for a lab and whether it came true; kept in the state directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Learned {
    /// The number of the answer; none when no prediction was made.
    predicted: Option<usize>,
    /// Whether the run showed it; none when it showed none of the answers.
    right: Option<bool>,
}

type Progress = BTreeMap<String, Learned>;

/// Runs the command.
pub fn run(args: Args, json: bool) -> anyhow::Result<Exit> {
    let mut progress = read_progress()?;
    let course = args.course.labs();
    if args.list {
        return list(course, &progress, json);
    }
    let next = || course.iter().find(|lab| !progress.contains_key(**lab)).map(|lab| (*lab).to_owned());
    let Some(name) = args.lab.clone().or_else(next) else {
        return print(
            "you have been through the whole course: `highwater learn --list`, or `highwater learn LAB` for one of it again",
        );
    };
    let lab = input::lab(&name)?;
    let no_lesson = || Exit::BadInput.because(format!("{name} has no lesson: write one in lesson.yaml beside its lab.yaml"));
    let lesson = lab.lesson.as_ref().ok_or_else(no_lesson)?;
    let choices = lesson.predict.choices.len();
    if let Some(number) = args.predict.filter(|number| !(1..=choices).contains(number)) {
        return Err(Exit::BadInput.because(format!("--predict {number}: the lab has answers 1 to {choices}")));
    }
    if !json {
        print(before(&lab, lesson))?;
    }
    let predicted = match args.predict {
        None if !json => ask(choices)?,
        given => given,
    };
    let (run, studied) = match &args.run {
        Some(path) => finished(path, &lab)?,
        None => run::conduct(&lab, &[], 1, args.how)?,
    };
    let told = report::told(lesson, &studied.result);
    let right = predicted.filter(|_| told.shown).map(|number| told.choices[number - 1].right);
    progress.insert(lab.name.clone(), Learned { predicted, right });
    write_progress(&progress)?;
    let next = course.iter().find(|lab| !progress.contains_key(**lab));
    if json {
        let lesson = serde_json::json!({
            "lab": lab.name, "run": run.path(), "predicted": predicted, "right": right, "lesson": told, "next": next,
        });
        print_json(&lesson)?;
    } else {
        print(studied.terminal())?;
        print(after(&told, predicted, right))?;
        let next = next.map_or("the course is done".to_owned(), |next| format!("highwater learn ({next})"));
        print(format!("\nreport  {}\nnext    {next}", run.file("report.html")))?;
    }
    Ok(studied.exit())
}

/// A run that was made before; of another lab it teaches nothing here.
fn finished(path: &Utf8PathBuf, lab: &Lab) -> anyhow::Result<(RunDir, studied::Studied)> {
    let run = input::one(path)?;
    let recorded = input::recorded(&run)?;
    if recorded.name != lab.name {
        return Err(Exit::BadInput.because(format!("{path} is a run of {}, not of {}", recorded.name, lab.name)));
    }
    let studied = studied::open(&run, &recorded, false)?;
    Ok((run, studied))
}

fn before(lab: &Lab, lesson: &Lesson) -> String {
    let choices = lesson.predict.choices.iter().enumerate().map(|(at, choice)| format!("  {}  {}\n", at + 1, one_line(choice)));
    format!(
        "{}\n{}\n\n{}\n\nBefore it runs: {}\n{}",
        lab.name,
        lab.title,
        one_line(&lab.question),
        one_line(&lesson.predict.ask),
        choices.collect::<String>()
    )
}

fn after(told: &Told, predicted: Option<usize>, right: Option<bool>) -> String {
    let said = predicted.map(|number| told.choices[number - 1].say.as_str());
    let found = told.choices.iter().find(|choice| choice.right).map(|choice| choice.say.as_str());
    let verdict = match (said, right, found) {
        (Some(said), Some(true), _) => format!("You predicted it: {said}."),
        (Some(said), _, Some(found)) => format!("You predicted: {said}. It was otherwise: {found}."),
        (None, _, Some(found)) => format!("The answer: {found}."),
        (_, _, None) => "This run does not show which answer is right: see what was expected above.".to_owned(),
    };
    let next: String = told.next.iter().map(|next| format!("\n  {next}")).collect();
    format!("\n{verdict}\n\nWhat happened\n  {}\n\nWhy\n  {}\n\nWhat to try next{next}", told.happened, told.why)
}

/// Reads the number of an answer; an empty line or the end of the input is no prediction.
#[expect(clippy::print_stderr, reason = "a question to the user")]
fn ask(choices: usize) -> anyhow::Result<Option<usize>> {
    let mut input = std::io::stdin().lock();
    loop {
        eprint!("Your prediction, 1 to {choices} (Enter for none): ");
        std::io::stderr().flush()?;
        if !input_waits()? {
            return Err(Exit::Interrupted.because("interrupted; nothing was run"));
        }
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 || line.trim().is_empty() {
            return Ok(None);
        }
        match line.trim().parse() {
            Ok(number) if (1..=choices).contains(&number) => return Ok(Some(number)),
            _ => eprintln!("{:?} is not the number of an answer", line.trim()),
        }
    }
}

/// Waits until there is something to read; false when the user asked to stop meanwhile.
fn input_waits() -> anyhow::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let look = Timespec::try_from(Duration::from_millis(200))?;
    let input = std::io::stdin();
    while !interrupt::requested() {
        match poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&look)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(false)
}

fn list(course: &[&str], progress: &Progress, json: bool) -> anyhow::Result<Exit> {
    if json {
        let labs = course.iter().map(|lab| serde_json::json!({ "lab": lab, "learned": progress.get(*lab) }));
        return print_json(&labs.collect::<Vec<_>>());
    }
    let word = |lab: &str| match progress.get(lab) {
        None => "",
        Some(Learned { right: Some(true), .. }) => "predicted",
        Some(Learned { right: Some(false), .. }) => "predicted otherwise",
        Some(_) => "seen",
    };
    print(course.iter().map(|lab| format!("{lab:34}{}", word(lab)).trim_end().to_owned()).collect::<Vec<_>>().join("\n"))
}

fn file() -> PathBuf {
    state_dir().join("learned.json")
}

fn read_progress() -> anyhow::Result<Progress> {
    match fs_err::read(file()) {
        Ok(text) => serde_json::from_slice(&text)
            .map_err(|e| Exit::BadInput.because(format!("{}: {e}: remove it to begin the course anew", file().display()))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Progress::new()),
        Err(e) => Err(e.into()),
    }
}

fn write_progress(progress: &Progress) -> anyhow::Result<()> {
    fs_err::create_dir_all(state_dir())?;
    let mut fresh = tempfile::NamedTempFile::new_in(state_dir())?;
    fresh.write_all(&serde_json::to_vec_pretty(progress)?)?;
    fresh.persist(file())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_courses_have_every_lab_of_their_group_once() {
        for (course, group) in [(Course::Talk, "swap/"), (Course::MemoryQos, "memory-qos/")] {
            let mut labs = course.labs().to_vec();
            labs.sort_unstable();
            let all: Vec<_> = crate::lab::catalogue().map(|lab| lab.name).filter(|name| name.starts_with(group)).collect();
            assert_eq!(labs, all);
        }
    }

    #[test]
    fn a_prediction_is_told_right_wrong_or_not_shown() {
        let choice = |say: &str, right| report::Choice { say: say.into(), right };
        let mut told = Told {
            ask: "q".into(),
            choices: vec![choice("lives", false), choice("dies", true)],
            shown: true,
            happened: "h".into(),
            why: "w".into(),
            next: vec!["n".into()],
        };
        assert!(after(&told, Some(2), Some(true)).contains("You predicted it: dies."));
        assert!(after(&told, Some(1), Some(false)).contains("You predicted: lives. It was otherwise: dies."));
        assert!(after(&told, None, None).contains("The answer: dies."));
        told.choices[1].right = false;
        assert!(after(&told, Some(1), None).contains("does not show"));
    }
}
