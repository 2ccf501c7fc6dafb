//! `cargo xtask fuzz`: builds a fuzz target of tests/fuzz with coverage feedback, on the stable toolchain, and runs it.

use anyhow::Context;
use xshell::{Shell, cmd};

/// What cargo-fuzz passes on nightly, without the address sanitizer: the fuzzed code has no unsafe block.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Clink-dead-code=no -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1";

/// Runs a target for some seconds.
///
/// # Errors
/// It does not build, or an input makes it fail; libFuzzer names the file that holds the input.
pub fn run(sh: &Shell, target: &str, seconds: u32) -> anyhow::Result<()> {
    let folder = sh.current_dir().join("target/fuzz");
    let corpus = sh.current_dir().join("tests/fuzz/corpus").join(target);
    let artifacts = sh.current_dir().join("tests/fuzz/artifacts").join(target);
    sh.create_dir(&corpus)?;
    sh.create_dir(&artifacts)?;
    // A target triple of its own keeps the flags away from build scripts.
    let host = cmd!(sh, "rustc --print host-tuple").read().context("asking rustc for the host")?;
    cmd!(sh, "cargo build --release --manifest-path tests/fuzz/Cargo.toml --target {host} --target-dir {folder} --bin {target}")
        .env("RUSTFLAGS", FLAGS)
        .run()
        .with_context(|| format!("building the fuzz target {target}"))?;
    let program = folder.join(&host).join("release").join(target);
    let (time, prefix) = (format!("-max_total_time={seconds}"), format!("-artifact_prefix={}/", artifacts.display()));
    cmd!(sh, "{program} {corpus} {time} {prefix} -timeout=10 -print_final_stats=1")
        .run()
        .with_context(|| format!("fuzzing {target}: the failing input is in {}", artifacts.display()))
}
