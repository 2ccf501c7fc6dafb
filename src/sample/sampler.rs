//! What is watched, and the readings.

use super::source::{Kind, Source};
use crate::cgroup::Tree;
use crate::record::{Change, Frame, Metric, Role, Tick, Watch};
use std::path::{Path, PathBuf};

/// Which files a reading takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Usage, events and memory pressure.
    Interval,
    /// Everything: memory.stat, local events and the other pressures as well. Dear.
    All,
}

/// Reads all watches into one frame that is used again for each reading.
#[derive(Debug)]
pub struct Sampler {
    tree: Tree,
    proc: PathBuf,
    watches: Vec<Watched>,
    next_id: u16,
    buffer: Vec<u8>,
    frame: Frame,
}

#[derive(Debug)]
struct Watched {
    id: u16,
    interval: Vec<Source>,
    slow: Vec<Source>,
}

const CGROUP_INTERVAL: &[(&str, Kind)] = &[
    ("memory.current", Kind::Number(Metric::MemoryCurrent)),
    ("memory.swap.current", Kind::Number(Metric::MemorySwapCurrent)),
    (
        "memory.events",
        Kind::Flat(
            &[
                ("low", Metric::EventsLow),
                ("high", Metric::EventsHigh),
                ("max", Metric::EventsMax),
                ("oom", Metric::EventsOom),
                ("oom_kill", Metric::EventsOomKill),
            ],
            1,
        ),
    ),
    ("memory.pressure", Kind::Pressure(Metric::PressureSomeUs, Some(Metric::PressureFullUs))),
];

const CGROUP_SLOW: &[(&str, Kind)] = &[
    (
        "memory.events.local",
        Kind::Flat(
            &[
                ("low", Metric::LocalLow),
                ("high", Metric::LocalHigh),
                ("max", Metric::LocalMax),
                ("oom", Metric::LocalOom),
                ("oom_kill", Metric::LocalOomKill),
            ],
            1,
        ),
    ),
    ("cpu.pressure", Kind::Pressure(Metric::CpuPressureSomeUs, None)),
    ("io.pressure", Kind::Pressure(Metric::IoPressureSomeUs, Some(Metric::IoPressureFullUs))),
    ("cpu.stat", Kind::Flat(&[("usage_usec", Metric::CpuUsageUs)], 1)),
    (
        "memory.stat",
        Kind::Flat(
            &[
                ("anon", Metric::StatAnon),
                ("file", Metric::StatFile),
                ("kernel", Metric::StatKernel),
                ("sock", Metric::StatSock),
                ("shmem", Metric::StatShmem),
                ("inactive_anon", Metric::StatInactiveAnon),
                ("active_anon", Metric::StatActiveAnon),
                ("inactive_file", Metric::StatInactiveFile),
                ("active_file", Metric::StatActiveFile),
                ("unevictable", Metric::StatUnevictable),
                ("slab", Metric::StatSlab),
                ("workingset_refault_anon", Metric::StatWorkingsetRefaultAnon),
                ("workingset_refault_file", Metric::StatWorkingsetRefaultFile),
                ("pgscan", Metric::StatPgscan),
                ("pgsteal", Metric::StatPgsteal),
                ("pgfault", Metric::StatPgfault),
                ("pgmajfault", Metric::StatPgmajfault),
                ("pswpin", Metric::StatPswpin),
                ("pswpout", Metric::StatPswpout),
            ],
            1,
        ),
    ),
];

const NODE_INTERVAL: &[(&str, Kind)] = &[
    (
        "meminfo",
        Kind::Flat(
            &[
                ("MemFree", Metric::MemFree),
                ("MemAvailable", Metric::MemAvailable),
                ("Cached", Metric::Cached),
                ("SwapFree", Metric::SwapFree),
            ],
            1024,
        ),
    ),
    ("pressure/memory", Kind::Pressure(Metric::PressureSomeUs, Some(Metric::PressureFullUs))),
];

const NODE_SLOW: &[(&str, Kind)] = &[
    ("pressure/cpu", Kind::Pressure(Metric::CpuPressureSomeUs, None)),
    ("pressure/io", Kind::Pressure(Metric::IoPressureSomeUs, Some(Metric::IoPressureFullUs))),
    (
        "vmstat",
        Kind::Pieces(&[
            ("pswpin", Metric::VmPswpin),
            ("pswpout", Metric::VmPswpout),
            ("pgmajfault", Metric::VmPgmajfault),
            ("pgsteal_kswapd", Metric::VmPgstealKswapd),
            ("pgsteal_direct", Metric::VmPgstealDirect),
            ("pgscan_kswapd", Metric::VmPgscanKswapd),
            ("pgscan_direct", Metric::VmPgscanDirect),
            ("oom_kill", Metric::VmOomKill),
        ]),
    ),
];

impl Sampler {
    /// Watches nothing yet.
    pub fn new(tree: Tree, proc: impl Into<PathBuf>) -> Sampler {
        let frame = Frame::Tick(Tick { at_ns: 0, changes: Vec::with_capacity(1024) });
        Sampler { tree, proc: proc.into(), watches: Vec::new(), next_id: 0, buffer: vec![0; 16 << 10], frame }
    }

