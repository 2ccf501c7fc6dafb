//! The container form of a node image: an archive for `docker load` and `kind create cluster --image`.

use super::build::{self, Options};
use super::oci::{self, OneProgram};
use super::recipe::{Form, Recipe};
use super::{ImageError, Store, debian, runtime, step};
use crate::provider::cache::{hash_file, hex};
use crate::provider::lease::Lease;
use fs_err as fs;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A built container image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerImage {
    /// The hash of everything that went in.
    pub key: String,
    /// The name under which `docker load` makes it known.
    pub name: String,
    /// The kubelet's version, for example "1.37.2".
    pub kubernetes: String,
    /// The archive.
    pub archive: PathBuf,
    /// Images that the node has without a registry.
    pub images: Vec<String>,
    /// SHA-256 of every program by name.
    pub programs: BTreeMap<String, String>,
    /// Debian packages with their versions, as installed.
    pub packages: BTreeMap<String, String>,
}

/// What a machine needs and a container has from the machine it runs on.
const WITHOUT: [&str; 4] = ["boot/*", "usr/lib/modules/*", "usr/lib/firmware/*", "var/cache/*"];

/// Units that would set up the machine below instead of the node, or wait for what a container does not have. A getty hangs up whatever
/// else writes to the console, and kind reads systemd's words there.
const MASKED: [&str; 16] = [
    "console-getty.service",
    "e2scrub_all.timer",
    "fstrim.timer",
    "getty.target",
    "systemd-logind.service",
    "systemd-modules-load.service",
    "systemd-networkd.service",
    "systemd-remount-fs.service",
    "systemd-resolved.service",
    "systemd-sysctl.service",
    "systemd-timesyncd.service",
    "systemd-udev-settle.service",
    "systemd-udev-trigger.service",
    "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket",
    "systemd-udevd.service",
];

/// Builds the container form of a recipe, or finds it in the store. `workload` is the program of the workload image and the pause image;
/// `progress` is told each step.
///
/// # Errors
/// Missing tools (all at once), a failed step with its last words.
pub fn container(
    recipe: &Recipe,
    workload: &Path,
    options: &Options,
    store: &Store,
    lease: &Lease,
    progress: &dyn Fn(&str),
) -> Result<ContainerImage, ImageError> {
    let _lock = build::prepare(options, store, progress)?;
    let (programs, mut hashes) = build::programs(recipe, Form::Container, options, store, lease, progress)?;
    hashes.insert("highwater-node".to_owned(), build::sha256(workload)?);
    let key = recipe.container_key(&hashes);
    let dir = store.container_dir(&key);
    if let Some(image) = store.container(&key)? {
        return Ok(image);
    }
    progress("Debian root file system");
    let tar = debian::root(&recipe.debian, store.root(), lease)?;
    let above = dir.parent().unwrap_or(store.root()).to_owned();
    fs::create_dir_all(&above)?;
    let work = tempfile::Builder::new().prefix("building-").tempdir_in(&above)?;
    let (out, root, log) = (work.path().join("image"), work.path().join("root"), work.path().join("log"));
    [&out, &root].into_iter().try_for_each(fs::create_dir_all)?;
    build::unpack(&tar, &WITHOUT, &root, &log, lease)?;
    build::put_programs(recipe.commands(Form::Container).map(|(_, command)| command), &programs, &root, None)?;
    lay(recipe, &root)?;
    progress("images of the control plane");
    let names = preload(recipe, workload, &programs, &root, work.path(), lease)?;
    progress("archive");
    let image = ContainerImage {
        name: format!("highwater/node:v{}", recipe.kubernetes),
        kubernetes: recipe.kubernetes.clone(),
        archive: dir.join("node.tar"),
        images: names,
        programs: hashes,
        packages: build::packages(&root)?,
        key,
    };
    let layer = work.path().join("layer.tar");
    let mut tar = Command::new("tar");
    tar.args(["--numeric-owner", "--xattrs", "--sort=name", "--mtime=@0", "-cf"]).arg(&layer).arg("-C").arg(&root).arg(".");
    step::run("packing the node's root file system", tar, &log, build::DEADLINE, lease)?;
    docker_archive(&image.name, &layer, &out.join("node.tar"))?;
    fs::write(out.join("manifest.json"), serde_json::to_vec_pretty(&image).unwrap_or_default())?;
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::rename(&out, &dir)?;
    Ok(image)
}

