//! `highwater lab from-capture`: a lab of a captured node's shape, to rehearse a change of its policy.

use super::{Exit, print, print_json};
use crate::provider::attach::{Captured, Likeness, rehearsal};
use camino::Utf8PathBuf;
use std::io::Read;

/// What to do with labs.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Write a lab whose node and pods have the captured shape, scaled down to run here.
    FromCapture {
        /// A capture directory.
        capture: Utf8PathBuf,
        /// The new lab directory.
        #[arg(long, value_name = "DIR")]
        out: Utf8PathBuf,
        /// Replace the names of node, pods, containers and priority classes, consistently and for good.
        #[arg(long)]
        anonymise: bool,
        /// Divide sizes by this [default: a power of two that brings the node below 512Mi].
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        scale: Option<u64>,
    },
}

/// Writes the lab.
pub fn run(command: &Command, json: bool) -> anyhow::Result<Exit> {
    let Command::FromCapture { capture, out, anonymise, scale } = command;
    let bad = |e: &dyn std::fmt::Display| Exit::BadInput.because(e);
    let captured = Captured::read(capture).map_err(|e| bad(&e))?;
    if out.join("lab.yaml").exists() {
        return Err(bad(&format!("{out} holds a lab already: name another directory with --out")));
    }
    let mut salt = [0; 32];
    if *anonymise {
        std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut salt))?;
    }
    let likeness = Likeness { scale: *scale, salt: anonymise.then_some(&salt) };
    let name = out.file_name().unwrap_or("lab");
    let files = rehearsal(&captured, name, likeness).map_err(|e| bad(&format!("{capture}: {e}")))?;
    fs_err::create_dir_all(out.join("pods")).map_err(|e| bad(&e))?;
    for (file, text) in &files.files {
        fs_err::write(out.join(file), text).map_err(|e| bad(&e))?;
    }
    if json {
        return print_json(&serde_json::json!({"lab": out}));
    }
    print(format!("{out}: written; `highwater show {out}` prints it, `highwater run {out} --out RUN` rehearses it"))
}
