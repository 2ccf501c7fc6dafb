//! The second command of the README: everything that must hold, on a machine where nothing is set up.

use anyhow::Result;
use xshell::{Shell, cmd};

pub fn run(sh: &Shell) -> Result<()> {
    crate::check::run(sh)?;
    crate::install::run()?;
    crate::install::promtool(&sh.current_dir())?;
    crate::build::run()?;
    cmd!(sh, "cargo test --workspace").run()?;
    Ok(())
}
