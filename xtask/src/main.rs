//! Tasks of the repository: build, demo, test, check. Run as `cargo xtask TASK`.

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

// One variant, one file in this folder.
#[derive(Debug, Subcommand)]
enum Task {}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {}
}
