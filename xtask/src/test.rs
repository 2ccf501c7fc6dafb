//! The second command of the README: everything that must hold, on a machine where nothing is set up.

use anyhow::Result;
use xshell::{Shell, cmd};

/// `all`: also what needs a real kubelet, which takes an hour and a half more on two cores.
pub fn run(sh: &Shell, all: bool) -> Result<()> {
    crate::check::run(sh)?;
    crate::install::run(true, all)?;
    crate::install::promtool(&sh.current_dir())?;
    crate::build::run()?;
    let _fidelity = all.then(|| sh.push_env("HIGHWATER_FIDELITY", "1"));
    cmd!(sh, "cargo test --workspace").run()?;
    Ok(())
}
