//! Licences and sources of every dependency, by cargo-deny.

use anyhow::{Context, Result};
use std::path::PathBuf;
use xshell::{Shell, cmd};

/// The release of cargo-deny whose configuration format `.cargo/deny.toml` is written in.
const VERSION: &str = "0.20.2";

/// Builds cargo-deny once into the cache and runs the checks that need no advisory database.
pub fn run(sh: &Shell) -> Result<()> {
    let root = cache()?.join(format!("tools/cargo-deny-{VERSION}"));
    let program = root.join("bin/cargo-deny");
    if !program.exists() {
        println!("xtask: building cargo-deny {VERSION} once (some minutes)");
        // Unoptimised on purpose: it runs for a second and is built on every fresh machine.
        cmd!(sh, "cargo install cargo-deny --version {VERSION} --locked --debug --quiet --root {root}").run()?;
    }
    // cargo-deny reads every crate of the lock file; a build on a fresh machine fetches those of its own features and platform only.
    cmd!(sh, "cargo fetch --locked --quiet").run()?;
    cmd!(sh, "{program} --offline check --show-stats bans licenses sources").run().context("see .cargo/deny.toml")?;
    Ok(())
}

/// Highwater's cache folder, by the XDG rules.
fn cache() -> Result<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let base =
        base.or_else(|| std::env::home_dir().map(|h| h.join(".cache"))).context("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(base.join("highwater"))
}
