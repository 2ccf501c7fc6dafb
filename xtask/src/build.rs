//! Builds the programs that run on a node: static, with no path of this machine in them, so that equal sources give equal bytes.

use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds `highwater-init` and `highwater-node` into `target/guest` and returns their folder.
pub fn run() -> anyhow::Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the repository")?;
    let target_dir = root.join("target/guest");
    let cargo_home = std::env::var_os("CARGO_HOME").map_or_else(
        || std::env::home_dir().map(|home| home.join(".cargo")).context("neither CARGO_HOME nor a home directory"),
        |path| Ok(PathBuf::from(path)),
    )?;
    // 0x1f separates flags, so that paths may hold spaces.
    let flags = [
        "-Ctarget-feature=+crt-static".to_owned(),
        "-Crelocation-model=static".to_owned(),
        format!("--remap-path-prefix={}=/highwater", root.display()),
        format!("--remap-path-prefix={}=/cargo", cargo_home.display()),
    ]
    .join("\x1f");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root)
        .args(["build", "--profile", "node", "--package", "highwater", "--no-default-features", "--features", "node"])
        .args(["--bin", "highwater-node", "--bin", "highwater-init", "--target", TARGET, "--target-dir"])
        .arg(&target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", flags)
        .env_remove("RUSTFLAGS")
        .status()
        .context("cannot start cargo")?;
    anyhow::ensure!(status.success(), "building the node programs failed ({status})");
    let programs = target_dir.join(TARGET).join("node");
    build_clock(&root.join("src/provider/machine/preload.rs"), &programs.join("libhighwater_clock.so"))?;
    Ok(programs)
}

/// Builds the library that QEMU is started with: a dozen lines without a standard library, so the compiler alone does.
fn build_clock(source: &Path, library: &Path) -> anyhow::Result<()> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition=2024", "--crate-name=highwater_clock", "--crate-type=cdylib", "-Copt-level=2", "-Cpanic=abort"]);
    let status = rustc.args(["-Cstrip=symbols", "-o"]).arg(library).arg(source).status().context("cannot start rustc")?;
    anyhow::ensure!(status.success(), "building {} failed ({status})", source.display());
    Ok(())
}
