//! The cache: kernels and booted checkpoints by content, shared by all highwater processes of a user.
//!
//! An entry is a directory that appears complete, by a rename, and is never changed. Whoever makes an entry holds its lock; whoever uses it
//! holds the lock shared, so that pruning leaves it alone.

use super::FileError;
use super::lease::{Held, Lease};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The cache directory: `$XDG_CACHE_HOME/highwater`, by default `~/.cache/highwater`.
pub fn cache_dir() -> PathBuf {
    use etcetera::BaseStrategy;
    etcetera::base_strategy::Xdg::new().map_or_else(|_| std::env::temp_dir(), |xdg| xdg.cache_dir()).join("highwater")
}

/// The cache of a user.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// A complete entry, kept from pruning while this value lives.
#[derive(Debug)]
pub struct Entry {
    /// Its directory.
    pub path: PathBuf,
    /// True when it was there before.
    pub warm: bool,
    _lock: File,
}

/// What pruning removed.
#[derive(Debug, Default)]
pub struct Pruned {
    /// Entries removed.
    pub entries: usize,
    /// Bytes on disk they took.
    pub bytes: u64,
    /// Entries in use by a running highwater, left alone.
    pub busy: usize,
}

impl Cache {
    /// The cache in a directory, which is created when first needed.
    pub fn at(root: impl Into<PathBuf>) -> Cache {
        Cache { root: root.into() }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The entry of a kind and key, made by `make` when it is not there. `make` fills an empty directory; it is on the lease until it is
    /// complete, so neither an error nor a kill leaves half an entry. Another process that makes the same entry is waited for.
    ///
    /// # Errors
    /// What `make` returns, or a file error.
    pub fn entry<E: From<FileError>>(
        &self,
        kind: &str,
        key: &str,
        lease: &Lease,
        make: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<Entry, E> {
        let path = self.root.join(kind).join(key);
        let lock = self.lock_file(kind, key)?;
        lock.lock_shared().map_err(FileError::at(&path))?;
        if path.is_dir() {
            return Ok(Entry { path, warm: true, _lock: lock });
        }
        lock.unlock().map_err(FileError::at(&path))?;
        lock.lock().map_err(FileError::at(&path))?;
        if path.is_dir() {
            return Ok(Entry { path, warm: true, _lock: lock });
        }
        let (partial, held) = self.scratch(kind, lease)?;
        make(&partial)?;
        fs::rename(&partial, &path).map_err(FileError::at(&path))?;
        held.release();
        lock.lock_shared().map_err(FileError::at(&path))?;
        Ok(Entry { path, warm: false, _lock: lock })
    }

    /// An empty directory on the cache's disk that goes with the returned lease.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn scratch(&self, kind: &str, lease: &Lease) -> Result<(PathBuf, Held), FileError> {
        let parent = self.root.join(kind);
        fs::create_dir_all(&parent).map_err(FileError::at(&parent))?;
        let name = lease.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for number in 0u32.. {
            let path = parent.join(format!(".new-{name}-{number}"));
            if path.exists() {
                continue;
            }
            let held = lease.directory(&path)?;
            match fs::create_dir(&path) {
                Ok(()) => return Ok((path, held)),
                // Another thread took the name; its lease removes the directory, not this one.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => held.release(),
                Err(error) => return Err(FileError::at(&path)(error)),
            }
        }
        unreachable!("the loop ends with a free name")
    }

    /// SHA-256 of a file's content, remembered for as long as its size, time and inode stay the same.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn hash(&self, path: &Path) -> Result<String, FileError> {
        let meta = fs::metadata(path).map_err(FileError::at(path))?;
        let stamp = format!("{} {} {} {}.{}", meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec());
        let name = hex(&Sha256::digest(std::path::absolute(path).map_err(FileError::at(path))?.as_os_str().as_encoded_bytes()));
        let memo = self.root.join("hashes").join(name);
        if let Some((known, hash)) = fs::read_to_string(&memo).ok().as_deref().and_then(|text| text.split_once('\n'))
            && known == stamp
            && hash.len() == 64
        {
            return Ok(hash.to_owned());
        }
        let hash = hash_file(path)?;
        // Only a memory: without it the file is hashed again.
        let remember = || -> io::Result<()> {
            let dir = self.root.join("hashes");
            fs::create_dir_all(&dir)?;
            let mut file = tempfile::NamedTempFile::new_in(&dir)?;
            io::Write::write_all(&mut file, format!("{stamp}\n{hash}").as_bytes())?;
            file.persist(&memo)?;
            Ok(())
        };
        _ = remember();
        Ok(hash)
    }

