//! The guest's kernel and its modules: Debian's package, fetched and unpacked once, or files the user names.

mod debian;
mod image;
mod module;

pub use debian::KIND;
pub use image::release;
pub use module::{MODULES, Module};

use super::FileError;
use super::cache::{Cache, Entry};
use super::lease::Lease;
use std::path::PathBuf;

/// Where the kernel comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum KernelSource {
    /// The kernel that Debian's linux-image-cloud-amd64 depends on.
    #[default]
    Debian,
    /// A bzImage and the directory with its modules; by default /lib/modules/RELEASE.
    Files {
        /// The bzImage.
        image: PathBuf,
        /// The directory that holds `kernel/` and `modules.builtin`.
        modules: Option<PathBuf>,
    },
}

/// A kernel that can boot the deterministic node.
#[derive(Debug)]
pub struct Kernel {
    /// `uname -r`.
    pub release: String,
    /// The bzImage.
    pub image: PathBuf,
    /// SHA-256 of the image.
    pub hash: String,
    /// The modules to load, in order; those built in are left out.
    pub modules: Vec<Module>,
    _entry: Option<Entry>,
}

/// Why there is no usable kernel.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A tool of the package manager is missing or failed.
    #[error("cannot fetch the kernel package: {reason}; as root run `apt-get update`, or name a kernel with --kernel VMLINUZ")]
    Package {
        /// What failed, with the tool's own words.
        reason: String,
    },
    /// The file is not a kernel.
    #[error("{} is not an x86 Linux kernel image: {reason}", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
    /// A module is neither built in nor there.
    #[error("kernel {release} has no module {module} (looked in {}): the node's disks need it; use Debian's cloud kernel or another --kernel", dir.display())]
    NoModule {
        /// `uname -r`.
        release: String,
        /// The module.
        module: &'static str,
        /// The directory of modules.
        dir: PathBuf,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Kernel {
    /// Finds the kernel; fetches Debian's into the cache when it is not there yet.
    ///
    /// # Errors
    /// [`KernelError`].
    pub fn find(source: &KernelSource, cache: &Cache, lease: &Lease, progress: &dyn Fn(&str)) -> Result<Kernel, KernelError> {
        let (image, dir, entry) = match source {
            KernelSource::Files { image, modules } => {
                let dir = match modules {
                    Some(dir) => dir.clone(),
                    None => PathBuf::from("/lib/modules").join(release(image)?),
                };
                (image.clone(), dir, None)
            }
            KernelSource::Debian => {
                let entry = debian::fetch(cache, lease, progress)?;
                let image = entry.path.join("vmlinuz");
                let dir = entry.path.join("modules");
                (image, dir, Some(entry))
            }
        };
        let release = release(&image)?;
        let modules = module::find(&release, &dir)?;
        let hash = cache.hash(&image)?;
        Ok(Kernel { release, image, hash, modules, _entry: entry })
    }
}
