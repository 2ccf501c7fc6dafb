//! Compiles the programs of a recipe as tools of pinned Go modules.

use super::recipe::{Build, Command, Recipe, module_file};
use super::{ImageError, step};
use crate::provider::lease::Lease;
use fs_err as fs;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

/// The longest a single program took on two busy cores was 11 minutes, with nothing compiled before it.
const DEADLINE: Duration = Duration::from_secs(45 * 60);

/// Compiles one command into `cache/programs`, unless it is there, and returns its path.
///
/// # Errors
/// The compiler's own words.
pub(super) fn compile(
    recipe: &Recipe,
    build: &Build,
    command: &Command,
    cache: &Path,
    lease: &Lease,
) -> Result<PathBuf, ImageError> {
    let dir = cache.join("programs").join(recipe.command_key(build, command));
    let program = dir.join(&command.name);
    if program.is_file() {
        return Ok(program);
    }
    fs::create_dir_all(&dir)?;
    let module = tempfile::Builder::new().prefix("module-").tempdir_in(&dir)?;
    for file in ["go.mod", "go.sum"] {
        fs::write(module.path().join(file), module_file(&build.module, file))?;
    }
    let fresh = module.path().join(&command.name);
    let mut go = process::Command::new("go");
    go.current_dir(module.path())
        .env("GOTOOLCHAIN", &recipe.go)
        .env("GOFLAGS", "-buildvcs=false")
        .env("GOAMD64", "v1")
        .env("CGO_ENABLED", if build.cgo { "1" } else { "0" })
        .env_remove("GOWORK")
        .args(["build", "-mod=readonly", "-trimpath", "-ldflags", &linker(build)]);
    if !build.tags.is_empty() {
        go.args(["-tags", &build.tags.join(",")]);
    }
    go.arg("-o").arg(&fresh).arg(&command.package);
    step::run(&format!("compiling {}", command.name), go, &dir.join("log"), DEADLINE, lease)?;
    fs::rename(&fresh, &program)?;
    Ok(program)
}

fn linker(build: &Build) -> String {
    ["-s", "-w"].into_iter().chain(build.link.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
}
