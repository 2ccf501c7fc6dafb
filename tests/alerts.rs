//! The rule file that a run of swap/alerts writes is one for Prometheus, and promtool's replay of the samples finds what the study found.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{expect, highwater};

/// By the variable PROMTOOL, on the PATH, or where `cargo xtask test` unpacks it.
fn promtool() -> PathBuf {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/prometheus/usr/bin/promtool");
    let named = std::env::var_os("PROMTOOL").map(PathBuf::from);
    let found =
        named.into_iter().chain(["promtool".into(), unpacked]).find(|p| Command::new(p).arg("--version").output().is_ok());
    found.expect("promtool is missing: `cargo xtask test` unpacks it")
}

fn run(code: i32, dir: &Path, arguments: &[&str]) -> Output {
    expect(code, Command::new(promtool()).args(arguments).current_dir(dir))
}

#[test]
fn prometheus_takes_the_rules_and_finds_the_same_firings() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let out = dir.path().join("run");
    // The other arms stay with tests/labs.rs; without them the lab is inconclusive.
    let arms = ["--arm", "steep-burst", "--arm", "slow-burst", "--arm", "slow-disk"];
    expect(4, highwater(&["run", "swap/alerts", "--out", out.to_str().expect("UTF-8")]).args(arms));
    let alerts = out.join("alerts");
    for arm in ["steep-burst", "slow-burst", "slow-disk"] {
        let checked = run(0, &alerts.join(arm), &["check", "rules", "rules.yaml"]);
        assert!(String::from_utf8_lossy(&checked.stdout).contains("3 rules found"), "{checked:?}");
        run(0, &alerts.join(arm), &["test", "rules", "test.yaml"]);
    }
    // The replay notices a firing that is not there, and one that is there and was not found.
    let slow = alerts.join("slow-burst");
    let rules = std::fs::read_to_string(slow.join("rules.yaml")).expect("it is written");
    let with = |from: &str, to: &str| {
        assert!(rules.contains(from), "{rules}");
        std::fs::write(slow.join("rules.yaml"), rules.replace(from, to)).expect("writable");
        run(1, &slow, &["test", "rules", "test.yaml"]);
    };
    with("> 0) > 0.5", "> 0) > 2");
    with("< 0.2", "< 2");
}
