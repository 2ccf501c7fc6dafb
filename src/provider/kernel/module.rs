//! The modules the node needs, as files or built in.

use super::KernelError;
use std::fs;
use std::path::{Path, PathBuf};

/// Modules in the order of loading: configfs carries the settings of null_blk, which is every disk of the node.
pub const MODULES: [&str; 2] = ["configfs", "null_blk"];

/// A module's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Its file, `NAME.ko` with or without a compression's suffix.
    pub path: PathBuf,
    /// Compressed: the kernel unpacks it itself.
    pub compressed: bool,
}

/// Finds [`MODULES`] below a directory such as /lib/modules/RELEASE.
pub(super) fn find(release: &str, dir: &Path) -> Result<Vec<Module>, KernelError> {
    let builtin = fs::read_to_string(dir.join("modules.builtin")).unwrap_or_default();
    let mut found = Vec::new();
    for module in MODULES {
        let file = format!("{module}.ko");
        if builtin.lines().any(|line| line.rsplit('/').next() == Some(&file)) {
            continue;
        }
        match search(&dir.join("kernel"), &file) {
            Some(path) => found.push(Module { compressed: path.extension().is_some_and(|e| e != "ko"), path }),
            None => return Err(KernelError::NoModule { release: release.to_owned(), module, dir: dir.to_owned() }),
        }
    }
    Ok(found)
}

fn search(dir: &Path, file: &str) -> Option<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries.iter().find_map(|path| {
        if path.is_dir() {
            return search(path, file);
        }
        let rest = path.file_name()?.to_str()?.strip_prefix(file)?;
        ["", ".xz", ".zst", ".gz"].contains(&rest).then(|| path.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_compressed_files_and_built_in_modules() {
        let dir = tempfile::tempdir().unwrap();
        let block = dir.path().join("kernel/drivers/block/null_blk");
        fs::create_dir_all(&block).unwrap();
        fs::write(block.join("null_blk.ko.xz"), "").unwrap();
        let missing = find("6.12", dir.path()).unwrap_err();
        assert!(matches!(missing, KernelError::NoModule { module: "configfs", .. }), "{missing}");
        fs::write(dir.path().join("modules.builtin"), "kernel/fs/configfs/configfs.ko\n").unwrap();
        let found = find("6.12", dir.path()).unwrap();
        assert_eq!(found, [Module { path: block.join("null_blk.ko.xz"), compressed: true }]);
    }
}
