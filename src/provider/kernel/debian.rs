//! Debian's cloud kernel: found through apt, downloaded without root, unpacked into the cache under the hash of the package.

use super::{KernelError, MODULES};
use crate::provider::FileError;
use crate::provider::cache::{Cache, Entry, hash_file};
use crate::provider::lease::Lease;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The metapackage that follows the newest kernel of the release.
const METAPACKAGE: &str = "linux-image-cloud-amd64";
/// The cache's kind of these entries.
pub const KIND: &str = "kernels";

/// The kernel package's content in the cache: `vmlinuz`, `modules/modules.builtin` and the modules of [`MODULES`] below `modules/kernel`.
/// A kernel that is there is used without asking apt, so that results stay comparable until `highwater clean --cache`.
pub fn fetch(cache: &Cache, lease: &Lease, progress: &dyn Fn(&str)) -> Result<Entry, KernelError> {
    let pin = cache.root().join(KIND).join("debian");
    if let Ok(hash) = fs::read_to_string(&pin)
        && cache.root().join(KIND).join(&hash).is_dir()
    {
        return cache.entry(KIND, &hash, lease, |_| unreachable_entry(&hash));
    }
    let (scratch, _held) = cache.scratch(KIND, lease)?;
    progress("fetching Debian's cloud kernel");
    let package = download(&scratch)?;
    let hash = hash_file(&package)?;
    let entry = cache.entry(KIND, &hash, lease, |target| {
        progress("unpacking the kernel");
        unpack(&package, &scratch.join("tree"), target)
    })?;
    fs::write(scratch.join("pin"), &hash).and_then(|()| fs::rename(scratch.join("pin"), &pin)).map_err(FileError::at(&pin))?;
    Ok(entry)
}

/// Between the look and the lock another process may have pruned it.
fn unreachable_entry(hash: &str) -> Result<(), KernelError> {
    Err(KernelError::Package { reason: format!("kernel {hash} was pruned from the cache at this moment; run again") })
}

fn download(into: &Path) -> Result<PathBuf, KernelError> {
    let depends = run(Command::new("apt-cache").args(["depends", "--important", METAPACKAGE]))?;
    let package = depends
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: ").filter(|name| name.starts_with("linux-image-")))
        .ok_or_else(|| KernelError::Package { reason: format!("apt knows no package {METAPACKAGE}") })?;
    // As root apt would drop to a user that cannot write here, and warn.
    let mut apt = Command::new("apt-get");
    apt.current_dir(into).args(["download", "-o", "APT::Sandbox::User=root", "-o", "Acquire::http::Timeout=60", package]);
    run(&mut apt)?;
    let files = fs::read_dir(into).map_err(FileError::at(into))?;
    files
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|e| e == "deb"))
        .ok_or_else(|| KernelError::Package { reason: format!("apt-get download {package} left no file") })
}

fn unpack(package: &Path, tree: &Path, target: &Path) -> Result<(), KernelError> {
    run(Command::new("dpkg-deb").arg("-x").arg(package).arg(tree))?;
    let bad = |reason: &str| KernelError::Package { reason: format!("{}: {reason}", package.display()) };
    let image = first_with_prefix(&tree.join("boot"), "vmlinuz-").ok_or_else(|| bad("it holds no kernel image"))?;
    let release = super::release(&image)?;
    // Debian 13 and later may unpack below usr/.
    let dir = ["lib/modules", "usr/lib/modules"].map(|dir| tree.join(dir).join(&release));
    let dir = dir.into_iter().find(|dir| dir.is_dir()).ok_or_else(|| bad("it holds no modules"))?;
    let modules = super::module::find(&release, &dir)?;
    let copy = |from: &Path, to: PathBuf| -> Result<(), KernelError> {
        let parent = to.parent().unwrap_or(target);
        fs::create_dir_all(parent).map_err(FileError::at(parent))?;
        fs::copy(from, &to).map_err(FileError::at(&to))?;
        Ok(())
    };
    copy(&image, target.join("vmlinuz"))?;
    copy(&dir.join("modules.builtin"), target.join("modules/modules.builtin"))?;
    debug_assert!(modules.len() <= MODULES.len());
    for module in modules {
        let relative = module.path.strip_prefix(&dir).expect("found below the directory");
        copy(&module.path, target.join("modules").join(relative))?;
    }
    Ok(())
}

fn first_with_prefix(dir: &Path, prefix: &str) -> Option<PathBuf> {
    fs::read_dir(dir).ok()?.flatten().find(|entry| entry.file_name().to_string_lossy().starts_with(prefix)).map(|e| e.path())
}

fn run(command: &mut Command) -> Result<String, KernelError> {
    let what = format!("{} {}", command.get_program().display(), command.get_args().last().unwrap_or_default().display());
    let output = crate::provider::machine::run_with_deadline(command, std::time::Duration::from_secs(180))
        .map_err(|error| KernelError::Package { reason: format!("{what}: {error}") })?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let last = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
        return Err(KernelError::Package { reason: format!("{what} failed: {}", last.trim()) });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
