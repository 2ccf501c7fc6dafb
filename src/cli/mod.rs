//! The command line: arguments, progress, exit codes.

mod audit;
mod capture;
mod clean;
mod comparable;
mod diff;
mod docker;
mod doctor;
mod exit;
mod export;
mod fidelity;
mod image;
mod input;
mod inventory;
mod lab;
mod learn;
mod list;
mod plan;
mod report;
mod rollback;
mod run;
mod show;
mod snapshot;
mod studied;
mod sweep;
mod verify;
mod watch;

use crate::provider::kernel::KernelSource;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

pub use exit::Exit;
pub use learn::Course;

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
    /// List the labs of the catalogue.
    List,
    /// Validate a lab and print what it asks, does and expects.
    Show {
        /// A name of the catalogue, a directory, or a file with all documents.
        lab: String,
    },
    /// Run a lab and compare its arms.
    Run(run::Arguments),
    /// Go through the labs of a course: predict, run, see what happened and why.
    Learn(learn::Args),
    /// Set one field of a lab to one value after the other and find where it turns from harm to help.
    Sweep(sweep::Arguments),
    /// Follow a run that another process is writing: phases, virtual time, memory against its limits, swap, pressure, events.
    Watch {
        /// A run directory.
        run: camino::Utf8PathBuf,
    },
    /// Print the control ledger of a run.
    Snapshot {
        /// A run directory.
        run: camino::Utf8PathBuf,
    },
    /// Capture a node: its facts, its pods' control files and what they use. Reads only.
    Capture(capture::Args),
    /// Make a lab from a capture.
    #[command(subcommand)]
    Lab(lab::Command),
    /// Say whether a snapshot's control files are what the kubelet writes, file by file: fulfilled, drifted, or no evidence.
    Verify(Box<verify::Args>),
    /// Compare two runs: controls exactly, outcomes as far as their substrates allow.
    Diff {
        /// A run directory.
        first: camino::Utf8PathBuf,
        /// Another one.
        second: camino::Utf8PathBuf,
        /// Compare them although more than the lab's subject differs.
        #[arg(long)]
        anyway: bool,
    },
    Rollback(rollback::Args),
    /// Study an old run again, from its files only; decide over runs with several seeds; or say what runs mean for the talk's framework.
    Report(report::Args),
    /// Write a run for other tools: CSV, OpenMetrics, a Grafana dashboard, Markdown, JUnit.
    Export(export::Args),
    /// Remove what killed runs left behind.
    Clean {
        /// Also remove booted checkpoints and kernels from the cache.
        #[arg(long)]
        cache: bool,
    },
    /// Say what each provider needs and what this machine has.
    Doctor {
        #[command(flatten)]
        kernel: KernelArguments,
    },
    /// Compute what the kubelet writes for Pods, explain it, compare versions and configurations.
    Plan(Box<plan::Options>),
    /// Run a lab's pods on a real kubelet and compare every byte it writes with the simulator's plan.
    Fidelity(fidelity::Args),
    /// Say what a cluster's nodes have, request and use, which pods bear swap, and whose swap would be too small.
    Audit(audit::Args),
    /// Say which GPUs are held with little use and which have a growing queue, over time, and what to ask about each.
    Inventory(inventory::Args),
    /// Build, list and prune node images: disks with a real kubelet for the providers on real Kubernetes.
    Image(image::Args),
    /// A throwaway Docker in a VM of its own for the docker and kind commands, and whether a Docker will do.
    Docker(docker::Args),
    /// Print a shell's completion script.
    Completions {
        /// The shell to complete for.
        shell: clap_complete::Shell,
    },
}

/// Where the deterministic node's kernel comes from.
#[derive(Debug, clap::Args)]
struct KernelArguments {
    /// A bzImage to boot instead of Debian's cloud kernel.
    #[arg(long, value_name = "VMLINUZ")]
    kernel: Option<std::path::PathBuf>,
    /// The directory with its modules; by default /lib/modules/RELEASE.
    #[arg(long, value_name = "DIR", requires = "kernel")]
    kernel_modules: Option<std::path::PathBuf>,
}

impl From<KernelArguments> for KernelSource {
    fn from(arguments: KernelArguments) -> KernelSource {
        match arguments.kernel {
            Some(image) => KernelSource::Files { image, modules: arguments.kernel_modules },
            None => KernelSource::Debian,
        }
    }
}

/// The command line as clap knows it: what man pages are made from.
#[must_use]
pub fn command() -> clap::Command {
    use clap::CommandFactory;
    Cli::command()
}

/// Parses the arguments, runs the command and maps how it ended onto the documented exit codes.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(tracing_subscriber::EnvFilter::from_env("HIGHWATER_LOG"))
        .without_time()
        .init();
    let ended = crate::provider::interrupt::listen().map_err(anyhow::Error::from).and_then(|()| run(cli));
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => Exit::report(&error).into(),
    }
}

fn run(cli: Cli) -> anyhow::Result<Exit> {
    let json = cli.json;
    match cli.command {
        Command::List => list::run(json),
        Command::Show { lab } => show::run(&lab, json),
        Command::Run(arguments) => run::run(arguments, json),
        Command::Learn(args) => learn::run(args, json),
        Command::Sweep(arguments) => sweep::run(arguments, json),
        Command::Watch { run } => watch::run(&run, json),
        Command::Snapshot { run } => snapshot::run(&run, json),
        Command::Capture(args) => capture::run(&args, json),
        Command::Lab(command) => lab::run(&command, json),
        Command::Verify(args) => verify::run(&args, json),
        Command::Diff { first, second, anyway } => diff::run(&first, &second, anyway, json),
        Command::Rollback(args) => rollback::run(&args, json),
        Command::Report(args) => report::run(&args, json),
        Command::Export(args) => export::run(&args, json),
        Command::Clean { cache } => clean::run(cache, json),
        Command::Doctor { kernel } => doctor::run(&kernel.into(), json),
        Command::Plan(options) => plan::run(&options, json),
        Command::Fidelity(args) => fidelity::run(&args, json),
        Command::Audit(args) => audit::run(&args, json),
        Command::Inventory(args) => inventory::run(&args, json),
        Command::Image(args) => image::run(&args, json),
        Command::Docker(args) => docker::run(&args, json),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut command(), "highwater", &mut std::io::stdout());
            Ok(Exit::AsExpected)
        }
    }
}

/// Writes text to stdout, without anything in it that steers a terminal.
fn print(text: impl std::fmt::Display) -> anyhow::Result<Exit> {
    write(crate::report::plain(&text.to_string()))
}

/// A reader that went away is no error.
fn write(mut text: String) -> anyhow::Result<Exit> {
    use std::io::Write;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(anyhow::Error::new(e).context("cannot write to stdout")),
        _ => Ok(Exit::AsExpected),
    }
}

/// Writes a value as JSON to stdout.
fn print_json(value: &impl serde::Serialize) -> anyhow::Result<Exit> {
    write(serde_json::to_string_pretty(value)?)
}
