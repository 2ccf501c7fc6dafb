//! Builds an image: programs, Debian, the files over it, one ext4 disk.

use super::recipe::{Place, Recipe};
use super::{Image, ImageError, Manifest, Store, debian, go, step};
use crate::provider::cache::hex;
use crate::provider::lease::Lease;
use crate::provider::machine::in_path;
use fs_err as fs;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Free space of the disk beyond its content; the file is sparse, so it costs nothing until written.
const DISK_BYTES: u64 = 6 << 30;
const DEADLINE: Duration = Duration::from_secs(10 * 60);

/// How to build.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A folder with the user's own programs, used instead of compiling.
    pub binaries: Option<PathBuf>,
}

/// Builds the image of a recipe, or finds it in the store. `progress` is told each step.
///
/// # Errors
/// Missing tools (all at once), a failed step with its last words.
pub fn build(
    recipe: &Recipe,
    options: &Options,
    store: &Store,
    lease: &Lease,
    progress: &dyn Fn(&str),
) -> Result<Image, ImageError> {
    let missing = missing_tools(options.binaries.is_none());
    if !missing.is_empty() {
        return Err(ImageError::Missing(missing));
    }
    fs::create_dir_all(store.root())?;
    // One build at a time: a second one waits and then finds everything cached.
    let lock = fs::File::create(store.root().join("build.lock"))?;
    if lock.file().try_lock().is_err() {
        progress("waiting for another image build");
        lock.file().lock()?;
    }
    let programs = match &options.binaries {
        Some(dir) => own_programs(recipe, dir)?,
        None => compiled_programs(recipe, store, lease, progress)?,
    };
    let hashes = programs.iter().map(|(name, path)| Ok((name.clone(), sha256(path)?))).collect::<Result<_, ImageError>>()?;
    let key = recipe.image_key(&hashes);
    if let Some(image) = store.get(&key)? {
        return Ok(image);
    }
    progress("Debian root file system");
    let tar = debian::root(recipe, store.root(), lease)?;
    progress("disk");
    assemble(recipe, options, store, lease, &key, hashes, &programs, &tar)
}

fn compiled_programs(
    recipe: &Recipe,
    store: &Store,
    lease: &Lease,
    progress: &dyn Fn(&str),
) -> Result<BTreeMap<String, PathBuf>, ImageError> {
    let total = recipe.commands().count();
    let mut programs = BTreeMap::new();
    for (number, (build, command)) in recipe.commands().enumerate() {
        progress(&format!("compiling {} ({} of {total})", command.name, number + 1));
        programs.insert(command.name.clone(), go::compile(recipe, build, command, store.root(), lease)?);
    }
    Ok(programs)
}

fn own_programs(recipe: &Recipe, dir: &Path) -> Result<BTreeMap<String, PathBuf>, ImageError> {
    let programs: BTreeMap<_, _> = recipe.commands().map(|(_, c)| (c.name.clone(), dir.join(&c.name))).collect();
    let names: Vec<_> = programs.iter().filter(|(_, path)| !path.is_file()).map(|(name, _)| name.clone()).collect();
    if names.is_empty() { Ok(programs) } else { Err(ImageError::Binaries { dir: dir.to_owned(), names }) }
}

/// What this machine lacks for a build, each with what to do.
fn missing_tools(compile: bool) -> Vec<String> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push(
            "root, to own the files of a root file system (run it as root, or copy an image from a machine where you are)"
                .to_owned(),
        );
    }
    let mut need = vec![
        ("mmdebstrap", "apt-get install mmdebstrap"),
        ("mke2fs", "apt-get install e2fsprogs"),
        ("tar", "apt-get install tar"),
    ];
    if compile {
        need.extend([
            ("go", "install Go 1.21 or newer, or give --binaries DIR"),
            ("gcc", "apt-get install gcc libc6-dev"),
            ("pkg-config", "apt-get install pkg-config"),
        ]);
    }
    for (tool, hint) in need {
        if in_path(tool.as_ref()).is_none() {
            missing.push(format!("{tool} ({hint})"));
        }
    }
    let seccomp = || Command::new("pkg-config").args(["--exists", "libseccomp"]).status().is_ok_and(|s| s.success());
    if compile && in_path("pkg-config".as_ref()).is_some() && !seccomp() {
        missing.push("libseccomp (apt-get install libseccomp-dev)".to_owned());
    }
    missing
}

