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
    let arguments = ["run", lab.to_str().expect("UTF-8"), "--out", out.to_str().expect("UTF-8")];
    let output = expect(4, &mut place.command(&arguments));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.lines().find(|line| line.contains("the pressure this lab is about did not occur"));
    assert!(last.is_some_and(|line| line.starts_with("UNINFORMATIVE")), "{text}");
    let page = std::fs::read_to_string(out.join("report.html")).expect("it has a report all the same");
    assert!(page.contains("UNINFORMATIVE"), "the page says it as well");
    // Studied again from its files alone, it ends the same.
    expect(4, &mut place.command(&["report", out.to_str().expect("UTF-8")]));
}
