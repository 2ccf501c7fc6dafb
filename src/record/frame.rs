//! Frames: what the guest reports, in the order it happened.
//!
//! The stream is a sequence of `u32` little-endian lengths, each followed by that many bytes of one postcard-encoded [`Frame`].
//! Counters travel as differences against the previous tick of the same watch and metric; what did not change costs no byte.

use super::{LedgerSnapshot, Role};
use serde::{Deserialize, Serialize};

/// One report of the guest. Times are virtual nanoseconds since the arm began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Frame {
    /// First: what the guest measured about itself.
    Hello {
        /// Record schema, [`super::SCHEMA`].
        schema: u32,
        /// `uname -r`.
        kernel: String,
        /// Bytes of a page.
        page_size: u64,
        /// /proc/meminfo MemTotal in bytes, device pages included.
        mem_total: u64,
        /// Bytes of node memory that block devices and ballast hold.
        device_bytes: u64,
    },
    /// Something happened.
    Event(Event),
    /// The sampler now watches a cgroup (or the node).
    Watch(Watch),
    /// A reading.
    Tick(Tick),
    /// A request ended, well or not.
    Request(Request),
    /// A snapshot of the controls at the end of a phase.
    Ledger(LedgerSnapshot),
    /// A line a container wrote to stdout or stderr.
    Log {
        /// Pod.
        pod: String,
        /// Container.
        container: String,
        /// The line without its newline.
        line: String,
    },
    /// The guest itself failed; the run is faulty and has no result.
    Fault {
        /// What failed.
        message: String,
    },
    /// Last: the script ended.
    Done {
        /// When.
        at_ns: u64,
        /// Virtual nanoseconds the vCPU was busy since the arm began: the lab's cost, exact on every machine.
        busy_ns: u64,
    },
    /// A line in which a workload reports of itself.
    Report(Report),
}

/// What a workload reported of itself: a line of `key=value` after the word `report`. Values are cumulative since the process started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// When it was read.
    pub at_ns: u64,
    /// Pod.
    pub pod: String,
    /// Container.
    pub container: String,
    /// The line without its newline.
    pub line: String,
}

impl Report {
    /// The word that every report begins with.
    pub const WORD: &str = "report ";

    /// Keys and values, in the line's order.
    pub fn values(&self) -> impl Iterator<Item = (&str, f64)> {
        let pairs = self.line.strip_prefix(Report::WORD).unwrap_or_default().split(' ');
        pairs.filter_map(|pair| pair.split_once('=')).filter_map(|(key, value)| Some((key, value.parse().ok()?)))
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Virtual nanoseconds since the arm began.
    pub at_ns: u64,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum EventKind {
    /// A phase began.
    PhaseStarted {
        /// The phase.
        phase: String,
    },
    /// A phase ended.
    PhaseEnded {
        /// The phase.
        phase: String,
        /// True when its deadline ended it.
        deadline: bool,
    },
    /// A container's process was started inside its cgroup.
    ContainerStarted {
        /// Pod.
        pod: String,
        /// Container.
        container: String,
        /// 0 for the first start.
        attempt: u32,
        /// The container's cgroup.
        cgroup: String,
    },
    /// A container's readiness changed.
    Ready {
        /// Pod.
        pod: String,
        /// Container.
        container: String,
        /// The new state.
        ready: bool,
    },
    /// A container's main process ended.
    ContainerExited {
        /// Pod.
        pod: String,
        /// Container.
        container: String,
        /// The attempt that ended.
        attempt: u32,
        /// Exit status, if it exited.
        code: Option<i32>,
        /// Signal, if it was killed.
        signal: Option<i32>,
        /// The cgroup's memory.events counted an oom_kill: the status reason is OOMKilled.
        oom_killed: bool,
        /// memory.peak of the container's cgroup in bytes, where the kernel has it.
        memory_peak: Option<u64>,
    },
    /// A restart waits.
    BackOff {
        /// Pod.
        pod: String,
        /// Container.
        container: String,
        /// How long after the exit, in nanoseconds.
        delay_ns: u64,
    },
    /// The kernel's OOM killer reported (from /dev/kmsg).
    OomKill {
        /// Constraint, for example CONSTRAINT_MEMCG or CONSTRAINT_NONE.
        constraint: String,
        /// The cgroup whose limit was hit ("/" for the node).
        oom_memcg: String,
        /// The victim's cgroup.
        task_memcg: String,
        /// The victim's command name.
        task: String,
    },
    /// A control file did not take a value.
    WriteRefused {
        /// The file's path below the cgroup2 mount.
        path: String,
        /// The value.
        value: String,
        /// The kernel's error.
        error: String,
    },
    /// A step of the script was refused, so the node is as before.
    StepRefused {
        /// By whom and why, in its own words.
        reason: String,
    },
}

/// What the sampler watches under an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Watch {
    /// Id of later [`Change`]s.
    pub id: u16,
    /// What the cgroup is for; [`Role::Node`] stands for /proc.
    pub role: Role,
    /// Its path.
    pub cgroup: String,
    /// Which start of the container, for containers.
    pub attempt: u32,
    /// Metrics this kernel does not offer here. They are unsupported, which is not 0.
    pub unsupported: Vec<Metric>,
}

/// One reading of everything that was due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// When the reading began, nanoseconds since the arm began.
    pub at_ns: u64,
    /// What changed since the previous reading of the same metric, which began at 0.
    pub changes: Vec<Change>,
}

