//! The Debian root file system below the node's programs, made once per list of packages and kept as a tar.

use super::recipe::{Debian, Recipe};
use super::{ImageError, step};
use crate::provider::lease::Lease;
use fs_err as fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Two minutes on a quiet machine.
const DEADLINE: Duration = Duration::from_secs(30 * 60);

/// Makes the root file system, unless the cache has it, and returns the tar.
///
/// # Errors
/// What mmdebstrap said.
pub(super) fn root(debian: &Debian, cache: &Path, lease: &Lease) -> Result<PathBuf, ImageError> {
    let dir = cache.join("debian").join(debian.key());
    let tar = dir.join("root.tar");
    if tar.is_file() {
        return Ok(tar);
    }
    fs::create_dir_all(&dir)?;
    let work = tempfile::Builder::new().prefix("hooks-").tempdir_in(&dir)?;
    for (path, text, _) in Recipe::overlay().filter(|(path, ..)| path.starts_with("etc/initramfs-tools/")) {
        let to = work.path().join(path);
        fs::create_dir_all(to.parent().unwrap_or(work.path()))?;
        fs::write(to, text)?;
    }
    let fresh = work.path().join("root.tar");
    let mut mmdebstrap = Command::new("mmdebstrap");
    mmdebstrap
        .args(["--variant=minbase", "--format=tar"])
        .arg(format!("--include={}", debian.packages.join(",")))
        // The kernel package makes its initrd when it is installed, so what that reads must be there before.
        .arg(format!("--essential-hook=copy-in {}/etc/initramfs-tools /etc", work.path().display()))
        .args(["doc", "man", "locale", "info"].map(|d| format!("--dpkgopt=path-exclude=/usr/share/{d}/*")))
        .arg("--aptopt=Acquire::Languages \"none\"")
        .arg(&debian.suite)
        .arg(&fresh);
    step::run("making the Debian root file system", mmdebstrap, &dir.join("log"), DEADLINE, lease)?;
    fs::rename(&fresh, &tar)?;
    Ok(tar)
}
