//! Orders played by the guest in the deterministic node: lives of pods, byte-identical repetition, and what sampling costs.
//!
//! Needs QEMU and the programs of `cargo xtask build`; a boot that is in the cache is used again.

#![allow(clippy::print_stdout, reason = "a test says what it compared and measured")]

use highwater::provider::cache::{Cache, cache_dir};
use highwater::provider::kernel::KernelSource;
use highwater::provider::lease::{Lease, state_dir};
use highwater::provider::machine::ForkInput;
use highwater::provider::sim::{Checkpoint, Device, Shape, Substrate, prepare};
use highwater::record::{
    DeviceRole, EventKind, FileValue, Frame, LedgerSnapshot, Metric, Order, Outcome, Request, Role, decode_frames, shm,
};
use std::collections::BTreeMap;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

struct Lab {
    substrate: Substrate,
    checkpoint: Checkpoint,
}

impl Lab {
    fn boot() -> Lab {
        let cache = Cache::at(cache_dir());
        let lease = Lease::open(&state_dir()).unwrap();
        let substrate = Substrate::find(&KernelSource::Debian, &cache, &lease, &|_| {}).unwrap();
        let swap = Device {
            name: "swap0".into(),
            role: DeviceRole::Swap,
            size: 32 * MIB,
            latency_ns: 100_000,
            depth: 128,
            mbps: None,
            ext4: false,
        };
        let shape = Shape {
            memory: 256 * MIB,
            devices: vec![swap],
            psi: true,
            memory_recursive_prot: true,
            icount_shift: 0,
            kernel_arguments: vec![],
            shared: shm::DEFAULT_SIZE,
        };
        let checkpoint = prepare(&shape, &substrate, &cache, &lease, &|_| {}).unwrap();
        Lab { substrate, checkpoint }
    }

    fn play(&self, name: &str, order: &[u8]) -> Vec<u8> {
        let dir = std::env::temp_dir().join(format!("highwater-guest-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let guard = Duration::from_secs(900);
        let input = ForkInput { program: &self.substrate.programs.node, order, dir: &dir, guard };
        let output = self.checkpoint.fork(input).unwrap().wait(Duration::from_millis(200), &mut |_| {}).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        output.frames
    }
}

fn order(name: &str) -> Order {
    let path = format!("{}/fixtures/orders/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn frames(bytes: &[u8]) -> Vec<Frame> {
    let frames: Vec<_> = decode_frames(bytes).collect::<Result<_, _>>().unwrap();
    if let Some(Frame::Fault { message }) = frames.iter().find(|frame| matches!(frame, Frame::Fault { .. })) {
        panic!("the guest failed: {message}");
    }
    assert!(matches!(frames.first(), Some(Frame::Hello { .. })) && matches!(frames.last(), Some(Frame::Done { .. })));
    frames
}

fn events(frames: &[Frame]) -> impl Iterator<Item = (u64, &EventKind)> {
    frames.iter().filter_map(|frame| match frame {
        Frame::Event(event) => Some((event.at_ns, &event.kind)),
        _ => None,
    })
}

fn requests<'a>(frames: &'a [Frame], phase: &'a str) -> Vec<&'a Request> {
    let requests = frames.iter().filter_map(|frame| match frame {
        Frame::Request(request) if request.phase == phase => Some(request),
        _ => None,
    });
    requests.collect()
}

// The last value of every metric of the n-th attempt of a container.
fn last(frames: &[Frame], pod: &str, attempt: u32) -> BTreeMap<Metric, i64> {
    let role = Role::Container { pod: pod.into(), container: if pod.starts_with("reader") { "reader" } else { "main" }.into() };
    let id = frames.iter().find_map(|frame| match frame {
        Frame::Watch(watch) if watch.role == role && watch.attempt == attempt => Some(watch.id),
        _ => None,
    });
    let id = id.unwrap_or_else(|| panic!("{role} was watched"));
    let mut sums = BTreeMap::new();
    for frame in frames {
        if let Frame::Tick(tick) = frame {
            tick.changes.iter().filter(|c| c.watch == id).for_each(|c| *sums.entry(c.metric).or_default() += c.delta);
        }
    }
    sums
}

fn ledger<'a>(frames: &'a [Frame], phase: &str) -> &'a LedgerSnapshot {
    let found = frames.iter().find_map(|frame| match frame {
        Frame::Ledger(ledger) if ledger.phase == phase => Some(ledger),
        _ => None,
    });
    found.unwrap()
}

fn control(ledger: &LedgerSnapshot, role: &str, file: &str) -> Option<String> {
    let entry = ledger.entries.iter().find(|entry| entry.role.to_string() == role)?;
    match entry.files.get(file)? {
        FileValue::Text(text) => Some(text.clone()),
        FileValue::Absent => None,
    }
}

#[test]
fn lives_of_pods() {
    let lab = Lab::boot();
    let order = order("life-of-pods");
    let text = serde_json::to_vec(&order).unwrap();
    // Two forks beside each other, so each is disturbed by the other.
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| lab.play("other", &text));
        (lab.play("one", &text), other.join().unwrap())
    });
    if one != other {
        let differing =
            decode_frames(&one).zip(decode_frames(&other)).enumerate().find(|(_, (a, b))| format!("{a:?}") != format!("{b:?}"));
        panic!("{} and {} bytes of frames differ, first in {differing:#?}", one.len(), other.len());
    }
    assert!(one.len() > 10_000, "{} bytes were compared", one.len());
    let frames = frames(&one);
    crash_loop(&frames);
    order_of_containers(&frames);
    servers(&frames);
    controls(&frames);
    for reader in ["reader-a", "reader-b"] {
        let shmem = last(&frames, reader, 0)[&Metric::StatShmem];
        assert_eq!(shmem, 1 << 20, "{reader} has a memory volume of its own at the same path, and is charged for it");
    }
}

