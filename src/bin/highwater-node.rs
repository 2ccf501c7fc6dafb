//! All that runs on a node, in one small static program: PID 1 of the deterministic node, the observer of a real one, the pause process
//! and the workloads.

use highwater::{guest, workload};
use std::process::ExitCode;

#[expect(clippy::print_stderr, clippy::print_stdout, reason = "the one place where answers and errors leave the program")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let observed = match words[..] {
        ["observe", order, frames, socket] => Some(guest::observe(order.as_ref(), frames.as_ref(), socket.as_ref())),
        ["tell", socket, line] => Some(guest::tell(socket.as_ref(), line).map(|answer| print!("{answer}"))),
        _ => None,
    };
    if let Some(result) = observed {
        return match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("highwater-node {}: {error}", words[0]);
                ExitCode::FAILURE
            }
        };
    }
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
