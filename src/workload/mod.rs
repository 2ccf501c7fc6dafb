//! What runs in containers: servers, trainers, databases, loaders, neighbours, the pause process. The same program in the simulator and on a cluster.
//!
//! A workload is the program's first argument, its settings are `--name=value` with Kubernetes quantities for sizes. Wrong arguments end
//! the process with status 2 and one line that says what is right.

mod anon;
mod args;
mod database;
mod file_reader;
mod files;
mod gpu;
mod hog;
pub mod http;
mod inference;
mod latency;
mod loader;
mod memory;
mod model_server;
mod offload;
mod openai;
mod pause;
mod queue;
mod report;
pub mod safetensors;
mod server;
mod signals;
mod training;
mod whisper;

use std::process::ExitCode;

pub use args::{Args, ArgsError};
pub use memory::Block;

/// The workloads by name.
pub const NAMES: [&str; 11] = [
    "anon",
    "cpu-inference",
    "database",
    "file-reader",
    "hog",
    "loader",
    "model-server",
    "offload",
    "pause",
    "training",
    "whisper",
];

/// Environment variable: the number that seeds a workload's generators.
pub const ENV_SEED: &str = "HIGHWATER_SEED";

/// Why a workload did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The arguments are wrong.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// There is no such workload.
    #[error("there is no workload {name:?}; the workloads are {}", NAMES.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The workload cannot go on with what it was given.
    #[error("{workload}: {problem}")]
    Unfit {
        /// The workload.
        workload: &'static str,
        /// What does not fit.
        problem: String,
    },
    /// The system refused something.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// Runs the workload that the first argument names, with the others as its settings.
///
/// # Errors
/// [`WorkloadError`]; the caller prints it. [`exit_code`] says with which status to end.
pub fn run(arguments: &[String]) -> Result<(), WorkloadError> {
    let (name, settings) = arguments.split_first().map_or(("", &[][..]), |(name, rest)| (name.as_str(), rest));
    match name {
        "anon" => anon::run(&anon::Settings::parse(Args::new(name, settings)?)?),
        "cpu-inference" => inference::run(&inference::Settings::parse(Args::new(name, settings)?)?),
        "database" => database::run(&database::Settings::parse(Args::new(name, settings)?)?),
        "file-reader" => file_reader::run(&file_reader::Settings::parse(Args::new(name, settings)?)?),
        "hog" => hog::run(&hog::Settings::parse(Args::new(name, settings)?)?),
        "loader" => loader::run(&loader::Settings::parse(Args::new(name, settings)?)?, arguments),
        "model-server" => model_server::run(&model_server::Settings::parse(Args::new(name, settings)?)?),
        "offload" => offload::run(&offload::Settings::parse(Args::new(name, settings)?)?),
        "training" => training::run(&training::Settings::parse(Args::new(name, settings)?)?),
        "whisper" => whisper::run(&whisper::Settings::parse(Args::new(name, settings)?)?),
        "pause" => {
            Args::new(name, settings)?.finish()?;
            pause::run();
            Ok(())
        }
        other => Err(WorkloadError::Unknown { name: other.to_owned() }),
    }
}

/// 2 for what the user can correct, 1 for the rest.
pub fn exit_code(error: &WorkloadError) -> ExitCode {
    match error {
        WorkloadError::Args(_) | WorkloadError::Unknown { .. } => ExitCode::from(2),
        WorkloadError::Unfit { .. } | WorkloadError::System { .. } => ExitCode::FAILURE,
    }
}

fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> WorkloadError {
    let what = what.into();
    |source| WorkloadError::System { what, source }
}