fn crash_loop(frames: &[Frame]) {
    let mut starts = Vec::new();
    let mut exits = Vec::new();
    let mut delays = Vec::new();
    let mut cgroups = Vec::new();
    let mut kills = Vec::new();
    for (at, kind) in events(frames) {
        match kind {
            EventKind::ContainerStarted { pod, attempt, cgroup, .. } if pod == "victim" => {
                assert_eq!(*attempt as usize, starts.len());
                starts.push(at);
                cgroups.push(cgroup.clone());
            }
            EventKind::ContainerExited { pod, signal, oom_killed, memory_peak, .. } if pod == "victim" => {
                assert_eq!((*signal, *oom_killed, *memory_peak), (Some(9), true, Some(8 * MIB)));
                exits.push(at);
            }
            EventKind::BackOff { pod, delay_ns, .. } if pod == "victim" => delays.push(delay_ns / SECOND),
            EventKind::OomKill { constraint, oom_memcg, task_memcg, task } => {
                assert_eq!((constraint.as_str(), task.as_str()), ("CONSTRAINT_MEMCG", "highwater-node"));
                assert_eq!(oom_memcg, task_memcg);
                kills.push(task_memcg.clone());
            }
            _ => {}
        }
    }
    assert_eq!(delays, [10, 20, 40]);
    assert_eq!((starts.len(), exits.len()), (4, 4), "40 seconds hold the starts after 0, 0, 10 and 20 seconds of waiting");
    assert_eq!(kills, cgroups, "the kernel's own account names the same cgroups");
    for (exit, (start, delay)) in exits.iter().zip(starts[1..].iter().zip([0, 10, 20])) {
        let late = start - exit - delay * SECOND;
        assert!(late < 10_000_000, "a restart came {late} ns late");
    }
    for attempt in 0..4 {
        // With memory.oom.group the kernel counts the victim twice: as itself and as a member of its group.
        assert_eq!(last(frames, "victim", attempt)[&Metric::LocalOomKill], 2, "the last values were read before the cgroup went");
    }
    let typo = events(frames).find_map(|(_, kind)| match kind {
        EventKind::ContainerExited { pod, code, oom_killed, .. } if pod == "typo" => Some((*code, *oom_killed)),
        _ => None,
    });
    assert_eq!(typo, Some((Some(2), false)));
    let lines = frames.iter().filter_map(|frame| match frame {
        Frame::Log { pod, line, .. } if pod == "typo" => Some(line.as_str()),
        _ => None,
    });
    let said = "highwater-node: anon: --size=SIZE is missing, for example --size=512Mi";
    assert_eq!(lines.collect::<Vec<_>>(), [said]);
}

