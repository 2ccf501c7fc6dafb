//! All that runs on a node, in one small static program: PID 1 of the deterministic node, the pause process and the workloads.

use highwater::workload;
use std::process::ExitCode;

#[expect(clippy::print_stderr, reason = "the one place where a workload's error leaves the program")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match workload::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("highwater-node: {error}");
            workload::exit_code(&error)
        }
    }
}
