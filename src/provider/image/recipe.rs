//! The recipe of a node image: the files of `node-images/`, carried in the program.

use crate::provider::cache::hex;
use crate::yaml;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../node-images/", $path)))),*]
    };
}

/// Every file of `node-images/` that goes into an image, by its path there.
pub(super) const FILES: &[(&str, &str)] = files![
    "base.yaml",
    "1.37.yaml",
    "container/etc/systemd/system/kubelet.service",
    "container/kind/manifests/default-cni.yaml",
    "container/kind/manifests/default-storage.yaml",
    "container/usr/lib/highwater/entrypoint",
    "container/usr/lib/highwater/kubelet-cgroup",
    "docker.yaml",
    "docker/etc/systemd/system/docker.service.d/highwater.conf",
    "modules/kubernetes-1.37/go.mod",
    "modules/kubernetes-1.37/go.sum",
    "modules/runtime/go.mod",
    "modules/runtime/go.sum",
    "rootfs/etc/cni/net.d/10-highwater.conflist",
    "rootfs/etc/containerd/config.toml",
    "rootfs/etc/crictl.yaml",
    "rootfs/etc/fstab",
    "rootfs/etc/initramfs-tools/conf.d/highwater",
    "rootfs/etc/initramfs-tools/modules",
    "rootfs/etc/modules-load.d/highwater.conf",
    "rootfs/etc/resolv.conf",
    "rootfs/etc/sysctl.d/90-highwater.conf",
    "rootfs/etc/systemd/journald.conf.d/highwater.conf",
    "rootfs/etc/systemd/network/10-highwater.network",
    "rootfs/etc/systemd/system/containerd.service",
    "rootfs/etc/systemd/system/highwater-channel.service",
    "rootfs/etc/systemd/system/kubelet.service",
    "rootfs/usr/lib/highwater/channel",
];

/// Kubernetes minors with a recipe, newest first.
pub const VERSIONS: &[&str] = &["1.37"];

/// Why a recipe cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// No such version.
    #[error("no node image recipe for kubernetes {0:?}: known are {known}", known = VERSIONS.join(", "))]
    UnknownVersion(String),
    /// A file of the recipe is wrong; only a changed checkout can cause it.
    #[error("{0}")]
    Malformed(String),
}

/// How one version's image is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// The minor, for example "1.37".
    pub minor: String,
    /// The kubelet's version, for example "1.37.2".
    pub kubernetes: String,
    /// The name the sandbox image must have.
    pub pause: String,
    /// The Go toolchain, for example "go1.26.8".
    pub go: String,
    /// The Debian below.
    pub debian: Debian,
    /// What is compiled.
    pub builds: Vec<Build>,
    /// What the container form has beside it.
    pub container: ContainerForm,
}

/// The container form of a node: what kubeadm and kind need beside what every form has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerForm {
    /// What is compiled for it alone.
    pub build: Build,
    /// Control-plane images, each of one program.
    pub images: Vec<ControlImage>,
}

/// A container image of the control plane: one static program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlImage {
    /// The name that kubeadm asks for.
    pub name: String,
    /// The program in it.
    pub program: String,
}

impl Debian {
    /// The Debian of the machine that dockerd runs in.
    ///
    /// # Errors
    /// Only a changed checkout can cause one.
    pub fn docker() -> Result<Debian, RecipeError> {
        read("docker.yaml")
    }

    /// Hash of what decides the root file system, as far as the recipe does: the archive's own state comes on top and is recorded in
    /// the image's manifest.
    #[must_use]
    pub fn key(&self) -> String {
        let mut key = Key::default();
        key.add("suite", &self.suite).add("packages", &self.packages.join(","));
        for (path, text, _) in Recipe::overlay().filter(|(path, ..)| path.starts_with("etc/initramfs-tools/")) {
            key.add(path, text);
        }
        key.finish()
    }

    /// Hash of the whole machine of [`Debian::docker`].
    #[must_use]
    pub fn docker_key(&self) -> String {
        let mut key = Key::default();
        key.add("debian", &self.key());
        docker_overlay().for_each(|(path, text, _)| {
            key.add(path, text);
        });
        key.finish()
    }
}

/// What a node image is made into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A disk for a virtual machine.
    Disk,
    /// An archive for `docker load` and `kind create cluster --image`.
    Container,
}

/// The Debian root file system.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Debian {
    /// The suite.
    pub suite: String,
    /// Packages beyond the minimal base.
    pub packages: Vec<String>,
}

