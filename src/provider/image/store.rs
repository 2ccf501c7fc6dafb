//! Built images in the cache: find, list, prune.

use super::{ContainerImage, ImageError};
use fs_err as fs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folder of node images in Highwater's cache.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// What an image holds. Written last: a folder without it is a build that never ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// The hash of everything that went in.
    pub key: String,
    /// The minor the recipe is for, for example "1.37".
    pub minor: String,
    /// The kubelet's version, for example "1.37.2".
    pub kubernetes: String,
    /// The name the sandbox image must have.
    pub pause: String,
    /// The kernel's release.
    pub kernel: String,
    /// Whether the programs are the user's own.
    pub own_programs: bool,
    /// SHA-256 of every program by name.
    pub programs: BTreeMap<String, String>,
    /// Debian packages with their versions, as installed.
    pub packages: BTreeMap<String, String>,
}

/// A built image.
#[derive(Debug, Clone)]
pub struct Image {
    /// Its folder.
    pub dir: PathBuf,
    /// What it holds.
    pub manifest: Manifest,
}

/// What a virtual machine boots: a folder with a disk, a kernel and its initial RAM disk.
#[derive(Debug, Clone)]
pub struct System {
    /// The folder.
    pub dir: PathBuf,
    /// The hash of everything that went in.
    pub key: String,
}

impl System {
    /// The raw disk; never written to, forks lie over it.
    #[must_use]
    pub fn disk(&self) -> PathBuf {
        self.dir.join("disk.ext4")
    }

    /// The kernel.
    #[must_use]
    pub fn kernel(&self) -> PathBuf {
        self.dir.join("vmlinuz")
    }

    /// The initial RAM disk.
    #[must_use]
    pub fn initrd(&self) -> PathBuf {
        self.dir.join("initrd.img")
    }
}

impl Image {
    /// What a virtual machine boots of it.
    #[must_use]
    pub fn system(&self) -> System {
        System { dir: self.dir.clone(), key: self.manifest.key.clone() }
    }

    /// A program that runs on the host, such as "kube-apiserver".
    #[must_use]
    pub fn host_program(&self, name: &str) -> PathBuf {
        self.dir.join("bin").join(name)
    }

    /// Bytes the image takes on disk (holes do not count).
    ///
    /// # Errors
    /// Its folder cannot be read.
    pub fn bytes(&self) -> Result<u64, ImageError> {
        Ok(bytes_below(&self.dir)?)
    }
}

impl Store {
    /// The store below Highwater's cache folder.
    #[must_use]
    pub fn new(cache: &Path) -> Store {
        Store { root: cache.join("node-images") }
    }

    /// The folder that programs and root file systems are cached in.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where an image with this key lies or will lie.
    #[must_use]
    pub fn dir(&self, key: &str) -> PathBuf {
        self.root.join("images").join(key)
    }

    /// The image with this key, if it has been built.
    ///
    /// # Errors
    /// Its manifest is there and cannot be read.
    pub fn get(&self, key: &str) -> Result<Option<Image>, ImageError> {
        let dir = self.dir(key);
        Ok(read_manifest(&dir)?.map(|manifest| Image { dir, manifest }))
    }

    /// Where the container image with this key lies or will lie.
    #[must_use]
    pub fn container_dir(&self, key: &str) -> PathBuf {
        self.root.join("containers").join(key)
    }

    /// The container image with this key, if it has been built.
    ///
    /// # Errors
    /// Its manifest is there and cannot be read.
    pub fn container(&self, key: &str) -> Result<Option<ContainerImage>, ImageError> {
        read_manifest(&self.container_dir(key))
    }

    /// All built container images.
    ///
    /// # Errors
    /// The folder or a manifest cannot be read.
    pub fn containers(&self) -> Result<Vec<ContainerImage>, ImageError> {
        let keys = names(&self.root.join("containers"))?;
        keys.iter().filter_map(|key| self.container(key).transpose()).collect()
    }