/// The files over Debian, and which units run.
fn lay(recipe: &Recipe, root: &Path) -> Result<(), ImageError> {
    for (path, text, executable) in Recipe::container_overlay() {
        build::put(&root.join(path), text.replace("@PAUSE@", &recipe.pause).as_bytes(), executable)?;
    }
    build::put(&root.join("kind/version"), format!("v{}", recipe.kubernetes).as_bytes(), false)?;
    for unit in ["containerd", "kubelet"] {
        build::enable(root, unit)?;
    }
    for unit in MASKED {
        build::link(root, unit, "/dev/null")?;
    }
    build::link(root, "default.target", "/usr/lib/systemd/system/multi-user.target")
}

/// Puts the images of the control plane, of the pause container and of the workloads into the node's runtime.
fn preload(
    recipe: &Recipe,
    workload: &Path,
    programs: &BTreeMap<String, PathBuf>,
    root: &Path,
    work: &Path,
    lease: &Lease,
) -> Result<Vec<String>, ImageError> {
    let own = fs::read(workload)?;
    let control =
        recipe.container.images.iter().map(|image| {
            Ok((image.name.as_str(), format!("usr/local/bin/{}", image.program), fs::read(&programs[&image.program])?))
        });
    let control = control.collect::<Result<Vec<_>, ImageError>>()?;
    let mut images = oci::node_images(&own, oci::WORKLOAD, &recipe.pause).to_vec();
    images.extend(control.iter().map(|(name, path, program)| OneProgram { name, path, program, entry: &[] }));
    let directory = root.join("var/lib/containerd");
    fs::create_dir_all(&directory)?;
    runtime::import(&images, programs, &directory, work, lease)?;
    Ok(images.iter().map(|image| image.name.to_owned()).collect())
}

/// Writes the archive `docker load` reads: one layer and what the container runs.
fn docker_archive(name: &str, layer: &Path, to: &Path) -> Result<(), ImageError> {
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/lib/highwater/entrypoint", "/sbin/init"],
            // systemd.io/CONTAINER_INTERFACE: how systemd learns that it runs in a container.
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "container=docker"],
            // systemd(1): this one halts it, SIGTERM would only have it execute itself again.
            "StopSignal": "SIGRTMIN+3",
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", hash_file(layer).map_err(std::io::Error::other)?)] },
    })
    .to_string();
    let config_name = format!("{}.json", hex(&Sha256::digest(config.as_bytes())));
    let manifest = json!([{ "Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"] }]).to_string();
    let mut archive = tar::Builder::new(std::io::BufWriter::new(fs::File::create(to)?));
    for (path, text) in [(config_name.as_str(), &config), ("manifest.json", &manifest)] {
        archive.append_data(&mut header(text.len() as u64), path, text.as_bytes())?;
    }
    let file = fs::File::open(layer)?;
    archive.append_data(&mut header(file.metadata()?.len()), "layer.tar", file)?;
    archive.into_inner()?.flush()?;
    Ok(())
}

fn header(size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o644);
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_archive_names_its_config_by_hash_and_its_layer_by_digest() {
        let dir = tempfile::tempdir().unwrap();
        let (layer, to) = (dir.path().join("layer"), dir.path().join("node.tar"));
        fs::write(&layer, "the layer").unwrap();
        docker_archive("highwater/node:v1", &layer, &to).unwrap();
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(fs::File::open(&to).unwrap()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let (path, mut bytes) = (entry.path().unwrap().display().to_string(), Vec::new());
            entry.read_to_end(&mut bytes).unwrap();
            files.insert(path, bytes);
        }
        let manifest: serde_json::Value = serde_json::from_slice(&files["manifest.json"]).unwrap();
        let config = manifest[0]["Config"].as_str().unwrap();
        assert_eq!(config, format!("{}.json", hex(&Sha256::digest(&files[config]))));
        let config: serde_json::Value = serde_json::from_slice(&files[config]).unwrap();
        let digest = format!("sha256:{}", hex(&Sha256::digest(&files["layer.tar"])));
        assert_eq!(config["rootfs"]["diff_ids"], json!([digest]));
        assert_eq!(config["config"]["StopSignal"], "SIGRTMIN+3");
    }

    #[test]
    fn what_would_touch_the_machine_below_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        lay(&Recipe::of("1.37").unwrap(), dir.path()).unwrap();
        let units = dir.path().join("etc/systemd/system");
        assert_eq!(fs::read_link(units.join("fstrim.timer")).unwrap(), Path::new("/dev/null"));
        assert!(fs::symlink_metadata(units.join("multi-user.target.wants/kubelet.service")).is_ok());
        assert!(fs::read_to_string(units.join("kubelet.service")).unwrap().contains("Slice=kubelet.slice"));
        assert!(!dir.path().join("etc/fstab").exists() && !dir.path().join("etc/sysctl.d").exists());
        assert_eq!(fs::read_to_string(dir.path().join("kind/version")).unwrap(), "v1.37.2");
    }
}
