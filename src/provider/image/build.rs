//! Builds an image: programs, Debian, the files over it, one ext4 disk.

use super::recipe::{Form, Place, Recipe};
use super::{Image, ImageError, Manifest, Store, debian, go, recipe, step};
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
pub(super) const DEADLINE: Duration = Duration::from_secs(10 * 60);

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
    let _lock = prepare(options, store, progress)?;
    let (programs, hashes) = programs(recipe, Form::Disk, options, store, lease, progress)?;
    let key = recipe.image_key(&hashes);
    if let Some(image) = store.get(&key)? {
        return Ok(image);
    }
    progress("Debian root file system");
    let tar = debian::root(&recipe.debian, store.root(), lease)?;
    progress("disk");
    assemble(recipe, options, store, lease, &key, hashes, &programs, &tar)
}

/// Checks the machine's tools and waits for the end of other builds: a second one then finds everything cached.
pub(super) fn prepare(options: &Options, store: &Store, progress: &dyn Fn(&str)) -> Result<fs::File, ImageError> {
    let missing = missing_tools(options.binaries.is_none());
    if !missing.is_empty() {
        return Err(ImageError::Missing(missing));
    }
    fs::create_dir_all(store.root())?;
    let lock = fs::File::create(store.root().join("build.lock"))?;
    if lock.file().try_lock().is_err() {
        progress("waiting for another image build");
        lock.file().lock()?;
    }
    Ok(lock)
}

/// Programs by name: their files and the files' SHA-256.
pub(super) type Programs = (BTreeMap<String, PathBuf>, BTreeMap<String, String>);

/// The programs of a form, compiled or the user's own.
pub(super) fn programs(
    recipe: &Recipe,
    form: Form,
    options: &Options,
    store: &Store,
    lease: &Lease,
    progress: &dyn Fn(&str),
) -> Result<Programs, ImageError> {
    let programs = match &options.binaries {
        Some(dir) => own_programs(recipe, form, dir)?,
        None => compiled_programs(recipe, form, store, lease, progress)?,
    };
    let hashes = programs.iter().map(|(name, path)| Ok((name.clone(), sha256(path)?))).collect::<Result<_, ImageError>>()?;
    Ok((programs, hashes))
}

fn compiled_programs(
    recipe: &Recipe,
    form: Form,
    store: &Store,
    lease: &Lease,
    progress: &dyn Fn(&str),
) -> Result<BTreeMap<String, PathBuf>, ImageError> {
    let total = recipe.commands(form).count();
    let mut programs = BTreeMap::new();
    for (number, (build, command)) in recipe.commands(form).enumerate() {
        progress(&format!("compiling {} ({} of {total})", command.name, number + 1));
        programs.insert(command.name.clone(), go::compile(recipe, build, command, store.root(), lease)?);
    }
    Ok(programs)
}

fn own_programs(recipe: &Recipe, form: Form, dir: &Path) -> Result<BTreeMap<String, PathBuf>, ImageError> {
    let programs: BTreeMap<_, _> = recipe.commands(form).map(|(_, c)| (c.name.clone(), dir.join(&c.name))).collect();
    let names: Vec<_> = programs.iter().filter(|(_, path)| !path.is_file()).map(|(name, _)| name.clone()).collect();
    if names.is_empty() { Ok(programs) } else { Err(ImageError::Binaries { dir: dir.to_owned(), names }) }
}

