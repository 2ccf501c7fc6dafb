//! `highwater watch`: a run that is being written, a finished one, one whose process was killed; plain, as JSON and on a terminal.

mod support;

use serde_json::Value;
use std::process::{Command, Output};
use support::{Place, children, expect, signal};

const LAB: &str = "swap/cpu-inference";

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn lines(output: &Output) -> Vec<Value> {
    text(output).lines().map(|line| serde_json::from_str(line).expect("one object a line")).collect()
}

/// The last line of each arm, without what happened since the line before, and the last line of all.
fn last_states(lines: &[Value]) -> Vec<Value> {
    let mut arms: Vec<Value> = Vec::new();
    for line in lines {
        let mut line = line.clone();
        line.as_object_mut().expect("an object").remove("events");
        arms.retain(|known| known["arm"] != line["arm"]);
        arms.push(line);
    }
    arms.sort_by_key(|arm| arm["arm"].to_string());
    arms
}

/// Every event of the lines, by arm, in order.
fn events(lines: &[Value]) -> Vec<String> {
    let of = |line: &Value| {
        line["events"].as_array().into_iter().flatten().map(|e| format!("{} {e}", line["arm"])).collect::<Vec<_>>()
    };
    let mut all: Vec<String> = lines.iter().flat_map(of).collect();
    // A stable sort keeps the order in which an arm's events came.
    all.sort_by_key(|event| event.split(' ').next().map(str::to_owned));
    all
}

/// A command on a terminal of its own, of 100 columns and 50 rows; what it wrote there.
fn on_a_terminal(command: &Command, keys: &str) -> Output {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| format!("'{}'", word.to_str().expect("UTF-8"))).collect();
    let mut script = Command::new("script");
    script.args(["-qec", &format!("stty cols 100 rows 50; {keys}{}", words.join(" ")), "/dev/null"]);
    for (name, value) in command.get_envs() {
        script.env(name, value.unwrap_or_default());
    }
    script.stdin(std::process::Stdio::null()).output().expect("util-linux has script")
}

#[test]
fn a_run_is_followed_while_it_is_written_and_a_finished_one_says_the_same() {
    let place = Place::new();
    let out = place.out();
    let out = out.to_str().expect("UTF-8");
    let mut run = place.until(place.command(&["run", LAB, "--jobs", "2", "--out", out]), "no-pressure: serve");
    let seen = lines(&expect(0, &mut place.command(&["watch", out, "--json"])));
    assert_eq!(run.wait().expect("it ends").code(), Some(0));
    assert!(!place.out().join("live").exists(), "nothing of it stays in a finished run");

    // It was seen while it went on: one arm in the middle of its script, others before theirs.
    let stage = |stage: &str| seen.iter().filter(|line| line["stage"] == stage).count();
    assert!(stage("running") > 0 && stage("waiting") > 0 && stage("done") > 2, "{seen:?}");
    assert_eq!(seen.last().expect("a last line")["conclusion"], "AS_EXPECTED");

    let finished = lines(&expect(0, &mut place.command(&["watch", out, "--json"])));
    assert_eq!(last_states(&finished), last_states(&seen));
    assert_eq!(events(&finished), events(&seen), "each event is told once, in order");
    let swapping = finished.iter().find(|line| line["arm"] == "unlimited-swap").expect("the arm");
    let pod = &swapping["pods"][0];
    let number = |key: &str| pod[key].as_u64().unwrap_or_else(|| panic!("{key} of {pod}"));
    assert!(number("memory") <= number("max") && number("swap") > 1 << 20, "{pod}");

    let plain = text(&expect(0, &mut place.command(&["watch", out])));
    assert!(!plain.contains('\u{1b}'), "{plain}");
    for part in ["no-swap", "server/server OOM-killed, start 1", "phase serve begins", "of max 12Mi", "AS EXPECTED"] {
        assert!(plain.contains(part), "{part} is missing: {plain}");
    }

    // On a terminal: one picture, no line longer than it is wide; and the final table has its curves there and only there.
    let drawn = on_a_terminal(&place.command(&["watch", out]), "");
    assert_eq!(drawn.status.code(), Some(0), "{drawn:?}");
    assert!(text(&drawn).contains("pod/server") && text(&drawn).lines().all(|line| line.chars().count() <= 101), "{drawn:?}");
    let table = text(&on_a_terminal(&place.command(&["report", out]), ""));
    assert!(table.contains("memory of pods, over time") && table.contains('█'), "{table}");
    let piped = text(&expect(0, &mut place.command(&["report", out])));
    assert!(!piped.contains("over time") && !piped.contains('█'), "{piped}");
}

#[test]
fn a_killed_run_is_told_from_one_that_goes_on() {
    let place = Place::new();
    let out = place.out();
    let out = out.to_str().expect("UTF-8");
    let mut run = place.until(place.command(&["run", LAB, "--out", out]), ": serve");
    // Interrupted on a terminal it leaves the cursor at a line's start, visible and without colour.
    let watch = place.command(&["watch", out]);
    let interrupted = on_a_terminal(&watch, "timeout --foreground --preserve-status -s INT 2 ");
    let drawn = text(&interrupted);
    assert_eq!(interrupted.status.code(), Some(130), "{drawn:?}");
    assert!(drawn.ends_with('\n') && drawn.contains("pod/server"), "{drawn:?}");
    assert!(!drawn.contains("\u{1b}[?") && !drawn.contains("m\u{1b}["), "no mode is left set: {drawn:?}");
    assert!(!children(run.id()).is_empty(), "the run goes on");
    signal(&run, "KILL");
    run.wait().expect("it ends");
    let output = expect(3, &mut place.command(&["watch", out]));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("its run was killed; `highwater clean`"), "{told}");
    expect(0, &mut place.command(&["clean"]));
    place.assert_empty();
    let none = expect(2, &mut place.command(&["watch", &format!("{out}\u{1b}[31m")]));
    assert!(!String::from_utf8_lossy(&none.stderr).contains('\u{1b}'), "a path cannot colour the terminal");
}