    /// All built images, newest Kubernetes first.
    ///
    /// # Errors
    /// The folder or a manifest cannot be read.
    pub fn list(&self) -> Result<Vec<Image>, ImageError> {
        let mut images = Vec::new();
        for key in names(&self.root.join("images"))? {
            images.extend(self.get(&key)?);
        }
        let numbers = |i: &Image| -> Vec<u32> { i.manifest.kubernetes.split('.').filter_map(|n| n.parse().ok()).collect() };
        images.sort_by(|a, b| numbers(b).cmp(&numbers(a)).then_with(|| a.manifest.key.cmp(&b.manifest.key)));
        Ok(images)
    }

    /// Removes images whose key is not in `keep`, builds that never ended, and with `all` also compiled programs and root file
    /// systems. Returns what was removed and how many bytes that freed.
    ///
    /// # Errors
    /// A folder cannot be removed.
    pub fn prune(&self, keep: &[String], all: bool) -> Result<(Vec<PathBuf>, u64), ImageError> {
        let folders = names(&self.root.join("images"))?.into_iter().map(|key| (self.dir(&key), key));
        let containers = names(&self.root.join("containers"))?.into_iter().map(|key| (self.container_dir(&key), key));
        let mut doomed: Vec<_> =
            folders.chain(containers).filter(|(_, key)| all || !keep.contains(key)).map(|(dir, _)| dir).collect();
        if all {
            doomed.extend(["programs", "debian"].map(|d| self.root.join(d)).into_iter().filter(|d| d.is_dir()));
        }
        let mut freed = 0;
        for dir in &doomed {
            freed += bytes_below(dir)?;
            fs::remove_dir_all(dir)?;
        }
        Ok((doomed, freed))
    }
}

/// The manifest of a build; none where none has ended.
fn read_manifest<T: serde::de::DeserializeOwned>(dir: &Path) -> Result<Option<T>, ImageError> {
    let path = dir.join("manifest.json");
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    serde_json::from_slice(&text).map(Some).map_err(|e| ImageError::Manifest { path, reason: e.to_string() })
}

/// Names in a folder; none when there is no folder.
fn names(dir: &Path) -> std::io::Result<Vec<String>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.map(|e| Ok(e?.file_name().to_string_lossy().into_owned())).collect(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

fn bytes_below(dir: &Path) -> std::io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut total = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        total += if meta.is_dir() { bytes_below(&entry.path())? } else { meta.blocks() * 512 };
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(store: &Store, key: &str, kubernetes: &str) {
        let manifest = Manifest {
            key: key.to_owned(),
            minor: kubernetes.rsplit_once('.').unwrap().0.to_owned(),
            kubernetes: kubernetes.to_owned(),
            pause: String::new(),
            kernel: String::new(),
            own_programs: false,
            programs: BTreeMap::new(),
            packages: BTreeMap::new(),
        };
        fs::create_dir_all(store.dir(key)).unwrap();
        fs::write(store.dir(key).join("manifest.json"), serde_json::to_vec(&manifest).unwrap()).unwrap();
    }

    #[test]
    fn images_are_listed_newest_first_and_pruned_but_for_those_kept() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        assert!(store.list().unwrap().is_empty());
        put(&store, "a", "1.9.1");
        put(&store, "b", "1.37.2");
        fs::create_dir_all(store.dir("never-ended")).unwrap();
        let listed: Vec<_> = store.list().unwrap().into_iter().map(|i| i.manifest.kubernetes).collect();
        assert_eq!(listed, ["1.37.2", "1.9.1"]);
        let (removed, _) = store.prune(&["b".to_owned()], false).unwrap();
        assert_eq!(removed.len(), 2);
        assert!(store.get("a").unwrap().is_none() && store.get("b").unwrap().is_some());
    }

    #[test]
    fn a_broken_manifest_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        fs::create_dir_all(store.dir("x")).unwrap();
        fs::write(store.dir("x").join("manifest.json"), "{").unwrap();
        assert!(store.get("x").unwrap_err().to_string().contains("manifest.json"));
    }
}
