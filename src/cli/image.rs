//! `highwater image`: build, list and prune node images.

use super::{Exit, print, print_json};
use crate::provider::NodePrograms;
use crate::provider::cache::cache_dir;
use crate::provider::image::{self, ContainerImage, Image, ImageError, Options, Recipe, StepError, Store, VERSIONS, build};
use crate::provider::lease::{Lease, state_dir};
use anyhow::Result;
use clap::Subcommand;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `highwater image`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Build a node image: about 25 minutes the first time on two cores, seconds when the programs are cached.
    Build {
        /// Kubernetes minor.
        #[arg(default_value = VERSIONS[0])]
        version: String,
        /// A folder with your own release binaries, used instead of compiling.
        #[arg(long, value_name = "DIR")]
        binaries: Option<PathBuf>,
        /// The container form, for `docker load` and `kind create cluster --image`, instead of a disk.
        #[arg(long)]
        container: bool,
    },
    /// List the images in the cache.
    List,
    /// Remove all images but the newest build of each version.
    Prune {
        /// Remove every image, and the compiled programs and root file systems they are made of.
        #[arg(long)]
        all: bool,
    },
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<Exit> {
    let store = Store::new(&cache_dir());
    match &args.action {
        Action::Build { version, binaries, container } => {
            let recipe = Recipe::of(version).map_err(|e| Exit::BadInput.because(e))?;
            let options = Options { binaries: binaries.clone() };
            let bar = indicatif::ProgressBar::new_spinner();
            bar.enable_steady_tick(Duration::from_millis(200));
            let lease = Lease::open(&state_dir())?;
            let progress = |step: &str| say(&bar, step);
            if *container {
                let workload = NodePrograms::find().map_err(|e| Exit::Substrate.because(e))?.node;
                let image = image::container(&recipe, &workload, &options, &store, &lease, &progress).map_err(code)?;
                bar.finish_and_clear();
                return show(&[], &[image], json);
            }
            let image = build(&recipe, &options, &store, &lease, &progress).map_err(code)?;
            bar.finish_and_clear();
            show(&[image], &[], json)
        }
        Action::List => show(&store.list().map_err(code)?, &store.containers().map_err(code)?, json),
        Action::Prune { all } => prune(&store, *all, json),
    }
}

/// A moving line on a terminal, plain lines elsewhere.
#[expect(clippy::print_stderr, reason = "progress of a command")]
fn say(bar: &indicatif::ProgressBar, step: &str) {
    bar.set_message(step.to_owned());
    if bar.is_hidden() {
        eprintln!("{step}");
    }
}

fn code(error: ImageError) -> anyhow::Error {
    match error {
        ImageError::Recipe(_) | ImageError::Binaries { .. } => Exit::BadInput.because(error),
        ImageError::Step(StepError::Interrupted) => Exit::Interrupted.because(error),
        ImageError::Missing(_) | ImageError::Step(_) | ImageError::Runtime { .. } => Exit::Substrate.because(error),
        ImageError::File(_) | ImageError::Io(_) | ImageError::Manifest { .. } => error.into(),
    }
}

fn show(images: &[Image], containers: &[ContainerImage], json: bool) -> Result<Exit> {
    if json {
        let disks = images.iter().map(|image| serde_json::to_value(&image.manifest));
        return print_json(&disks.chain(containers.iter().map(serde_json::to_value)).collect::<Result<Vec<_>, _>>()?);
    }
    if images.is_empty() && containers.is_empty() {
        return print("no node image has been built: highwater image build");
    }
    let mut lines = Vec::new();
    for image in images {
        let manifest = &image.manifest;
        let (own, mib) = (if manifest.own_programs { ", own programs" } else { "" }, image.bytes().map_err(code)? >> 20);
        lines.push(format!(
            "kubernetes {} on linux {}{own}, {mib} MiB: {}",
            manifest.kubernetes,
            manifest.kernel,
            image.dir.display()
        ));
    }
    for ContainerImage { name, archive, .. } in containers {
        lines.push(format!(
            "container image {name}, {} MiB: {archive}",
            fs_err::metadata(archive)?.len() >> 20,
            archive = archive.display()
        ));
    }
    print(lines.join("\n"))
}

fn prune(store: &Store, all: bool, json: bool) -> Result<Exit> {
    // Of each version the newest build stays; with --all none does.
    let mut newest: std::collections::BTreeMap<String, (std::time::SystemTime, String)> = std::collections::BTreeMap::new();
    for image in store.list().map_err(code)? {
        let built = fs_err::metadata(image.dir.join("manifest.json"))?.modified()?;
        let entry = (built, image.manifest.key.clone());
        newest.entry(image.manifest.kubernetes.clone()).and_modify(|n| *n = entry.clone().max(n.clone())).or_insert(entry);
    }
    for image in store.containers().map_err(code)? {
        let entry = (fs_err::metadata(&image.archive)?.modified()?, image.key.clone());
        newest.entry(image.name.clone()).and_modify(|n| *n = entry.clone().max(n.clone())).or_insert(entry);
    }
    let keep: Vec<_> = newest.into_values().map(|(_, key)| key).collect();
    let (removed, freed) = store.prune(&keep, all).map_err(code)?;
    if json {
        return print_json(&serde_json::json!({ "removed": removed, "bytes": freed }));
    }
    let lines = removed.iter().map(|dir| format!("removed {}", dir.display()));
    print(lines.chain([format!("freed {} MiB", freed >> 20)]).collect::<Vec<_>>().join("\n"))
}
