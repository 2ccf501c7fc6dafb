//! What the end-to-end tests share: running the binary and expecting how it ends.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// The command `highwater`. The cache is the user's own, so that a booted node is booted once for all tests.
pub fn highwater(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    command.args(arguments);
    command
}

/// Runs a command to its end and expects this exit code.
#[track_caller]
pub fn expect(code: i32, command: &mut Command) -> Output {
    let output = command.output().expect("the binary starts");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{command:?} ended otherwise:\n{text}");
    output
}

/// A folder for the run and for leases of its own, so that other tests' machines are not seen.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Place {
        Place(tempfile::tempdir().expect("a temporary directory"))
    }

    pub fn out(&self) -> PathBuf {
        self.0.path().join("run")
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = highwater(arguments);
        command.env("XDG_STATE_HOME", self.0.path().join("state")).env_remove("RUST_BACKTRACE");
        command
    }

    /// Starts a command and reads its progress until a line contains this.
    pub fn until(&self, mut command: Command, text: &str) -> Child {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let seen = lines.by_ref().map_while(Result::ok).any(|line| line.contains(text));
        assert!(seen, "no line of progress contains {text:?}");
        // The pipe stays open and empty, so that the run never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        child
    }

    /// Nothing is left: no run directory, and nothing that `clean` finds.
    #[track_caller]
    pub fn assert_empty(&self) {
        assert!(!self.out().exists(), "the run directory is left");
        let output = expect(0, &mut self.command(&["clean", "--json"]));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let lists = found.as_object().expect("an object").values().filter_map(|value| value.as_array());
        assert!(lists.clone().count() > 0 && lists.into_iter().all(|list| list.is_empty()), "clean found {text}");
    }
}

/// The children of a process, as the kernel lists them.
pub fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process lives");
    let lists = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(|pid| pid.parse().expect("a pid")).collect::<Vec<u32>>()).collect()
}

pub fn alive(pid: u32) -> bool {
    // A zombie is no process any more: its memory and files are gone.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

pub fn signal(child: &Child, name: &str) {
    expect(0, Command::new("kill").args([format!("-{name}"), child.id().to_string()]));
}
