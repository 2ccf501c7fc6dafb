//! What the end-to-end tests share: running the binary in a place of its own, and reading what a run left.

use highwater::study::LabResult;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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

/// Runs a lab into a directory and expects this exit code.
#[track_caller]
pub fn run_lab(code: i32, lab: &str, out: &Path, further: &[&str]) -> Output {
    expect(code, highwater(&["run", lab, "--out", out.to_str().expect("UTF-8")]).args(further))
}

/// What the study of a run found.
pub fn result(run: &Path) -> LabResult {
    let text = std::fs::read_to_string(run.join("result.json")).expect("a run has a result");
    serde_json::from_str(&text).expect("the result is of this version")
}

/// The files below a directory, as paths relative to it, sorted.
pub fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a readable directory").flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path => found.push(path.strip_prefix(root).expect("it is below").to_owned()),
            }
        }
    }
    found.sort();
    found
}