fn order_of_containers(frames: &[Frame]) {
    let job = events(frames).filter_map(|(_, kind)| match kind {
        EventKind::ContainerStarted { pod, container, .. } if pod == "job" => Some(format!("{container} starts")),
        EventKind::Ready { pod, container, ready } if pod == "job" && *ready => Some(format!("{container} is ready")),
        EventKind::ContainerExited { pod, container, code, .. } if pod == "job" => {
            Some(format!("{container} ends with {}", code.map_or("a signal".to_owned(), |code| code.to_string())))
        }
        _ => None,
    });
    let expected = [
        "prepare starts",
        "prepare ends with 0",
        "proxy starts",
        "proxy is ready",
        "main starts",
        "main is ready",
        "main ends with 0",
        "proxy ends with 143",
    ];
    assert_eq!(job.collect::<Vec<_>>(), expected);
}

fn servers(frames: &[Frame]) {
    for pod in ["server", "twin"] {
        let ready = events(frames).any(|(_, kind)| matches!(kind, EventKind::Ready { pod: p, ready: true, .. } if p == pod));
        assert!(ready, "{pod} listens on port 8000 of its own network");
    }
    let steady = requests(frames, "steady");
    assert!(steady.len() == 4 && steady.iter().all(|r| r.outcome == Outcome::Ok && r.tokens == 2 && r.gaps_ns.len() == 1));
    let server = last(frames, "server", 0);
    assert!(server[&Metric::StatPgmajfault] > 100, "weights above the limit are read from swap: {server:?}");
    let refused = requests(frames, "crash");
    assert_eq!(refused.len(), 3);
    assert!(refused.iter().all(|r| r.outcome == Outcome::Refused && r.sent_ns.unwrap() - r.scheduled_ns < 1_000_000));
    assert_eq!(requests(frames, "down").len(), 1);
}

fn controls(frames: &[Frame]) {
    let steady = ledger(frames, "steady");
    assert_eq!(control(steady, "pod/server/main", "memory.max"), Some((12 * MIB).to_string()));
    assert_eq!(control(steady, "pod/server/main", "memory.oom.group").as_deref(), Some("1"));
    assert_eq!(control(steady, "pod/server/main", "oom_score_adj").as_deref(), Some("500"));
    assert_eq!(control(steady, "pod/server/pause", "oom_score_adj").as_deref(), Some("-998"));
    assert_eq!(control(steady, "pod/server/main", "memory.high").as_deref(), Some("max"));
    assert_eq!(control(steady, "kubepods", "memory.low").as_deref(), Some("0"));
    let crash = ledger(frames, "crash");
    assert_eq!(control(crash, "kubepods", "memory.low").as_deref(), Some("4096"), "the kernel floors to a page");
    assert_eq!(control(crash, "pod/victim/main", "memory.max"), None, "it waits for its restart: there is no cgroup");
    assert_eq!(control(ledger(frames, "down"), "pod/server", "memory.max"), None, "a stopped pod leaves nothing");
    let refused = events(frames).find_map(|(_, kind)| match kind {
        EventKind::WriteRefused { path, value, .. } => Some((path.as_str(), value.as_str())),
        _ => None,
    });
    assert_eq!(refused, Some(("/kubepods.slice/memory.high", "lots")));
}

#[test]
fn sampling_24_containers_costs_less_than_a_hundredth() {
    let lab = Lab::boot();
    let with = order("sampling-cost");
    let mut without = with.clone();
    without.sampling.interval_ns = 0;
    let measure = |order: &Order| {
        let name = format!("cost-{}", order.sampling.interval_ns);
        let frames = frames(&lab.play(&name, &serde_json::to_vec(order).unwrap()));
        let steady = requests(&frames, "steady");
        assert_eq!(steady.len(), 100);
        let mut latencies: Vec<u64> = steady.iter().map(|r| r.done_ns - r.scheduled_ns).collect();
        latencies.sort_unstable();
        let mean = latencies.iter().sum::<u64>() as f64 / latencies.len() as f64;
        let Some(Frame::Done { at_ns, busy_ns }) = frames.last() else { panic!("no end") };
        (mean, latencies[50] as f64, latencies[90] as f64, *busy_ns as f64 / *at_ns as f64)
    };
    let (bare, sampled) = std::thread::scope(|scope| {
        let sampled = scope.spawn(|| measure(&with));
        (measure(&without), sampled.join().unwrap())
    });
    println!("mean, p50, p90 in ns and busy share: sampled {sampled:?}, not sampled {bare:?}");
    for (sampled, bare) in [(sampled.0, bare.0), (sampled.1, bare.1), (sampled.2, bare.2)] {
        assert!((sampled / bare - 1.0).abs() < 0.01, "{sampled} against {bare} ns");
    }
    assert!(sampled.3 > bare.3, "the readings themselves are counted");
}
