//! The command line: arguments, progress, exit codes.

mod exit;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

pub use exit::Exit;

/// Rehearse memory pressure on a Kubernetes node before it happens; the same lab gives the same answer every time.
#[derive(Debug, Parser)]
#[command(name = "highwater", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Machine-readable output on stdout.
    #[arg(long, global = true)]
    json: bool,
}

// One variant, one file: `run` of that file does the work and returns how the process ends.
#[derive(Debug, Subcommand)]
enum Command {
    /// Print a shell's completion script.
    Completions {
        /// The shell to complete for.
        shell: clap_complete::Shell,
    },
}

/// Parses the arguments, runs the command and maps how it ended onto the documented exit codes.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(tracing_subscriber::EnvFilter::from_env("HIGHWATER_LOG"))
        .without_time()
        .init();
    match run(cli) {
        Ok(exit) => exit.into(),
        Err(error) => Exit::report(&error).into(),
    }
}

fn run(cli: Cli) -> anyhow::Result<Exit> {
    let _json = cli.json;
    match cli.command {
        Command::Completions { shell } => {
            use clap::CommandFactory;
            clap_complete::generate(shell, &mut Cli::command(), "highwater", &mut std::io::stdout());
            Ok(Exit::AsExpected)
        }
    }
}
