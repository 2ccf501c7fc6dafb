//! Where the memory controller's hierarchy is mounted, and how.

use super::Root;
use crate::record::CgroupMode;

/// The hierarchy that has the memory controller.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mounted {
    /// Which one.
    pub mode: CgroupMode,
    /// Its mount point.
    pub at: String,
    /// Its options.
    pub options: Vec<String>,
    /// Whether only a part of the hierarchy is mounted there.
    pub partial: bool,
}

/// Finds it in the mount table of the first process, or of this one on the machine itself.
#[must_use]
pub fn mounted(root: &Root) -> Mounted {
    let tables = match root.is_own() {
        true => ["/proc/self/mountinfo", "/proc/mounts", "/proc/1/mountinfo"],
        false => ["/proc/1/mountinfo", "/proc/mounts", "/proc/self/mountinfo"],
    };
    let read = |path: &&str| root.text(path).map(|text| of_table(&text));
    let found = tables.iter().filter_map(read).find(|found| found.mode != CgroupMode::Unknown);
    found.unwrap_or_else(|| of_directories(root))
}

/// A tree without a mount table: by what lies where it is mounted everywhere.
fn of_directories(root: &Root) -> Mounted {
    let at = |mode, at: &str| Mounted { mode, at: at.to_owned(), ..Mounted::default() };
    if root.has("/sys/fs/cgroup/cgroup.controllers") {
        at(CgroupMode::V2, "/sys/fs/cgroup")
    } else if root.has("/sys/fs/cgroup/memory") {
        let hybrid = root.has("/sys/fs/cgroup/unified");
        at(if hybrid { CgroupMode::Hybrid } else { CgroupMode::V1 }, "/sys/fs/cgroup/memory")
    } else {
        Mounted::default()
    }
}

/// Reads a mount table, as /proc/PID/mountinfo or /proc/mounts has it.
#[must_use]
pub fn of_table(text: &str) -> Mounted {
    let (mut v1, mut v2) = (None, None);
    for line in text.lines() {
        let Some((kind, mounted)) = of_line(line) else { continue };
        match kind {
            "cgroup2" => v2 = v2.or(Some(mounted)),
            "cgroup" if mounted.options.iter().any(|o| o == "memory") => v1 = v1.or(Some(mounted)),
            _ => {}
        }
    }
    match (v1, v2) {
        (Some(v1), Some(_)) => Mounted { mode: CgroupMode::Hybrid, ..v1 },
        (Some(v1), None) => Mounted { mode: CgroupMode::V1, ..v1 },
        (None, Some(v2)) => Mounted { mode: CgroupMode::V2, ..v2 },
        (None, None) => Mounted::default(),
    }
}

fn of_line(line: &str) -> Option<(&str, Mounted)> {
    let (at, root, kind, options) = match line.split_once(" - ") {
        // ID PARENT DEVICE ROOT POINT OPTIONS [TAGS] - KIND SOURCE SUPER-OPTIONS
        Some((mount, filesystem)) => {
            let (mut mount, mut filesystem) = (mount.split(' ').skip(3), filesystem.split(' '));
            let (root, at, kind) = (mount.next()?, mount.next()?, filesystem.next()?);
            (at, root, kind, filesystem.nth(1)?)
        }
        // SOURCE POINT KIND OPTIONS 0 0
        None => {
            let mut words = line.split(' ').skip(1);
            (words.next()?, "/", words.next()?, words.next()?)
        }
    };
    let options = options.split(',').map(str::to_owned).collect();
    let partial = root != "/";
    Some((kind, Mounted { mode: CgroupMode::Unknown, at: unescaped(at), options, partial }))
}

/// Blanks and backslashes are written in octal.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")].iter().fold(text.to_owned(), |t, (a, b)| t.replace(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arrangement_is_told_apart() {
        let v2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";
        let found = of_table(v2);
        assert_eq!((found.mode, found.at.as_str(), found.partial), (CgroupMode::V2, "/sys/fs/cgroup", false));
        assert!(found.options.contains(&"memory_recursiveprot".to_owned()));
        let v1 = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n";
        assert_eq!((of_table(v1).mode, of_table(v1).at.as_str()), (CgroupMode::V1, "/sys/fs/cgroup/memory"));
        let hybrid = format!("{v1}cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n");
        assert_eq!((of_table(&hybrid).mode, of_table(&hybrid).at.as_str()), (CgroupMode::Hybrid, "/sys/fs/cgroup/memory"));
        assert_eq!(of_table("proc /proc proc rw 0 0\n - \n\n").mode, CgroupMode::Unknown);
        let part = "29 23 0:26 /docker/a /sys/fs/my\\040cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!((of_table(part).at.as_str(), of_table(part).partial), ("/sys/fs/my cgroup", true));
    }
}