    /// Watches a cgroup, or the node when the role says so. The record must be written before the next reading.
    pub fn watch(&mut self, role: Role, cgroup: &str, attempt: u32) -> Watch {
        let id = self.next_id;
        self.next_id += 1;
        let (directory, interval, slow) = match role {
            Role::Node => (self.proc.clone(), NODE_INTERVAL, NODE_SLOW),
            _ => (self.tree.directory(cgroup), CGROUP_INTERVAL, CGROUP_SLOW),
        };
        let mut unsupported = Vec::new();
        let mut open = |files: &[(&str, Kind)]| open_all(&directory, files, &mut self.buffer, &mut unsupported);
        let (interval, slow) = (open(interval), open(slow));
        self.watches.push(Watched { id, interval, slow });
        Watch { id, role, cgroup: cgroup.to_owned(), attempt, unsupported }
    }

    /// Reads every watch. The frame is the caller's until the next reading.
    pub fn read(&mut self, due: Due, at_ns: u64) -> &Frame {
        let Sampler { watches, buffer, frame, .. } = self;
        let changes = begin(frame, at_ns);
        for watched in watches {
            watched.read(due, buffer, changes);
        }
        frame
    }

    /// Reads a watch for the last time and closes it; its cgroup may be removed afterwards.
    pub fn finish(&mut self, id: u16, at_ns: u64) -> &Frame {
        let Sampler { watches, buffer, frame, .. } = self;
        let changes = begin(frame, at_ns);
        if let Some(position) = watches.iter().position(|watched| watched.id == id) {
            watches.remove(position).read(Due::All, buffer, changes);
        }
        frame
    }
}

fn begin(frame: &mut Frame, at_ns: u64) -> &mut Vec<Change> {
    let Frame::Tick(tick) = frame else { unreachable!("the sampler's frame is a tick") };
    tick.at_ns = at_ns;
    tick.changes.clear();
    &mut tick.changes
}

fn open_all(directory: &Path, files: &[(&str, Kind)], buffer: &mut Vec<u8>, unsupported: &mut Vec<Metric>) -> Vec<Source> {
    let mut sources = Vec::with_capacity(files.len());
    for (name, kind) in files {
        match Source::open(&directory.join(name), *kind, buffer) {
            None => unsupported.extend(kind.metrics()),
            Some((source, missing)) => {
                unsupported.extend(missing);
                sources.push(source);
            }
        }
    }
    sources
}

impl Watched {
    fn read(&mut self, due: Due, buffer: &mut Vec<u8>, changes: &mut Vec<Change>) {
        let watch = self.id;
        let mut emit = |metric, delta| changes.push(Change { watch, metric, delta });
        let slow = if due == Due::All { &mut self.slow[..] } else { &mut [] };
        for source in self.interval.iter_mut().chain(slow) {
            // A file that was there and cannot be read belongs to a cgroup that is being removed (ENODEV): it says nothing any more.
            _ = source.read(buffer, &mut emit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn ticks_hold_differences_and_what_is_missing_is_unsupported() {
        let directory = std::env::temp_dir().join(format!("highwater-sampler-{}", std::process::id()));
        let cgroup = directory.join("pod/c");
        fs::create_dir_all(&cgroup).unwrap();
        let put = |file: &str, text: &str| fs::write(cgroup.join(file), text).unwrap();
        put("memory.current", "8192\n");
        put("memory.events", "low 0\nhigh 0\nmax 4\noom 0\noom_kill 0\n");
        put("memory.stat", "anon 4096\nfile 0\npgfault 12\n");
        let mut sampler = Sampler::new(Tree::unchecked(&directory), &directory);
        let role = Role::Container { pod: "p".into(), container: "c".into() };
        let watch = sampler.watch(role, "/pod/c", 2);
        assert!(watch.unsupported.contains(&Metric::MemorySwapCurrent), "the file is absent");
        assert!(watch.unsupported.contains(&Metric::StatPswpin), "the key is absent");
        assert!(!watch.unsupported.contains(&Metric::StatFile), "0 is a value");
        let changes = |frame: &Frame| match frame {
            Frame::Tick(tick) => tick.changes.iter().map(|c| (c.metric, c.delta)).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(changes(sampler.read(Due::Interval, 5)), [(Metric::MemoryCurrent, 8192), (Metric::EventsMax, 4)]);
        put("memory.current", "4096\n");
        assert_eq!(changes(sampler.read(Due::Interval, 6)), [(Metric::MemoryCurrent, -4096)]);
        assert_eq!(changes(sampler.read(Due::Interval, 7)), []);
        assert_eq!(changes(sampler.finish(watch.id, 8)), [(Metric::StatAnon, 4096), (Metric::StatPgfault, 12)]);
        assert_eq!(changes(sampler.read(Due::All, 9)), [], "finished watches are not read");
        fs::remove_dir_all(&directory).unwrap();
    }
}
