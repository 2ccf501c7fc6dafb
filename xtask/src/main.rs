//! Tasks of the repository, run as `cargo xtask TASK`. One variant of [`Task`], one file in this folder.

mod bench;
mod bench_capture;
mod bench_plan;
mod build;
mod check;
mod demo;
mod deny;
mod docs;
mod fuzz;
mod install;
mod pictures;
mod schema;
mod test;
mod vectors;

use clap::{Parser, Subcommand};
use xshell::Shell;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Set up this machine, build, run the lab swap/cpu-inference and open its comparison: the first command of the README.
    Demo,
    /// Install QEMU when it is missing (root, Debian); otherwise say what to do.
    Install,
    /// Build the static programs that run on a node.
    Build,
    /// Install what is missing and pass every test: the second command of the README, and all that CI runs.
    Test {
        /// Also compare the simulator with real kubelets: builds node images and boots emulated machines, an hour and a half more.
        #[arg(long)]
        all: bool,
    },
    /// Print where the wall time of a warm run goes and what sampling costs; minutes, and it asserts nothing.
    Bench,
    /// Check the house rules only: module order, module sentences, file sizes, format, clippy, licences.
    Check,
    /// Measure what the policy costs beside parsing, and the memory of planning many nodes.
    BenchPlan {
        /// Nodes of 100 containers each.
        #[arg(default_value_t = 10_000)]
        nodes: usize,
    },
    /// Measure a capture and its verification on a node of many containers.
    BenchCapture {
        /// Containers.
        #[arg(default_value_t = 10_000)]
        containers: usize,
    },
    /// Write the JSON Schema of lab.yaml.
    Schema,
    /// Write a page per lab and per command, and man pages, to target/docs.
    Docs,
    /// Make the pictures of the README from a real run.
    Pictures {
        /// A finished run of swap/cpu-inference, instead of running it.
        run: Option<std::path::PathBuf>,
    },
    /// Fuzz a target of tests/fuzz: quantity, pod, kubelet_configuration, safetensors, usage_samples, gpu_samples or capture.
    Fuzz {
        /// The target.
        target: String,
        /// For how long.
        #[arg(default_value_t = 600)]
        seconds: u32,
    },
    /// Compare the kubelet policy with golden vectors of the real kubelet.
    Vectors {
        /// Files in the format of fixtures/vectors/README.md.
        #[arg(required = true)]
        files: Vec<std::path::PathBuf>,
    },
}

fn main() -> anyhow::Result<()> {
    let task = Cli::parse().task;
    let sh = Shell::new()?;
    sh.change_dir(repository());
    match task {
        Task::Demo => demo::run(&sh),
        Task::Install => install::run(false, false),
        Task::Build => build::run().map(drop),
        Task::Test { all } => test::run(&sh, all),
        Task::Bench => bench::run(&sh),
        Task::Check => check::run(&sh),
        Task::BenchPlan { nodes } => bench_plan::run(&sh, nodes),
        Task::BenchCapture { containers } => bench_capture::run(&sh, containers),
        Task::Schema => schema::run(&sh.current_dir()),
        Task::Docs => docs::run(&sh.current_dir()),
        Task::Pictures { run } => pictures::run(&sh, run.as_deref()),
        Task::Fuzz { target, seconds } => fuzz::run(&sh, &target, seconds),
        Task::Vectors { files } => vectors::run(&files),
    }
}

/// The root of the checkout this xtask was built from.
fn repository() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository").to_owned()
}