    /// Removes the entries of a kind that no running highwater uses.
    ///
    /// # Errors
    /// When an entry cannot be removed.
    pub fn prune(&self, kind: &str) -> Result<Pruned, FileError> {
        let mut pruned = Pruned::default();
        let dir = self.root.join(kind);
        let Ok(entries) = fs::read_dir(&dir) else { return Ok(pruned) };
        for entry in entries {
            let path = entry.map_err(FileError::at(&dir))?.path();
            let key = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Names with a dot are somebody's work under way, or on a lease that `clean` follows.
            if key.starts_with('.') || !path.is_dir() {
                continue;
            }
            let lock = self.lock_file(kind, &key)?;
            if lock.try_lock().is_err() {
                pruned.busy += 1;
                continue;
            }
            pruned.bytes += bytes_on_disk(&path);
            fs::remove_dir_all(&path).map_err(FileError::at(&path))?;
            pruned.entries += 1;
        }
        Ok(pruned)
    }

    fn lock_file(&self, kind: &str, key: &str) -> Result<File, FileError> {
        let dir = self.root.join("locks");
        fs::create_dir_all(&dir).map_err(FileError::at(&dir))?;
        // Lock files stay: removing one that another process is about to lock would split the lock in two.
        let path = dir.join(format!("{kind}-{key}"));
        File::options().create(true).truncate(false).write(true).open(&path).map_err(FileError::at(&path))
    }
}

fn bytes_on_disk(path: &Path) -> u64 {
    let Ok(meta) = fs::symlink_metadata(path) else { return 0 };
    if !meta.is_dir() {
        return meta.blocks() * 512;
    }
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| bytes_on_disk(&entry.path())).sum()
}

/// SHA-256 of a file's content, in hexadecimal.
///
/// # Errors
/// When the file cannot be read.
pub fn hash_file(path: &Path) -> Result<String, FileError> {
    let mut file = File::open(path).map_err(FileError::at(path))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(FileError::at(path))? {
            0 => return Ok(hex(&hasher.finalize())),
            length => hasher.update(&buffer[..length]),
        }
    }
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn many_want_one_entry_and_one_makes_it() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("cache"));
        let lease = Lease::open(&dir.path().join("state")).unwrap();
        let made = AtomicUsize::new(0);
        let make = |path: &Path| {
            made.fetch_add(1, Ordering::SeqCst);
            fs::write(path.join("content"), "x").map_err(FileError::at(path))
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let entry = cache.entry("kind", "key", &lease, make).unwrap();
                    assert_eq!(fs::read_to_string(entry.path.join("content")).unwrap(), "x");
                });
            }
        });
        assert_eq!(made.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_failed_entry_leaves_nothing_and_one_in_use_is_not_pruned() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("cache"));
        let lease = Lease::open(&dir.path().join("state")).unwrap();
        let fail = |path: &Path| -> Result<(), FileError> {
            fs::write(path.join("half"), "x").map_err(FileError::at(path))?;
            Err(FileError::DiskFull { path: path.to_owned() })
        };
        assert!(cache.entry("kind", "key", &lease, fail).is_err());
        assert_eq!(fs::read_dir(dir.path().join("cache/kind")).unwrap().count(), 0);
        let entry = cache.entry("kind", "key", &lease, |_| Ok::<_, FileError>(())).unwrap();
        let pruned = cache.prune("kind").unwrap();
        assert_eq!((pruned.entries, pruned.busy), (0, 1));
        drop(entry);
        assert_eq!(cache.prune("kind").unwrap().entries, 1);
    }

    #[test]
    fn a_hash_is_remembered_until_the_file_changes() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("cache"));
        let file = dir.path().join("file");
        fs::write(&file, "abc").unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(cache.hash(&file).unwrap(), abc);
        assert_eq!(cache.hash(&file).unwrap(), abc);
        fs::write(&file, "abcd").unwrap();
        assert_ne!(cache.hash(&file).unwrap(), abc);
    }
}