/// One way of calling the Go compiler and the commands made that way.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// The folder of go.mod and go.sum in `node-images/modules`.
    pub module: String,
    /// The commands.
    pub commands: Vec<Command>,
    /// Needs a C compiler and links libseccomp.
    #[serde(default)]
    pub cgo: bool,
    /// Build tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Arguments of the linker beside "-s -w".
    #[serde(default)]
    pub link: Vec<String>,
}

/// A command to compile.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The program's file name.
    pub name: String,
    /// Its Go package.
    pub package: String,
    /// Where it goes.
    pub place: Place,
}

/// Where a program goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// /usr/local/bin of the node.
    Node,
    /// /opt/cni/bin of the node.
    Cni,
    /// Beside the disk: it runs on the host as part of the control plane.
    Host,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Base {
    go: String,
    debian: Debian,
    builds: Vec<Build>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Version {
    kubernetes: String,
    pause: String,
    build: Build,
    container: ContainerPart,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContainerPart {
    commands: Vec<Command>,
    images: Vec<ControlImage>,
}

impl Recipe {
    /// The recipe of a Kubernetes minor.
    ///
    /// # Errors
    /// A minor without a recipe.
    pub fn of(minor: &str) -> Result<Recipe, RecipeError> {
        if !VERSIONS.contains(&minor) {
            return Err(RecipeError::UnknownVersion(minor.to_owned()));
        }
        let version: Version = read(&format!("{minor}.yaml"))?;
        let base: Base = read("base.yaml")?;
        let build = Build { commands: version.container.commands, ..version.build.clone() };
        let container = ContainerForm { build, images: version.container.images };
        let mut builds = vec![version.build];
        builds.extend(base.builds);
        Ok(Recipe {
            minor: minor.to_owned(),
            kubernetes: version.kubernetes,
            pause: version.pause,
            go: base.go,
            debian: base.debian,
            builds,
            container,
        })
    }

    /// All commands of a form, each with the build it belongs to.
    pub fn commands(&self, form: Form) -> impl Iterator<Item = (&Build, &Command)> {
        let own = (form == Form::Container).then_some(&self.container.build);
        self.builds.iter().chain(own).flat_map(|b| b.commands.iter().map(move |c| (b, c)))
    }

    /// Files laid over the root file system of a disk: path from the root, content, executable or not.
    pub fn overlay() -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        below("rootfs/")
    }

    /// Files laid over the root file system of a container: its own, and those of the disk that are not about a machine.
    pub fn container_overlay() -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        below("rootfs/").filter(|(path, ..)| SHARED.contains(path)).chain(below("container/"))
    }

    /// Hash of what decides a command's bytes: modules with sums, toolchain, flags.
    #[must_use]
    pub fn command_key(&self, build: &Build, command: &Command) -> String {
        let mut key = Key::default();
        key.add("go", &self.go).add("package", &command.package).add("cgo", if build.cgo { "1" } else { "0" });
        key.add("tags", &build.tags.join(",")).add("link", &build.link.join(" "));
        for file in ["go.mod", "go.sum"] {
            key.add(file, module_file(&build.module, file));
        }
        key.finish()
    }

    /// Hash of the container form; `programs` are the hashes of the programs by name, the workload image's among them.
    #[must_use]
    pub fn container_key(&self, programs: &BTreeMap<String, String>) -> String {
        let mut key = Key::default();
        key.add("image", &self.image_key(programs));
        Recipe::container_overlay().for_each(|(path, text, _)| {
            key.add(path, text);
        });
        self.container.images.iter().for_each(|image| {
            key.add(&image.name, &image.program);
        });
        key.finish()
    }

    /// Hash of the whole image; `programs` are the hashes of the programs by name.
    #[must_use]
    pub fn image_key(&self, programs: &BTreeMap<String, String>) -> String {
        let mut key = Key::default();
        key.add("kubernetes", &self.kubernetes).add("pause", &self.pause).add("debian", &self.debian.key());
        Recipe::overlay().for_each(|(path, text, _)| {
            key.add(path, text);
        });
        programs.iter().for_each(|(name, hash)| {
            key.add(name, hash);
        });
        key.finish()
    }
}

/// Files of `rootfs/` that a container has as well. The others set up a machine: its disks, its network, its kernel's settings.
const SHARED: [&str; 4] = [
    "etc/cni/net.d/10-highwater.conflist",
    "etc/containerd/config.toml",
    "etc/crictl.yaml",
    "etc/systemd/system/containerd.service",
];

