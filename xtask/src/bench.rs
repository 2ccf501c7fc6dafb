//! Benchmarks that start real nodes: where the wall time of a warm run goes, and what sampling costs. Figures are printed, never asserted:
//! machines are shared and noisy, so read ratios within one run.

use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;
use std::time::Instant;
use xshell::{Shell, cmd};

/// The lab whose wall time is taken apart.
const LAB: &str = "swap/cpu-inference";
/// Warm runs; the median is quoted.
const RUNS: usize = 3;

pub fn run(sh: &Shell) -> Result<()> {
    crate::install::run(false, false)?;
    crate::build::run()?;
    cmd!(sh, "cargo build --quiet --release").run()?;
    let scratch = sh.create_temp_dir()?;
    shares(sh, scratch.path())?;
    sampling(sh)
}

/// Where a warm run's wall time goes.
fn shares(sh: &Shell, scratch: &Path) -> Result<()> {
    lab(sh, LAB, &scratch.join("cold"))?;
    let mut runs = Vec::new();
    for number in 0..RUNS {
        let out = scratch.join(format!("warm{number}"));
        let began = Instant::now();
        lab(sh, LAB, &out)?;
        runs.push((began.elapsed().as_secs_f64(), json(&out.join("timing.json"))?));
    }
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (wall, timing) = &runs[RUNS / 2];
    println!("{LAB}, the median of {RUNS} warm runs: {wall:.2} s of wall time (booted: {})", timing["nothingBooted"] != true);
    for (part, seconds) in timing["parts"].as_object().context("timing.json has parts")? {
        let seconds = seconds.as_f64().unwrap_or_default();
        println!("  {part:<16} {seconds:8.3} s  {:5.1} %", 100.0 * seconds / wall);
    }
    let arms = timing["arms"].as_array().context("timing.json has arms")?;
    for arm in arms {
        let part = |name: &str| arm[name].as_f64().unwrap_or_default();
        println!(
            "  arm {:<16} restore and fork {:.3} s, guest {:.3} s, transfer {:.3} s, record {:.3} s",
            arm["arm"].as_str().unwrap_or_default(),
            part("restoreSeconds"),
            part("guestSeconds"),
            part("transferSeconds"),
            part("recordSeconds")
        );
    }
    // While any guest runs the machine is doing what was asked for; the rest of the wall time is Highwater's.
    let drive = timing["parts"]["driveSeconds"].as_f64().unwrap_or_default();
    let beside = |name: &str| arms.iter().filter_map(|arm| arm[name].as_f64()).fold(0.0, f64::max);
    let added = wall - drive + beside("restoreSeconds") + beside("transferSeconds") + beside("recordSeconds");
    println!(
        "  added beside the running guests: {added:.3} s, {:.1} % of the wall time (aim: 10 % or less)",
        100.0 * added / wall
    );
    Ok(())
}

/// What sampling 25 containers does to the latency of a server beside them, in exact virtual time: the test that holds it to 1 % prints it.
fn sampling(sh: &Shell) -> Result<()> {
    cmd!(sh, "cargo test --quiet --test guest sampling -- --nocapture").run()?;
    Ok(())
}

fn lab(sh: &Shell, lab: &str, out: &Path) -> Result<()> {
    cmd!(sh, "target/release/highwater run {lab} --out {out}").quiet().ignore_stdout().ignore_stderr().run()?;
    Ok(())
}

fn json(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}
