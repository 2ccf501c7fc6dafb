//! Installs what the simulator needs and this machine lacks: QEMU and mke2fs. The kernel is fetched by `highwater` itself, without root.

use anyhow::{Context, bail};
use std::process::Command;

/// Programs and the packages that have them.
const NEEDED: [(&str, &str); 2] = [("qemu-system-x86_64", "qemu-system-x86"), ("mke2fs", "e2fsprogs")];

/// Says what it will do and does it.
#[expect(clippy::print_stdout, reason = "the user is told before anything is installed")]
pub fn run() -> anyhow::Result<()> {
    let mut missing: Vec<_> = NEEDED.into_iter().filter(|(program, _)| !is_there(program)).collect();
    if std::env::var_os("HIGHWATER_QEMU").is_some() {
        missing.retain(|needed| *needed != NEEDED[0]);
    }
    if missing.is_empty() {
        return Ok(());
    }
    let (programs, packages): (Vec<_>, Vec<_>) = missing.into_iter().unzip();
    let (programs, by_hand) = (programs.join(" and "), format!("apt-get install --no-install-recommends {}", packages.join(" ")));
    if !is_there("apt-get") {
        bail!(
            "{programs} is missing and this is no Debian system: install it (QEMU 7.2 or newer; or name it with HIGHWATER_QEMU)"
        );
    }
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    if !root {
        bail!("{programs} is missing: run `sudo {by_hand}`, then this command again");
    }
    println!("installing {} with apt-get (all that the simulator needs)", packages.join(" and "));
    let install = ["install", "-y", "-qq", "--no-install-recommends"].into_iter().chain(packages);
    for arguments in [vec!["update", "-qq"], install.collect()] {
        let status = Command::new("apt-get").args(&arguments).env("DEBIAN_FRONTEND", "noninteractive").status();
        let status = status.context("cannot start apt-get")?;
        anyhow::ensure!(status.success(), "apt-get {} failed ({status}); try `{by_hand}` yourself", arguments[0]);
    }
    Ok(())
}

/// In PATH, or in the folders that PATH of ordinary users leaves out.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).any(|dir| dir.join(program).is_file())
}