/// Files of `rootfs/` that are about Kubernetes and its runtime; the others are about a machine.
const KUBERNETES: [&str; 5] = [
    "etc/cni/net.d/10-highwater.conflist",
    "etc/containerd/config.toml",
    "etc/crictl.yaml",
    "etc/systemd/system/containerd.service",
    "etc/systemd/system/kubelet.service",
];

/// Files laid over the root file system of the machine that dockerd runs in.
pub(super) fn docker_overlay() -> impl Iterator<Item = (&'static str, &'static str, bool)> {
    below("rootfs/").filter(|(path, ..)| !KUBERNETES.contains(path)).chain(below("docker/"))
}

fn below(folder: &'static str) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
    FILES.iter().filter_map(move |(path, text)| {
        let path = path.strip_prefix(folder)?;
        Some((path, *text, path.starts_with("usr/lib/highwater/")))
    })
}

/// A file of a Go module of the recipe.
pub(super) fn module_file(module: &str, file: &str) -> &'static str {
    let path = format!("modules/{module}/{file}");
    FILES.iter().find(|(p, _)| *p == path).map_or("", |(_, text)| text)
}

fn read<T: serde::de::DeserializeOwned>(path: &str) -> Result<T, RecipeError> {
    let (name, text) = FILES
        .iter()
        .find(|(p, _)| *p == path)
        .ok_or_else(|| RecipeError::Malformed(format!("{path} is not part of the recipe")))?;
    yaml::parse(name, text).map_err(|problems| RecipeError::Malformed(problems.to_string()))
}

/// A hash over named parts, so that moving text from one part to the next changes it.
#[derive(Default)]
struct Key(Sha256);

impl Key {
    fn add(&mut self, name: &str, value: &str) -> &mut Key {
        for part in [name, value] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
        self
    }

    /// The first 16 bytes as hex: enough for a name in a cache.
    fn finish(self) -> String {
        hex(&self.0.finalize()[..16])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_recipe_reads_and_names_modules_it_carries() {
        for minor in VERSIONS {
            let recipe = Recipe::of(minor).unwrap();
            assert!(recipe.kubernetes.starts_with(&format!("{minor}.")), "{minor}");
            for (build, command) in recipe.commands(Form::Container) {
                let module = module_file(&build.module, "go.mod");
                assert!(
                    module.contains(&format!("\t{}\n", command.package)),
                    "{} is no tool of {}",
                    command.package,
                    build.module
                );
                assert!(!module_file(&build.module, "go.sum").is_empty(), "{}", build.module);
            }
            for image in &recipe.container.images {
                assert!(recipe.commands(Form::Container).any(|(_, c)| c.name == image.program), "{}", image.name);
            }
            let pinned = recipe.builds.iter().find(|b| b.commands.iter().any(|c| c.name == "kubelet")).unwrap();
            let wanted = format!("k8s.io/kubernetes v{}", recipe.kubernetes);
            assert!(module_file(&pinned.module, "go.mod").contains(&wanted), "{minor}: go.mod does not pin {wanted}");
            assert!(pinned.link.iter().any(|l| l.ends_with(&format!("gitVersion=v{}", recipe.kubernetes))), "{minor}");
        }
        assert!(Recipe::of("1.20").unwrap_err().to_string().contains("1.37"));
    }

    #[test]
    fn the_program_carries_every_file_of_the_folder() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("node-images");
        let mut folders = vec![root.clone()];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs_err::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push(path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        found.retain(|path| !path.ends_with(".md"));
        found.sort();
        let mut carried: Vec<_> = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
        carried.sort();
        assert_eq!(found, carried);
    }

    #[test]
    fn keys_follow_what_they_stand_for() {
        let recipe = Recipe::of("1.37").unwrap();
        let (build, command) = recipe.commands(Form::Disk).find(|(_, c)| c.name == "kubelet").unwrap();
        let key = recipe.command_key(build, command);
        assert_eq!(key.len(), 32);
        let mut other = build.clone();
        other.tags.push("x".to_owned());
        assert_ne!(key, recipe.command_key(&other, command));
        let mut newer = recipe.clone();
        newer.go = "go1.26.9".to_owned();
        assert_ne!(key, newer.command_key(build, command));
        let mut fewer = recipe.clone();
        fewer.debian.packages.pop();
        assert_ne!(recipe.debian.key(), fewer.debian.key());
        let programs = BTreeMap::from([("kubelet".to_owned(), "a".to_owned())]);
        assert_ne!(recipe.image_key(&programs), recipe.image_key(&BTreeMap::new()));
    }
}
