//! The report in a browser: three widths, light and dark, nothing overlaps or is cut off, no finding of axe-core, and cursor, zoom and tree
//! do what they say by mouse and by keyboard.
//!
//! Needs Chromium and Node; `cargo xtask test` installs what is missing.

#![allow(clippy::print_stdout, reason = "a test says what it looked at and where the pictures lie")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::{expect, highwater};

/// Labs whose pages differ most and that cost little: latencies, kills and layers of a cache; steps and many phases; a decision that is none.
const LABS: [(&str, i32, &[&str]); 3] =
    [("swap/traffic-burst", 0, &[]), ("memory-qos/rollback", 0, &[]), ("fixtures/labs/calm", 4, &["--seeds", "2"])];

/// Where the modules lie, and the pictures.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join(name);
    std::fs::create_dir_all(&folder).expect("a writable target");
    folder
}

/// Installs the modules of the lock file unless they are there.
fn modules() -> PathBuf {
    let (from, to) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser"), folder("browser"));
    let lock = std::fs::read(from.join("package-lock.json")).expect("it is checked in");
    if std::fs::read(to.join("installed-lock.json")).ok().as_ref() != Some(&lock) {
        for file in ["package.json", "package-lock.json"] {
            std::fs::copy(from.join(file), to.join(file)).expect("a writable target");
        }
        let npm = Command::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&to).output();
        let npm = npm.expect("npm is missing: cargo xtask install, or install Node 18 or newer");
        assert!(npm.status.success(), "{}", String::from_utf8_lossy(&npm.stderr));
        std::fs::write(to.join("installed-lock.json"), lock).expect("a writable target");
    }
    to
}

fn chromium() -> PathBuf {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let found = named.or_else(|| highwater::provider::machine::in_path("chromium".as_ref()));
    found.expect("Chromium is missing: cargo xtask install, or name it with CHROMIUM")
}

#[test]
fn pages_are_sound_at_every_width_in_light_and_dark() {
    let (modules, shots, runs) = (modules(), folder("screenshots"), tempfile::tempdir().expect("a temporary directory"));
    let pages: Vec<PathBuf> = LABS
        .iter()
        .map(|(lab, code, further)| {
            let out = runs.path().join(lab.replace('/', "-"));
            expect(*code, highwater(&["run", lab, "--out", out.to_str().expect("UTF-8")]).args(*further));
            let page = runs.path().join(format!("{}.html", lab.replace('/', "-")));
            std::fs::copy(out.join("report.html"), &page).expect("a run has a report");
            page
        })
        .collect();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/check.mjs");
    let mut node = Command::new("node");
    node.arg(script).arg(chromium()).arg(&shots).args(&pages).current_dir(modules);
    let output = node.output().expect("Node is missing: cargo xtask install");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    println!("{} pages looked at; pictures: {}", said["looked"], shots.display());
    assert_eq!(said["looked"], LABS.len() * 6);
    let problems = said["problems"].as_array().expect("a list");
    let list: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "{} problems:\n{}", list.len(), list.join("\n"));
}
