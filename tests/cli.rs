//! How a run ends when something is wrong: one clear message, the documented exit code, and nothing left behind.

mod support;

use std::path::Path;
use std::process::Command;
use support::{Place, alive, children, expect, highwater, signal};

const LAB: &str = "swap/cpu-inference";

fn run(place: &Place, further: &[&str]) -> Command {
    let out = place.out();
    let mut command = place.command(&["run", LAB, "--out", out.to_str().expect("UTF-8")]);
    command.args(further);
    command
}

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_mistake_in_a_lab_is_told_with_file_and_line() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/labs/bad/unknown-fields.yaml");
    let output = expect(2, &mut highwater(&["show", file.to_str().expect("UTF-8")]));
    let text = stderr(&output);
    assert!(text.contains("unknown-fields.yaml:") && text.matches("unknown field").count() > 1, "{text}");
}

#[test]
fn an_unknown_arm_leaves_no_directory() {
    let place = Place::new();
    let text = stderr(&expect(2, &mut run(&place, &["--arm", "nope"])));
    assert!(text.contains("no arm nope") && text.contains("no-pressure"), "{text}");
    place.assert_empty();
}

#[test]
fn a_missing_qemu_is_named_with_what_to_do() {
    let place = Place::new();
    let text = stderr(&expect(3, run(&place, &[]).env("HIGHWATER_QEMU", "/nowhere/qemu")));
    assert!(text.contains("/nowhere/qemu") && text.contains("install"), "{text}");
    place.assert_empty();
}

#[test]
fn an_arm_that_takes_too_long_is_a_fault_and_no_result() {
    let place = Place::new();
    let text = stderr(&expect(3, &mut run(&place, &["--guard", "1"])));
    assert!(text.contains("arm "), "{text}");
    place.assert_empty();
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let place = Place::new();
    let mut child = place.until(run(&place, &[]), ": serve");
    let machines = children(child.id());
    assert!(!machines.is_empty(), "arms run in processes of their own");
    signal(&child, "INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(machines.iter().all(|pid| !alive(*pid)), "a machine survived");
    place.assert_empty();
}

#[test]
fn a_killed_run_is_cleaned_up() {
    let place = Place::new();
    let mut child = place.until(run(&place, &[]), ": serve");
    let machines = children(child.id());
    assert!(!machines.is_empty(), "arms run in processes of their own");
    signal(&child, "KILL");
    child.wait().expect("it ends");
    assert!(place.out().exists(), "a killed process cannot clean up");
    expect(0, &mut place.command(&["clean"]));
    assert!(machines.iter().all(|pid| !alive(*pid)), "a machine survived");
    place.assert_empty();
}

#[test]
fn a_lab_whose_pressure_is_switched_off_decides_nothing() {
    let place = Place::new();
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/labs/calm");
    let out = place.out();
    let arguments = ["run", lab.to_str().expect("UTF-8"), "--seeds", "2", "--out", out.to_str().expect("UTF-8")];
    let output = expect(4, &mut place.command(&arguments));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.lines().find(|line| line.contains("the pressure this lab is about did not occur"));
    assert!(last.is_some_and(|line| line.starts_with("UNINFORMATIVE")), "{text}");
    assert!(text.contains("INCONCLUSIVE  the runs decide nothing, since one ended UNINFORMATIVE: seed 1: "), "{text}");
    let page = std::fs::read_to_string(out.join("report.html")).expect("it has a report all the same");
    assert!(page.contains("UNINFORMATIVE") && page.contains("seed-2/report.html"), "the page says it as well");
    // Studied again from its files alone, it ends the same.
    let path = |path: &str| out.join(path).to_str().expect("UTF-8").to_owned();
    let whole = path("");
    expect(4, &mut place.command(&["report", &whole]));
    // What needs one run names them.
    let several = stderr(&expect(2, &mut place.command(&["snapshot", &whole])));
    assert!(several.contains("seed-1") && several.contains("seed-2"), "{several}");
    expect(0, &mut place.command(&["diff", &path("seed-1"), &path("seed-2")]));
    // Decided again as runs that were made apart.
    let apart = place.out().with_file_name("apart").to_str().expect("UTF-8").to_owned();
    expect(4, &mut place.command(&["report", &path("seed-1"), &path("seed-2"), "--out", &apart]));
    let twice = stderr(&expect(2, &mut place.command(&["report", &path("seed-1"), &path("seed-1"), "--out", &path("no")])));
    assert!(twice.contains("same seed, 1"), "{twice}");

    // A rule that is changed after the run is seen, and so is a run of something else.
    let change = |file: &str, from: &str, to: &str| {
        let text = std::fs::read_to_string(path(file)).expect("it is there");
        assert!(text.contains(from), "{from}");
        std::fs::write(path(file), text.replace(from, to)).expect("it can be written");
    };
    change("lab.yaml", "atLeast: 0.5", "atLeast: 0.1");
    let changed = stderr(&expect(2, &mut place.command(&["report", &whole])));
    assert!(changed.contains("differs: acceptance; --anyway"), "{changed}");
    expect(4, &mut place.command(&["report", &whole, "--anyway"]));
    let result = std::fs::read_to_string(path("result.json")).expect("it has a result");
    let result: serde_json::Value = serde_json::from_str(&result).expect("JSON");
    assert_eq!(result["decision"]["anyway"], serde_json::json!(["acceptance"]));
    change("seed-2/lab.yaml", "memory: 256Mi", "memory: 252Mi");
    let (one, two, other) = (path("seed-1"), path("seed-2"), path("other"));
    for command in [&["diff", &one, &two][..], &["report", &one, &two, "--out", &other]] {
        let refused = stderr(&expect(2, &mut place.command(command)));
        assert!(refused.contains("differs: node.memory"), "{refused}");
    }
    expect(0, &mut place.command(&["diff", &path("seed-1"), &path("seed-2"), "--anyway"]));
}
