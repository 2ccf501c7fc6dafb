//! Installs what the simulator needs and this machine lacks: QEMU and mke2fs; for the tests Chromium and Node, and promtool, unpacked so that no
//! service is set up. The kernel is fetched by `highwater` itself, without root.

use anyhow::{Context, bail};
use highwater::provider::machine::in_path;
use std::path::Path;
use std::process::Command;

/// Programs and the packages that have them.
const NEEDED: [(&str, &str); 2] = [("qemu-system-x86_64", "qemu-system-x86"), ("mke2fs", "e2fsprogs")];

/// What building a node image and running it needs beside them; Go comes from elsewhere.
const NODE_IMAGE: [(&str, &str); 5] = [
    ("mmdebstrap", "mmdebstrap"),
    ("qemu-img", "qemu-utils"),
    ("gcc", "gcc libc6-dev"),
    ("pkg-config", "pkg-config libseccomp-dev"),
    ("tar", "tar"),
];

/// What the tests look at pages with.
const BROWSER: [(&str, &str); 3] = [("chromium", "chromium fonts-liberation"), ("node", "nodejs"), ("npm", "npm")];

/// Says what it will do and does it; `tests` also installs what only tests need, `node_images` what node images need.
#[expect(clippy::print_stdout, reason = "the user is told before anything is installed")]
pub fn run(tests: bool, node_images: bool) -> anyhow::Result<()> {
    let needed = NEEDED.into_iter().chain(BROWSER.into_iter().filter(|_| tests));
    let needed = needed.chain(NODE_IMAGE.into_iter().filter(|_| node_images));
    let mut missing: Vec<_> = needed.filter(|(program, _)| in_path(program.as_ref()).is_none()).collect();
    for (variable, needed) in [("HIGHWATER_QEMU", NEEDED[0]), ("CHROMIUM", BROWSER[0])] {
        if std::env::var_os(variable).is_some() {
            missing.retain(|missing| *missing != needed);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let (programs, packages): (Vec<_>, Vec<_>) = missing.into_iter().unzip();
    let (programs, by_hand) = (programs.join(" and "), format!("apt-get install --no-install-recommends {}", packages.join(" ")));
    if in_path("apt-get".as_ref()).is_none() {
        bail!(
            "{programs} is missing and this is no Debian system: install it (QEMU 7.2 or newer; or name it with HIGHWATER_QEMU)"
        );
    }
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    if !root {
        bail!("{programs} is missing: run `sudo {by_hand}`, then this command again");
    }
    println!("installing {} with apt-get (all that is missing)", packages.join(" and "));
    let packages = packages.iter().flat_map(|names| names.split(' '));
    let install = ["install", "-y", "-qq", "--no-install-recommends"].into_iter().chain(packages);
    for arguments in [vec!["update", "-qq"], install.collect()] {
        let status = Command::new("apt-get").args(&arguments).env("DEBIAN_FRONTEND", "noninteractive").status();
        let status = status.context("cannot start apt-get")?;
        anyhow::ensure!(status.success(), "apt-get {} failed ({status}); try `{by_hand}` yourself", arguments[0]);
    }
    Ok(())
}

/// Where the package `prometheus` is unpacked, in the repository. tests/alerts.rs looks there after the PATH.
const PROMETHEUS: &str = "target/tools/prometheus";

/// Unpacks promtool from Debian's package `prometheus` when there is none. Installing it would set up a service that runs at once.
#[expect(clippy::print_stdout, reason = "the user is told before anything is downloaded")]
pub fn promtool(root: &Path) -> anyhow::Result<()> {
    let unpacked = root.join(PROMETHEUS);
    let there = in_path("promtool".as_ref()).is_some() || unpacked.join("usr/bin/promtool").is_file();
    if there || std::env::var_os("PROMTOOL").is_some() {
        return Ok(());
    }
    if Command::new("apt-get").arg("--version").output().is_err() {
        bail!(
            "promtool is missing and this is no Debian system: install it from the Prometheus project, or name it with PROMTOOL"
        );
    }
    let folder = root.join("target/tools");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    println!("unpacking Debian's package prometheus into {PROMETHEUS} for promtool (nothing is installed)");
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).current_dir(&folder).env("DEBIAN_FRONTEND", "noninteractive");
        command.output().context("cannot start apt-get")
    };
    let mut got = apt(&["download", "-qq", "prometheus"])?;
    if !got.status.success() {
        // A fresh system has no package lists; writing them needs root.
        apt(&["update", "-qq"])?;
        got = apt(&["download", "-qq", "prometheus"])?;
    }
    let text = String::from_utf8_lossy(&got.stderr);
    anyhow::ensure!(got.status.success(), "apt-get download prometheus failed, run `sudo apt-get update` first: {text}");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let package = entries.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|end| end == "deb"));
    let package = package.context("apt-get download left no package")?;
    let status = Command::new("dpkg-deb").arg("-x").arg(&package).arg(&unpacked).status().context("cannot start dpkg-deb")?;
    anyhow::ensure!(status.success(), "dpkg-deb -x {} failed ({status})", package.display());
    std::fs::remove_file(&package).with_context(|| format!("cannot remove {}", package.display()))
}
