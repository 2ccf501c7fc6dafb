//! `highwater docker`: a throwaway Docker to work with, and whether a Docker will do.

use super::{Exit, doctor, print, print_json};
use crate::provider::cache::{Cache, cache_dir};
use crate::provider::docker::{DockerError, Endpoint, Engine, EngineFacts, Throwaway, Wanted};
use crate::provider::doctor::{State, judge_docker};
use crate::provider::image::{ImageError, StepError};
use crate::provider::interrupt;
use crate::provider::lease::{Held, Lease, state_dir};
use crate::provider::vm::Shape;
use crate::units::Quantity;
use anyhow::Result;
use serde_json::json;
use std::time::Instant;

const MIB: u64 = 1 << 20;
/// Debian with dockerd, and a container in it.
const LEAST_MEMORY: u64 = 1 << 30;

/// Arguments of `highwater docker`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Start a Docker in a VM of its own and keep it until Ctrl-C. Prints the variables with which the docker and kind commands use it. The
    /// first start builds the VM (root, some minutes); later ones fork it in seconds. Nothing is kept between two starts.
    Up(Machine),
    /// Say whether a Docker will do for node containers with a kubelet: cgroup v2, swap controller, version.
    Check {
        /// local, throwaway, unix://SOCKET or tcp://HOST:PORT [default: DOCKER_HOST, else local].
        #[arg(long, value_name = "ENDPOINT")]
        docker: Option<Wanted>,
    },
}

/// The VM of a throwaway Docker.
#[derive(Debug, clap::Args)]
struct Machine {
    /// Its memory.
    #[arg(long, value_name = "QUANTITY", default_value = "4Gi")]
    memory: Quantity,
    /// A swap disk of this size; may be given several times.
    #[arg(long, value_name = "QUANTITY")]
    swap: Vec<Quantity>,
    /// Its processors.
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    processors: u8,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<Exit> {
    match &args.action {
        Action::Up(machine) => up(&shape(machine)?, json),
        Action::Check { docker } => check(docker.as_ref().unwrap_or(&Wanted::Default), json),
    }
}

fn shape(machine: &Machine) -> Result<Shape> {
    let bytes = |quantity: &Quantity| {
        u64::try_from(quantity.ceil()).map_err(|_| Exit::BadInput.because(format!("{quantity} is less than nothing")))
    };
    let memory = bytes(&machine.memory)?.next_multiple_of(MIB);
    if memory < LEAST_MEMORY {
        return Err(Exit::BadInput.because(format!("--memory {}: a Docker in a VM needs 1Gi at least", machine.memory)));
    }
    let swap = machine.swap.iter().map(bytes).collect::<Result<Vec<_>>>()?;
    if let Some((given, _)) = machine.swap.iter().zip(&swap).find(|(_, bytes)| **bytes < MIB || **bytes % 512 != 0) {
        return Err(Exit::BadInput.because(format!("--swap {given}: a swap disk has 1Mi or more, in whole sectors of 512 bytes")));
    }
    if swap.len() > 8 {
        return Err(Exit::BadInput.because("--swap: at most eight swap disks"));
    }
    Ok(Shape { memory, swap, processors: machine.processors, kernel_arguments: Vec::new() })
}

fn up(shape: &Shape, json: bool) -> Result<Exit> {
    let begun = Instant::now();
    let (_held, throwaway) = start(shape)?;
    let endpoint = throwaway.endpoint();
    // It must answer from here: forwarding and certificates included.
    Engine::connect(endpoint).and_then(|engine| engine.facts()).map_err(code)?;
    say("ready; Ctrl-C ends it", begun);
    let Endpoint { address, certificates } = endpoint;
    let certificates = certificates.as_deref().unwrap_or(std::path::Path::new(""));
    if json {
        print_json(&json!({ "host": address, "certificates": certificates }))?;
    } else {
        print(exports(address, &certificates.display().to_string()))?;
    }
    match throwaway.wait() {
        // This is how the user ends it.
        _ if interrupt::requested() => Ok(Exit::AsExpected),
        ended => ended.map(|()| Exit::AsExpected).map_err(code),
    }
}

/// What a shell evaluates.
fn exports(address: &str, certificates: &str) -> String {
    let quoted = certificates.replace('\'', r"'\''");
    format!("export DOCKER_HOST={address}\nexport DOCKER_TLS_VERIFY=1\nexport DOCKER_CERT_PATH='{quoted}'")
}

fn check(wanted: &Wanted, json: bool) -> Result<Exit> {
    let named = wanted.endpoint(|name| std::env::var(name).ok()).map_err(|e| Exit::BadInput.because(e))?;
    let facts = match named {
        Some(endpoint) => facts(&endpoint)?,
        None => {
            let machine = Shape { memory: 4 * LEAST_MEMORY, swap: Vec::new(), processors: 2, kernel_arguments: Vec::new() };
            let (_held, throwaway) = start(&machine)?;
            facts(throwaway.endpoint())?
        }
    };
    let checks = judge_docker(&facts);
    let usable = checks.iter().all(|check| check.state != State::Missing);
    if json {
        print_json(&json!({ "docker": facts, "usable": usable, "checks": checks }))?;
    } else {
        let verdict = if usable { "it will do for node containers" } else { "it will not do for node containers" };
        print(format!("{verdict}\n{}", doctor::table(&checks)))?;
    }
    Ok(if usable { Exit::AsExpected } else { Exit::Substrate })
}

fn facts(endpoint: &Endpoint) -> Result<EngineFacts> {
    Engine::connect(endpoint).and_then(|engine| engine.facts()).map_err(code)
}

/// A throwaway Docker, after the folder it writes into: what is declared first is dropped last.
fn start(shape: &Shape) -> Result<(Held, Throwaway)> {
    let begun = Instant::now();
    let lease = Lease::open(&state_dir())?;
    let dir = state_dir().join("runs").join(format!("docker-{}", std::process::id()));
    let held = lease.directory(&dir)?;
    fs_err::create_dir_all(&dir)?;
    let throwaway = Throwaway::start(shape, &Cache::at(cache_dir()), &lease, &dir, &|step| say(step, begun)).map_err(code)?;
    Ok((held, throwaway))
}

#[expect(clippy::print_stderr, reason = "progress of a command that may take minutes")]
fn say(step: &str, begun: Instant) {
    eprintln!("{step} ({:.1} s)", begun.elapsed().as_secs_f64());
}

fn code(error: DockerError) -> anyhow::Error {
    match error {
        _ if interrupt::requested() => Exit::Interrupted.because("interrupted; everything that was created has been removed"),
        DockerError::Image(ImageError::Step(StepError::Interrupted)) => Exit::Interrupted.because(error),
        DockerError::Endpoint(_) => Exit::BadInput.because(error),
        _ => Exit::Substrate.because(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_a_folder_with_blanks_and_quotes() {
        let text = exports("tcp://127.0.0.1:1", "/a b/it's") + "\nprintf %s \"$DOCKER_CERT_PATH\"";
        let output = std::process::Command::new("sh").args(["-c", &text]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "/a b/it's");
    }
}
