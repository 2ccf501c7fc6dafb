//! A mounted cgroup2 hierarchy, or a directory that looks like one.

use crate::record::FileValue;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The controllers a node gives to its pods' cgroups, where the kernel has them.
pub const CONTROLLERS: [&str; 4] = ["cpu", "io", "memory", "pids"];

const CGROUP2_SUPER_MAGIC: u64 = 0x6367_7270;

/// Why the hierarchy could not be used.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The directory is not a cgroup2 mount.
    #[error("{path} is not a cgroup v2 mount: mount one there, or name its directory")]
    NotCgroup2 {
        /// The directory.
        path: PathBuf,
    },
    /// A file or directory operation failed.
    #[error("cannot {verb} {path}: {source}")]
    Io {
        /// What was tried.
        verb: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// A hierarchy. Cgroups are named by their path below it, starting with a slash.
#[derive(Debug, Clone)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Opens a mount.
    ///
    /// # Errors
    /// [`TreeError::NotCgroup2`] when the file system is another one.
    pub fn open(root: impl Into<PathBuf>) -> Result<Tree, TreeError> {
        let root = root.into();
        let stat = rustix::fs::statfs(&root).map_err(|e| io_error("look at", &root, e.into()))?;
        if stat.f_type as u64 != CGROUP2_SUPER_MAGIC {
            return Err(TreeError::NotCgroup2 { path: root });
        }
        Ok(Tree { root })
    }

    /// Takes any directory for a hierarchy. For tests.
    pub fn unchecked(root: impl Into<PathBuf>) -> Tree {
        Tree { root: root.into() }
    }

    /// The directory of a cgroup.
    pub fn directory(&self, cgroup: &str) -> PathBuf {
        self.root.join(cgroup.trim_start_matches('/'))
    }

    /// The path of a cgroup's file.
    pub fn file(&self, cgroup: &str, file: &str) -> PathBuf {
        self.directory(cgroup).join(file)
    }

    /// Creates a cgroup and its missing ancestors, giving every ancestor's children the [`CONTROLLERS`] that it has.
    ///
    /// # Errors
    /// [`TreeError::Io`].
    pub fn create(&self, cgroup: &str) -> Result<(), TreeError> {
        let mut at = self.root.clone();
        for part in cgroup.split('/').filter(|part| !part.is_empty()) {
            self.delegate(&at)?;
            at.push(part);
            match fs::create_dir(&at) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(io_error("create", &at, e)),
                _ => {}
            }
        }
        Ok(())
    }

    fn delegate(&self, directory: &Path) -> Result<(), TreeError> {
        let read = |name: &str| {
            let path = directory.join(name);
            fs::read_to_string(&path).map_err(|e| io_error("read", &path, e))
        };
        let available = read("cgroup.controllers")?;
        let given = read("cgroup.subtree_control")?;
        let given: BTreeSet<&str> = given.split_whitespace().collect();
        let missing: Vec<String> = available
            .split_whitespace()
            .filter(|name| CONTROLLERS.contains(name) && !given.contains(name))
            .map(|name| format!("+{name}"))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let path = directory.join("cgroup.subtree_control");
        fs::write(&path, missing.join(" ")).map_err(|e| io_error("write", &path, e))
    }

    /// Writes a control file.
    ///
    /// # Errors
    /// [`TreeError::Io`]; a refused value is EINVAL.
    pub fn write(&self, cgroup: &str, file: &str, value: &str) -> Result<(), TreeError> {
        let path = self.file(cgroup, file);
        // Not created: a control file that is absent must be an error, on a fake tree as well.
        let mut open = fs::File::options().write(true).truncate(true).open(&path).map_err(|e| io_error("open", &path, e))?;
        io::Write::write_all(&mut open, value.as_bytes()).map_err(|e| io_error("write", &path, e))
    }

    /// Reads a control file without its final newline; one that does not exist is [`FileValue::Absent`].
    ///
    /// # Errors
    /// [`TreeError::Io`].
    pub fn read(&self, cgroup: &str, file: &str) -> Result<FileValue, TreeError> {
        let path = self.file(cgroup, file);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(FileValue::Text(text.strip_suffix('\n').unwrap_or(&text).to_owned())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(FileValue::Absent),
            Err(e) => Err(io_error("read", &path, e)),
        }
    }

    /// Removes an empty cgroup; one that does not exist is no error.
    ///
    /// # Errors
    /// [`TreeError::Io`], EBUSY while it has processes or children.
    pub fn remove(&self, cgroup: &str) -> Result<(), TreeError> {
        let path = self.directory(cgroup);
        match fs::remove_dir(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(io_error("remove", &path, e)),
            _ => Ok(()),
        }
    }

    /// The processes of a cgroup.
    ///
    /// # Errors
    /// [`TreeError::Io`].
    pub fn processes(&self, cgroup: &str) -> Result<Vec<u32>, TreeError> {
        let path = self.file(cgroup, "cgroup.procs");
        let text = fs::read_to_string(&path).map_err(|e| io_error("read", &path, e))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }
}

fn io_error(verb: &'static str, path: &Path, source: io::Error) -> TreeError {
    TreeError::Io { verb, path: path.to_owned(), source }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A directory that is removed at the end of a test.
    #[derive(Debug)]
    pub(crate) struct Scratch(pub PathBuf);

    impl Scratch {
        pub(crate) fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("highwater-{name}-{}", std::process::id()));
            _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn controllers_are_given_from_the_top() {
        let scratch = Scratch::new("tree");
        for directory in ["", "kubepods"] {
            fs::create_dir_all(scratch.0.join(directory)).unwrap();
            fs::write(scratch.0.join(directory).join("cgroup.controllers"), "cpuset cpu io memory pids\n").unwrap();
        }
        fs::write(scratch.0.join("cgroup.subtree_control"), "cpu memory\n").unwrap();
        fs::write(scratch.0.join("kubepods/cgroup.subtree_control"), "cpu io memory pids\n").unwrap();
        let tree = Tree::unchecked(&scratch.0);
        tree.create("/kubepods/podA").unwrap();
        assert!(scratch.0.join("kubepods/podA").is_dir());
        assert_eq!(fs::read_to_string(scratch.0.join("cgroup.subtree_control")).unwrap(), "+io +pids", "only what is missing");
        assert_eq!(fs::read_to_string(scratch.0.join("kubepods/cgroup.subtree_control")).unwrap(), "cpu io memory pids\n");
    }

    #[test]
    fn absent_is_absent_and_errors_name_the_file() {
        let scratch = Scratch::new("absent");
        let tree = Tree::unchecked(&scratch.0);
        fs::write(scratch.0.join("memory.max"), "max\n").unwrap();
        assert_eq!(tree.read("/", "memory.max").unwrap(), FileValue::Text("max".into()));
        assert_eq!(tree.read("/", "memory.swap.max").unwrap(), FileValue::Absent);
        let error = tree.write("/", "memory.swap.max", "0").unwrap_err().to_string();
        assert!(error.starts_with("cannot open ") && error.contains("memory.swap.max"), "{error}");
        assert!(matches!(Tree::open(&scratch.0), Err(TreeError::NotCgroup2 { .. })));
        tree.remove("/never").unwrap();
    }
}