/// Lays everything into one folder and makes the disk of it.
#[expect(clippy::too_many_arguments, reason = "each is another kind of thing, and there is one caller")]
fn assemble(
    recipe: &Recipe,
    options: &Options,
    store: &Store,
    lease: &Lease,
    key: &str,
    hashes: BTreeMap<String, String>,
    programs: &BTreeMap<String, PathBuf>,
    tar: &Path,
) -> Result<Image, ImageError> {
    let images = store.root().join("images");
    fs::create_dir_all(&images)?;
    let work = tempfile::Builder::new().prefix("building-").tempdir_in(&images)?;
    let (out, root, log) = (work.path().join("image"), work.path().join("root"), work.path().join("log"));
    [&out, &root, &out.join("bin")].into_iter().try_for_each(fs::create_dir_all)?;
    let mut untar = Command::new("tar");
    untar.args(["--numeric-owner", "--xattrs", "-xf"]).arg(tar).arg("-C").arg(&root);
    step::run("unpacking the Debian root file system", untar, &log, DEADLINE, lease)?;
    for (_, command) in recipe.commands() {
        let from = &programs[&command.name];
        let to = match command.place {
            Place::Node => root.join("usr/local/bin").join(&command.name),
            Place::Cni => root.join("opt/cni/bin").join(&command.name),
            Place::Host => out.join("bin").join(&command.name),
        };
        put(&to, &fs::read(from)?, true)?;
    }
    for (path, text, executable) in Recipe::overlay() {
        put(&root.join(path), text.replace("@PAUSE@", &recipe.pause).as_bytes(), executable)?;
    }
    for unit in ["containerd", "highwater-channel", "systemd-networkd"] {
        let link = root.join("etc/systemd/system/multi-user.target.wants").join(format!("{unit}.service"));
        fs::create_dir_all(link.parent().unwrap_or(&root))?;
        let target = if unit.starts_with("systemd") { "/usr/lib/systemd/system" } else { "/etc/systemd/system" };
        if fs::symlink_metadata(&link).is_err() {
            fs::os::unix::fs::symlink(format!("{target}/{unit}.service"), &link)?;
        }
    }
    let kernel = boot_files(&root, &out)?;
    let packages = packages(&root)?;
    make_disk(key, &root, &out.join("disk.ext4"), &log, lease)?;
    let manifest = Manifest {
        key: key.to_owned(),
        minor: recipe.minor.clone(),
        kubernetes: recipe.kubernetes.clone(),
        pause: recipe.pause.clone(),
        kernel,
        own_programs: options.binaries.is_some(),
        programs: hashes,
        packages,
    };
    fs::write(out.join("manifest.json"), serde_json::to_vec_pretty(&manifest).unwrap_or_default())?;
    let dir = store.dir(key);
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::rename(&out, &dir)?;
    Ok(Image { dir, manifest })
}

fn put(to: &Path, bytes: &[u8], executable: bool) -> Result<(), ImageError> {
    fs::create_dir_all(to.parent().unwrap_or(Path::new("/")))?;
    // Debian may have a link there (resolv.conf): replace it, never write through it.
    if fs::symlink_metadata(to).is_ok_and(|m| m.is_symlink()) {
        fs::remove_file(to)?;
    }
    fs::write(to, bytes)?;
    fs::set_permissions(to, std::fs::Permissions::from_mode(if executable { 0o755 } else { 0o644 }))?;
    Ok(())
}

/// Copies kernel and initrd out of the root file system and returns the kernel's release.
fn boot_files(root: &Path, out: &Path) -> Result<String, ImageError> {
    let mut release = None;
    for entry in fs::read_dir(root.join("boot"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(version) = name.strip_prefix("vmlinuz-") {
            fs::copy(entry.path(), out.join("vmlinuz"))?;
            release = Some(version.to_owned());
        } else if name.starts_with("initrd.img-") {
            fs::copy(entry.path(), out.join("initrd.img"))?;
        }
    }
    release.ok_or_else(|| std::io::Error::other(format!("{}/boot holds no kernel", root.display())).into())
}

/// Installed packages and versions, from dpkg's own database.
fn packages(root: &Path) -> Result<BTreeMap<String, String>, ImageError> {
    let status = fs::read_to_string(root.join("var/lib/dpkg/status"))?;
    let field = |block: &str, name: &str| block.lines().find_map(|l| l.strip_prefix(name).map(|v| v.trim().to_owned()));
    Ok(status.split("\n\n").filter_map(|block| Some((field(block, "Package:")?, field(block, "Version:")?))).collect())
}

fn make_disk(key: &str, root: &Path, disk: &Path, log: &Path, lease: &Lease) -> Result<(), ImageError> {
    fs::File::create(disk)?.set_len(DISK_BYTES)?;
    // The identity of the file system comes from the key, not from chance.
    let uuid = format!("{}-{}-{}-{}-{}", &key[..8], &key[8..12], &key[12..16], &key[16..20], &key[20..32]);
    let mut mke2fs = Command::new(in_path("mke2fs".as_ref()).unwrap_or_else(|| "mke2fs".into()));
    mke2fs.args(["-q", "-F", "-t", "ext4", "-m", "0", "-L", "highwater", "-O", "^has_journal", "-U", &uuid]);
    mke2fs.args(["-E", &format!("hash_seed={uuid},lazy_itable_init=1"), "-d"]).arg(root).arg(disk);
    Ok(step::run("making the disk", mke2fs, log, DEADLINE, lease)?)
}

fn sha256(path: &Path) -> Result<String, ImageError> {
    Ok(hex(&Sha256::digest(fs::read(path)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_programs_that_are_missing_are_named_at_once() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("kubelet"), "").unwrap();
        let error = own_programs(&Recipe::of("1.37").unwrap(), dir.path()).unwrap_err().to_string();
        assert!(error.contains("containerd") && error.contains("kube-apiserver") && !error.contains("kubelet,"), "{error}");
    }

    #[test]
    fn installed_packages_come_from_dpkg() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("var/lib/dpkg")).unwrap();
        let status = "Package: kmod\nStatus: install ok installed\nVersion: 34-1\n\nPackage: udev\nVersion: 257\n";
        fs::write(dir.path().join("var/lib/dpkg/status"), status).unwrap();
        let found = packages(dir.path()).unwrap();
        assert_eq!(found["kmod"], "34-1");
        assert_eq!(found["udev"], "257");
    }
}
