//! All that runs on a node, in one small static program: PID 1 of the deterministic node, the pause process and the workloads.

use highwater::{guest, workload};
use std::process::ExitCode;

#[expect(clippy::print_stderr, reason = "the one place where errors leave the program")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|name| name == "guest") {
        let error = guest::run();
        eprintln!("highwater-node guest: {error}");
        return ExitCode::FAILURE;
    }
    match workload::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("highwater-node: {error}");
            workload::exit_code(&error)
        }
    }
}
