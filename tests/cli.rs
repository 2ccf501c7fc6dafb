//! How a run ends when something is wrong: one clear message, the documented exit code, and nothing left behind.

mod support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::{expect, highwater};

const LAB: &str = "swap/cpu-inference";

/// A folder for the run and for leases of its own, so that other tests' machines are not seen.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a temporary directory"))
    }

    fn out(&self) -> PathBuf {
        self.0.path().join("run")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = highwater(arguments);
        command.env("XDG_STATE_HOME", self.0.path().join("state")).env_remove("RUST_BACKTRACE");
        command
    }

    fn run(&self, further: &[&str]) -> Command {
        let out = self.out();
        let mut command = self.command(&["run", LAB, "--out", out.to_str().expect("UTF-8")]);
        command.args(further);
        command
    }

    /// Starts a run and reads its progress until a line contains this.
    fn run_until(&self, text: &str) -> Child {
        let mut child = self.run(&[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let seen = lines.by_ref().map_while(Result::ok).any(|line| line.contains(text));
        assert!(seen, "no line of progress contains {text:?}");
        // The pipe stays open and empty, so that the run never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        child
    }

    /// Nothing of the run is left: no directory, and nothing that `clean` finds.
    #[track_caller]
    fn assert_empty(&self) {
        assert!(!self.out().exists(), "the run directory is left");
        let output = expect(0, &mut self.command(&["clean", "--json"]));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let lists = found.as_object().expect("an object").values().filter_map(|value| value.as_array());
        assert!(lists.clone().count() > 0 && lists.into_iter().all(|list| list.is_empty()), "clean found {text}");
    }
}

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The children of a process, as the kernel lists them.
fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process lives");
    let lists = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(|pid| pid.parse().expect("a pid")).collect::<Vec<u32>>()).collect()
}

fn alive(pid: u32) -> bool {
    // A zombie is no process any more: its memory and files are gone.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn signal(child: &Child, name: &str) {
    expect(0, Command::new("kill").args([format!("-{name}"), child.id().to_string()]));
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
    let text = stderr(&expect(2, &mut place.run(&["--arm", "nope"])));
    assert!(text.contains("no arm nope") && text.contains("no-pressure"), "{text}");
    place.assert_empty();
}

#[test]
fn a_missing_qemu_is_named_with_what_to_do() {
    let place = Place::new();
    let text = stderr(&expect(3, place.run(&[]).env("HIGHWATER_QEMU", "/nowhere/qemu")));
    assert!(text.contains("/nowhere/qemu") && text.contains("install"), "{text}");
    place.assert_empty();
}

#[test]
fn an_arm_that_takes_too_long_is_a_fault_and_no_result() {
    let place = Place::new();
    let text = stderr(&expect(3, &mut place.run(&["--guard", "1"])));
    assert!(text.contains("arm "), "{text}");
    place.assert_empty();
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let place = Place::new();
    let mut child = place.run_until(": serve");
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
    let mut child = place.run_until(": serve");
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