/// A difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The watch.
    pub watch: u16,
    /// The metric.
    pub metric: Metric,
    /// New value minus old value.
    pub delta: i64,
}

/// What is sampled. Bytes, counts, or microseconds (names ending in `Us`). The order is the wire format: append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "each is the kernel's own name: file and key of cgroup v2, /proc/meminfo or /proc/vmstat")]
pub enum Metric {
    MemoryCurrent,
    MemorySwapCurrent,
    EventsLow,
    EventsHigh,
    EventsMax,
    EventsOom,
    EventsOomKill,
    LocalLow,
    LocalHigh,
    LocalMax,
    LocalOom,
    LocalOomKill,
    PressureSomeUs,
    PressureFullUs,
    CpuPressureSomeUs,
    IoPressureSomeUs,
    IoPressureFullUs,
    StatAnon,
    StatFile,
    StatShmem,
    StatKernel,
    StatSlab,
    StatSock,
    StatInactiveAnon,
    StatActiveAnon,
    StatInactiveFile,
    StatActiveFile,
    StatUnevictable,
    StatWorkingsetRefaultAnon,
    StatWorkingsetRefaultFile,
    StatPgfault,
    StatPgmajfault,
    StatPgscan,
    StatPgsteal,
    StatPswpin,
    StatPswpout,
    CpuUsageUs,
    MemFree,
    MemAvailable,
    SwapFree,
    Cached,
    VmPswpin,
    VmPswpout,
    VmPgmajfault,
    VmOomKill,
    VmPgscanKswapd,
    VmPgscanDirect,
    VmPgstealKswapd,
    VmPgstealDirect,
}

/// A request's life. Latency is `done_ns - scheduled_ns` (or from `sent_ns`, named as such).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The generator's name.
    pub load: String,
    /// The phase.
    pub phase: String,
    /// Position in the schedule.
    pub seq: u32,
    /// When it was due.
    pub scheduled_ns: u64,
    /// When it was sent; absent when it never was.
    pub sent_ns: Option<u64>,
    /// When its first token came.
    pub first_token_ns: Option<u64>,
    /// When it ended.
    pub done_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Tokens received.
    pub tokens: u32,
    /// Nanoseconds between consecutive tokens (ITL), one fewer than `tokens`.
    pub gaps_ns: Vec<u64>,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// All tokens came.
    Ok,
    /// No server listened.
    Refused,
    /// The connection broke before the end.
    Reset,
    /// The time limit passed.
    Timeout,
    /// The server answered with this status.
    Status(u16),
    /// Still waiting or under way when the phase ended.
    Unfinished,
}

/// Why a stream of frames could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The stream ends inside a frame.
    #[error("frame {frame} at byte {offset} is cut off: the guest stopped while it wrote")]
    Truncated {
        /// Number of the frame, from 0.
        frame: usize,
        /// Where it begins.
        offset: usize,
    },
    /// A frame is not what this version writes.
    #[error("frame {frame} at byte {offset} cannot be decoded: {source}")]
    Malformed {
        /// Number of the frame, from 0.
        frame: usize,
        /// Where it begins.
        offset: usize,
        /// The decoder's reason.
        source: postcard::Error,
    },
}

/// Appends one frame to a buffer.
pub fn encode_frame(frame: &Frame, into: &mut Vec<u8>) {
    let start = into.len();
    into.extend_from_slice(&[0; 4]);
    let body = postcard::to_extend(frame, std::mem::take(into)).expect("frames serialise into memory");
    *into = body;
    let length = u32::try_from(into.len() - start - 4).expect("a frame is smaller than 4 GiB");
    into[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Reads frames one by one; stops after the first error.
pub fn decode_frames(stream: &[u8]) -> impl Iterator<Item = Result<Frame, ReadError>> + '_ {
    let mut offset = 0;
    let mut number = 0;
    std::iter::from_fn(move || {
        let rest = stream.get(offset..)?;
        if rest.is_empty() {
            return None;
        }
        let (at, frame) = (offset, number);
        offset = stream.len() + 1;
        number += 1;
        let Some(length) = rest.first_chunk::<4>().map(|b| u32::from_le_bytes(*b) as usize) else {
            return Some(Err(ReadError::Truncated { frame, offset: at }));
        };
        let Some(body) = rest[4..].get(..length) else {
            return Some(Err(ReadError::Truncated { frame, offset: at }));
        };
        let decoded = postcard::from_bytes(body).map_err(|source| ReadError::Malformed { frame, offset: at, source });
        if decoded.is_ok() {
            offset = at + 4 + length;
        }
        Some(decoded)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_and_a_cut_is_named() {
        let frames = vec![
            Frame::Tick(Tick { at_ns: 7, changes: vec![Change { watch: 1, metric: Metric::StatAnon, delta: -4096 }] }),
            Frame::Done { at_ns: 9, busy_ns: 3 },
        ];
        let mut bytes = Vec::new();
        frames.iter().for_each(|f| encode_frame(f, &mut bytes));
        assert_eq!(decode_frames(&bytes).collect::<Result<Vec<_>, _>>().unwrap(), frames);
        let cut = &bytes[..bytes.len() - 1];
        let last = decode_frames(cut).last().unwrap();
        assert!(matches!(last, Err(ReadError::Truncated { frame: 1, .. })), "{last:?}");
    }
}