/// What this machine lacks for a build, each with what to do.
pub(super) fn missing_tools(compile: bool) -> Vec<String> {
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
    unpack(tar, &[], &root, &log, lease)?;
    put_programs(recipe.commands(Form::Disk).map(|(_, command)| command), programs, &root, Some(&out.join("bin")))?;
    for (path, text, executable) in Recipe::overlay() {
        put(&root.join(path), text.replace("@PAUSE@", &recipe.pause).as_bytes(), executable)?;
    }
    for unit in ["containerd", "highwater-channel", "systemd-networkd"] {
        enable(&root, unit)?;
    }
    let kernel = boot_files(&root, &out)?;
    let packages = packages(&root)?;
    make_disk(key, &root, DISK_BYTES, &out.join("disk.ext4"), &log, lease)?;
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

/// Unpacks the Debian root file system, but for these paths.
pub(super) fn unpack(tar: &Path, without: &[&str], root: &Path, log: &Path, lease: &Lease) -> Result<(), ImageError> {
    let mut untar = Command::new("tar");
    untar.args(without.iter().map(|path| format!("--exclude=./{path}")));
    untar.args(["--numeric-owner", "--xattrs", "-xf"]).arg(tar).arg("-C").arg(root);
    Ok(step::run("unpacking the Debian root file system", untar, log, DEADLINE, lease)?)
}

/// Puts programs where they belong; those of the host into `host`, if there is such a folder.
pub(super) fn put_programs<'a>(
    commands: impl Iterator<Item = &'a recipe::Command>,
    programs: &BTreeMap<String, PathBuf>,
    root: &Path,
    host: Option<&Path>,
) -> Result<(), ImageError> {
    for command in commands {
        let to = match (command.place, host) {
            (Place::Node, _) => root.join("usr/local/bin").join(&command.name),
            (Place::Cni, _) => root.join("opt/cni/bin").join(&command.name),
            (Place::Host, Some(host)) => host.join(&command.name),
            (Place::Host, None) => continue,
        };
        put(&to, &fs::read(&programs[&command.name])?, true)?;
    }
    Ok(())
}

/// Has systemd start a unit at boot.
pub(super) fn enable(root: &Path, unit: &str) -> Result<(), ImageError> {
    let target = if unit.starts_with("systemd") { "/usr/lib/systemd/system" } else { "/etc/systemd/system" };
    link(root, &format!("multi-user.target.wants/{unit}.service"), &format!("{target}/{unit}.service"))
}

/// Makes a link below /etc/systemd/system, unless it is there.
pub(super) fn link(root: &Path, name: &str, target: &str) -> Result<(), ImageError> {
    let link = root.join("etc/systemd/system").join(name);
    fs::create_dir_all(link.parent().unwrap_or(root))?;
    if fs::symlink_metadata(&link).is_err() {
        fs::os::unix::fs::symlink(target, &link)?;
    }
    Ok(())
}

pub(super) fn put(to: &Path, bytes: &[u8], executable: bool) -> Result<(), ImageError> {
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
pub(super) fn boot_files(root: &Path, out: &Path) -> Result<String, ImageError> {
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
pub(super) fn packages(root: &Path) -> Result<BTreeMap<String, String>, ImageError> {
    let status = fs::read_to_string(root.join("var/lib/dpkg/status"))?;
    let field = |block: &str, name: &str| block.lines().find_map(|l| l.strip_prefix(name).map(|v| v.trim().to_owned()));
    Ok(status.split("\n\n").filter_map(|block| Some((field(block, "Package:")?, field(block, "Version:")?))).collect())
}

pub(super) fn make_disk(key: &str, root: &Path, bytes: u64, disk: &Path, log: &Path, lease: &Lease) -> Result<(), ImageError> {
    fs::File::create(disk)?.set_len(bytes)?;
    // The identity of the file system comes from the key, not from chance.
    let uuid = format!("{}-{}-{}-{}-{}", &key[..8], &key[8..12], &key[12..16], &key[16..20], &key[20..32]);
    let mut mke2fs = Command::new(in_path("mke2fs".as_ref()).unwrap_or_else(|| "mke2fs".into()));
    mke2fs.args(["-q", "-F", "-t", "ext4", "-m", "0", "-L", "highwater", "-O", "^has_journal", "-U", &uuid]);
    mke2fs.args(["-E", &format!("hash_seed={uuid},lazy_itable_init=1"), "-d"]).arg(root).arg(disk);
    Ok(step::run("making the disk", mke2fs, log, DEADLINE, lease)?)
}

pub(super) fn sha256(path: &Path) -> Result<String, ImageError> {
    Ok(hex(&Sha256::digest(fs::read(path)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_programs_that_are_missing_are_named_at_once() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("kubelet"), "").unwrap();
        let error = own_programs(&Recipe::of("1.37").unwrap(), Form::Disk, dir.path()).unwrap_err().to_string();
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
