//! The machine of the Docker endpoint `throwaway`: a Debian disk with dockerd, its kernel and its initial RAM disk.

use super::build;
use super::recipe::{Debian, docker_overlay};
use super::{ImageError, Store, System, debian};
use crate::provider::cache::{Cache, Entry};
use crate::provider::lease::Lease;
use fs_err as fs;
use std::path::Path;

/// The cache's kind of these machines.
pub const KIND: &str = "docker-images";

/// Names the build. Debian moves on: two builds of one recipe need not be equal, and a checkpoint fits only the one it was made on.
const BUILT: &str = "built";

/// Room for images and containers; the file is sparse, so it costs nothing until written.
const DISK_BYTES: u64 = 24 << 30;

/// Builds the machine, or finds it in the cache. `progress` is told each step. The entry keeps it from being pruned.
///
/// # Errors
/// Missing tools (all at once), a failed step with its last words.
pub fn docker(cache: &Cache, lease: &Lease, progress: &dyn Fn(&str)) -> Result<(Entry, System), ImageError> {
    let debian = Debian::docker()?;
    let key = debian.docker_key();
    let entry = cache.entry(KIND, &key, lease, |dir| make(&debian, &key, cache, dir, lease, progress))?;
    let built = fs::read_to_string(entry.path.join(BUILT))?;
    let system = System { dir: entry.path.clone(), key: built };
    Ok((entry, system))
}

/// Whether it is in the cache or can be built here.
///
/// # Errors
/// What is missing to build it.
pub fn docker_state(cache: &Cache) -> Result<&'static str, ImageError> {
    if cache.root().join(KIND).join(Debian::docker()?.docker_key()).is_dir() {
        return Ok("built");
    }
    let missing = build::missing_tools(false);
    if missing.is_empty() { Ok("can be built (some minutes)") } else { Err(ImageError::Missing(missing)) }
}

fn make(debian: &Debian, key: &str, cache: &Cache, dir: &Path, lease: &Lease, progress: &dyn Fn(&str)) -> Result<(), ImageError> {
    let missing = build::missing_tools(false);
    if !missing.is_empty() {
        return Err(ImageError::Missing(missing));
    }
    progress("Debian root file system with dockerd");
    let tar = debian::root(debian, Store::new(cache.root()).root(), lease)?;
    let (root, log) = (dir.join("root"), dir.join("log"));
    fs::create_dir(&root)?;
    build::unpack(&tar, &[], &root, &log, lease)?;
    for (path, text, executable) in docker_overlay() {
        build::put(&root.join(path), text.as_bytes(), executable)?;
    }
    for unit in ["highwater-channel", "systemd-networkd"] {
        build::enable(&root, unit)?;
    }
    build::boot_files(&root, dir)?;
    fs::write(dir.join("packages.json"), serde_json::to_vec_pretty(&build::packages(&root)?).unwrap_or_default())?;
    progress("disk");
    build::make_disk(key, &root, DISK_BYTES, &dir.join("disk.ext4"), &log, lease)?;
    fs::remove_dir_all(&root)?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    fs::write(dir.join(BUILT), format!("{key}-{}", now.as_nanos()))?;
    Ok(fs::remove_file(&log)?)
}
