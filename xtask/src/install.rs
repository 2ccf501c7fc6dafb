//! Installs what the simulator needs and this machine lacks: QEMU. The kernel is fetched by `highwater` itself, without root.

use anyhow::{Context, bail};
use std::process::Command;

/// The program and the package that has it.
const QEMU: (&str, &str) = ("qemu-system-x86_64", "qemu-system-x86");

/// Says what it will do and does it.
#[expect(clippy::print_stdout, reason = "the user is told before anything is installed")]
pub fn run() -> anyhow::Result<()> {
    let (program, package) = QEMU;
    if std::env::var_os("HIGHWATER_QEMU").is_some() || Command::new(program).arg("--version").output().is_ok() {
        return Ok(());
    }
    let by_hand = format!("apt-get install --no-install-recommends {package}");
    if Command::new("apt-get").arg("--version").output().is_err() {
        bail!("{program} is missing and this is no Debian system: install QEMU 7.2 or newer, or name it with HIGHWATER_QEMU");
    }
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    if !root {
        bail!("{program} is missing: run `sudo {by_hand}`, then this command again");
    }
    println!("installing {package} with apt-get (the only system package the simulator needs)");
    for arguments in [&["update", "-qq"][..], &["install", "-y", "-qq", "--no-install-recommends", package]] {
        let status = Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").status();
        let status = status.context("cannot start apt-get")?;
        anyhow::ensure!(status.success(), "apt-get {} failed ({status}); try `{by_hand}` yourself", arguments[0]);
    }
    Ok(())
}
