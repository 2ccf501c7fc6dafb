//! What the end-to-end tests share: running the binary and expecting how it ends.

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
