//! The first command of the README: from a fresh checkout to the comparison of a lab's arms.

use anyhow::Result;
use xshell::{Shell, cmd};

/// The lab the README begins with.
const LAB: &str = "swap/cpu-inference";

pub fn run(sh: &Shell) -> Result<()> {
    crate::install::run(false, false)?;
    crate::build::run()?;
    cmd!(sh, "cargo run --quiet -- run {LAB}").run()?;
    Ok(())
}
