//! The deterministic machine with the real QEMU: exactness, memory, faults, and what a kill leaves behind.
//!
//! `HIGHWATER_TEST_KERNEL=VMLINUZ` and `HIGHWATER_TEST_MODULES=DIR` run them with another kernel, `HIGHWATER_QEMU` with another QEMU.
//! Needs QEMU and the node programs (`cargo xtask build`); the kernel is fetched once into Cargo's folder for test files.

#![allow(clippy::print_stdout, reason = "a test that cannot be tried here says so")]

use highwater::provider::cache::Cache;
use highwater::provider::kernel::{Kernel, KernelError, KernelSource};
use highwater::provider::lease::{ENV_TOKEN, Lease, leftovers};
use highwater::provider::machine::{ForkInput, MachineError, Qemu, Stage};
use highwater::provider::sim::{self, Checkpoint, Device, Profile, Shape, SimError, Substrate};
use highwater::provider::{FileError, interrupt};
use highwater::record::DeviceRole;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const GUARD: Duration = Duration::from_secs(300);

fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn cache() -> Cache {
    Cache::at(scratch().join("cache"))
}

fn lease() -> Lease {
    Lease::open(&scratch().join("state")).unwrap()
}

fn substrate(lease: &Lease) -> Substrate {
    let kernel = std::env::var_os("HIGHWATER_TEST_KERNEL").map_or(KernelSource::Debian, |image| KernelSource::Files {
        image: image.into(),
        modules: std::env::var_os("HIGHWATER_TEST_MODULES").map(PathBuf::from),
    });
    Substrate::find(&kernel, &cache(), lease, &|_| {}).unwrap_or_else(|error| panic!("{error}"))
}

fn shape() -> Shape {
    let data = Device { ext4: true, ..Device::new("data0", DeviceRole::Data, 16 * MIB, Profile::Hdd) };
    let devices = vec![Device::new("swap0", DeviceRole::Swap, 64 * MIB, Profile::Nvme), data];
    Shape { memory: 256 * MIB, devices, shared: 4 << 20, ..Shape::default() }
}

fn checkpoint(lease: &Lease) -> Checkpoint {
    sim::prepare(&shape(), &substrate(lease), &cache(), lease, &|_| {}).unwrap_or_else(|error| panic!("{error}"))
}

/// The guest of these tests, compiled once.
fn probe() -> &'static Path {
    static PROBE: OnceLock<PathBuf> = OnceLock::new();
    PROBE.get_or_init(|| {
        let (source, program) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/probe.rs"), scratch().join("probe"));
        let mut rustc = Command::new("rustc");
        rustc.args(["--edition=2024", "-O", "-Cpanic=abort", "-Ctarget-feature=+crt-static", "-Cstrip=symbols", "-o"]);
        assert!(rustc.arg(&program).arg(source).status().unwrap().success());
        program
    })
}

/// A static program of a few machine instructions.
fn machine_code(name: &str, code: &[u8]) -> PathBuf {
    let base: u64 = 0x40_0000;
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(16, 0);
    elf.extend([2u16.to_le_bytes(), 62u16.to_le_bytes()].concat());
    elf.extend(1u32.to_le_bytes());
    elf.extend([(base + 120).to_le_bytes(), 64u64.to_le_bytes(), 0u64.to_le_bytes()].concat());
    elf.extend(0u32.to_le_bytes());
    elf.extend([64u16, 56, 1, 0, 0, 0].map(u16::to_le_bytes).concat());
    elf.extend([1u32, 5].map(u32::to_le_bytes).concat());
    let size = 120 + code.len() as u64;
    elf.extend([0, base, base, size, size, 4096].map(u64::to_le_bytes).concat());
    elf.extend_from_slice(code);
    let path = scratch().join(name);
    std::fs::write(&path, elf).unwrap();
    path
}

fn spinning() -> PathBuf {
    machine_code("spins", &[0xeb, 0xfe])
}

fn run(checkpoint: &Checkpoint, program: &Path, order: &str, guard: Duration) -> Result<String, MachineError> {
    let dir = tempfile::tempdir_in(scratch()).unwrap();
    let fork = checkpoint.fork(ForkInput { program, order: order.as_bytes(), dir: dir.path(), guard })?;
    let output = fork.wait(Duration::from_millis(100), &mut |_| {})?;
    Ok(std::fs::read_to_string(output.console).unwrap())
}

#[test]
fn forks_are_equal_to_the_nanosecond_on_busy_cores() {
    let lease = lease();
    let checkpoint = checkpoint(&lease);
    // More machines than cores, so that QEMU's threads are interrupted everywhere.
    let runs: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(|| run(&checkpoint, probe(), "sleep", GUARD).unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let times = |console: &str| console.lines().filter(|line| line.trim().parse::<u64>().is_ok()).count();
    assert_eq!(times(&runs[0]), 300, "{}", runs[0]);
    let compared: usize = runs[1..].iter().map(String::len).sum();
    assert!(runs.iter().all(|run| *run == runs[0]), "of {compared} bytes some differ");
}

#[test]
fn two_boots_give_equal_memory() {
    let lease = lease();
    let substrate = substrate(&lease);
    let identities: Vec<_> = ["one", "two"]
        .map(|name| {
            let dir = tempfile::Builder::new().prefix(name).tempdir_in(scratch()).unwrap();
            sim::prepare(&shape(), &substrate, &Cache::at(dir.path()), &lease, &|_| {}).unwrap().identity
        })
        .into();
    assert_eq!(identities[0], identities[1]);
    assert_eq!(identities[0], checkpoint(&lease).identity);
}

#[test]
fn the_node_has_the_memory_of_its_shape_and_swap_takes_none_of_it() {
    let lease = lease();
    let checkpoint = checkpoint(&lease);
    let facts = &checkpoint.facts;
    let node = facts.mem_total - facts.device_bytes - facts.ballast_bytes;
    assert!(node.abs_diff(256 * MIB) <= MIB, "{facts:?}");
    assert!(facts.device_bytes >= 80 * MIB && facts.device_bytes <= 82 * MIB, "{facts:?}");
    let console = run(&checkpoint, probe(), "swap", GUARD).unwrap();
    let taken = console.split("taken ").nth(1).unwrap_or_else(|| panic!("{console}"));
    let taken: i64 = taken.trim().parse().unwrap();
    assert!(taken.unsigned_abs() < 256 << 10, "{taken} bytes while all of {} MiB of swap were written", 64);
}

#[test]
fn devices_are_as_slow_as_their_profile_says() {
    let lease = lease();
    let facts = checkpoint(&lease).facts;
    let [swap, data] = &facts.devices[..] else { panic!("{facts:?}") };
    // The profile's latency and the kernel's own path: 9 us with 6.1, about 125 us with 6.12.
    assert!((100_000..240_000).contains(&swap.random_read_ns), "{swap:?}");
    assert!((800_000..1_000_000).contains(&data.random_read_ns), "{data:?}");
    assert!((80_000_000..160_000_000).contains(&data.sequential_read_bps), "{data:?}");
}

#[test]
fn a_second_prepare_boots_nothing() {
    let lease = lease();
    let first = checkpoint(&lease);
    let second = checkpoint(&lease);
    assert!(second.warm);
    assert_eq!(first.identity, second.identity);
}

#[test]
fn a_guest_panic_is_told_with_the_console() {
    let lease = lease();
    // exit_group(3) as PID 1.
    let exits = machine_code("exits", &[0xbf, 3, 0, 0, 0, 0xb8, 231, 0, 0, 0, 0x0f, 0x05]);
    let error = run(&checkpoint(&lease), &exits, "", GUARD).unwrap_err();
    let MachineError::Panicked { stage: Stage::Run, last } = &error else { panic!("{error}") };
    assert!(last.console.contains("Attempted to kill init"), "{error}");
}

#[test]
fn a_guest_that_hangs_is_ended_by_the_guard() {
    let lease = lease();
    let error = run(&checkpoint(&lease), &spinning(), "", Duration::from_secs(15)).unwrap_err();
    assert!(matches!(error, MachineError::Hung { stage: Stage::Run, .. }), "{error}");
}

#[test]
fn a_guest_that_switches_itself_off_has_no_result() {
    let lease = lease();
    // reboot(LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_POWER_OFF).
    let mut code = vec![0xbf];
    code.extend(0xfee1_deadu32.to_le_bytes());
    code.push(0xbe);
    code.extend(672_274_793u32.to_le_bytes());
    code.push(0xba);
    code.extend(0x4321_fedcu32.to_le_bytes());
    code.extend([0xb8, 169, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xfe]);
    let error = run(&checkpoint(&lease), &machine_code("powers-off", &code), "", GUARD).unwrap_err();
    assert!(matches!(error, MachineError::SwitchedOff { stage: Stage::Run, .. }), "{error}");
}

#[test]
fn a_killed_qemu_is_told() {
    let lease = lease();
    let checkpoint = checkpoint(&lease);
    let dir = tempfile::tempdir_in(scratch()).unwrap();
    let fork = checkpoint.fork(ForkInput { program: &spinning(), order: b"", dir: dir.path(), guard: GUARD }).unwrap();
    let pid = fork.pid();
    let mut killed = false;
    let error = fork
        .wait(Duration::from_millis(100), &mut |_| {
            if !std::mem::replace(&mut killed, true) {
                assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
            }
        })
        .unwrap_err();
    assert!(matches!(error, MachineError::Killed { stage: Stage::Run, signal: 9, .. }), "{error}");
}

#[test]
fn a_full_disk_is_told_and_leaves_nothing() {
    let lease = lease();
    let substrate = substrate(&lease);
    let dir = tempfile::tempdir_in(scratch()).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    if rustix::mount::mount("tmpfs", dir.path(), "tmpfs", flags, Some(c"size=1m")).is_err() {
        println!("not tried: mounting a small disk needs root");
        return;
    }
    let error = sim::prepare(&shape(), &substrate, &Cache::at(dir.path()), &lease, &|_| {}).unwrap_err();
    let left = std::fs::read_dir(dir.path().join("checkpoints")).unwrap().count();
    rustix::mount::unmount(dir.path(), rustix::mount::UnmountFlags::empty()).unwrap();
    assert!(matches!(error, SimError::Machine(MachineError::File(FileError::DiskFull { .. }))), "{error}");
    assert_eq!(left, 0);
}

#[test]
fn a_missing_qemu_and_one_that_is_none_are_told() {
    let error = Qemu::at("no-such-qemu".as_ref(), &cache()).unwrap_err();
    assert!(matches!(error, MachineError::NoQemu { .. }), "{error}");
    assert!(error.to_string().contains("apt-get install qemu-system-x86"), "{error}");
    let error = Qemu::at("/bin/true".as_ref(), &cache()).unwrap_err();
    assert!(matches!(error, MachineError::BadQemu { .. }), "{error}");
}

#[test]
fn a_kernel_without_a_module_is_told() {
    let lease = lease();
    let image = substrate(&lease).kernel.image;
    let empty = tempfile::tempdir_in(scratch()).unwrap();
    let source = KernelSource::Files { image, modules: Some(empty.path().into()) };
    let error = Kernel::find(&source, &cache(), &lease, &|_| {}).unwrap_err();
    assert!(matches!(error, KernelError::NoModule { module: "configfs", .. }), "{error}");
}

/// What the next test kills: boots or forks, whatever comes first, and goes on for ever.
#[test]
#[ignore = "run by kill_at_any_moment_leaves_nothing_that_clean_does_not_find"]
fn victim() {
    let state = PathBuf::from(std::env::var_os("VICTIM_STATE").unwrap());
    let lease = Lease::open(&state).unwrap();
    let cold = Shape { kernel_arguments: vec![format!("victim={}", std::env::var("VICTIM_COLD").unwrap())], ..shape() };
    let shape = if cold.kernel_arguments[0] == "victim=no" { shape() } else { cold };
    let checkpoint = sim::prepare(&shape, &substrate(&lease), &cache(), &lease, &|_| {}).unwrap();
    loop {
        let dir = state.join("arm");
        let held = lease.directory(&dir).unwrap();
        std::fs::create_dir(&dir).unwrap();
        let input = ForkInput { program: &spinning(), order: b"", dir: &dir, guard: Duration::from_secs(1) };
        _ = checkpoint.fork(input).and_then(|fork| fork.wait(Duration::from_millis(10), &mut |_| {}));
        drop(held);
    }
}

#[test]
fn kill_at_any_moment_leaves_nothing_that_clean_does_not_find() {
    checkpoint(&lease());
    let mut found = 0;
    for round in 0u64..12 {
        let state = tempfile::tempdir_in(scratch()).unwrap();
        let cold = if round % 3 == 2 { format!("{}-{round}", std::process::id()) } else { "no".into() };
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "victim"])
            .env("VICTIM_STATE", state.path())
            .env("VICTIM_COLD", cold)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Not a wait for anything: the moment of the kill is what varies.
        std::thread::sleep(Duration::from_millis(40 + round * round * 17));
        victim.kill().unwrap();
        victim.wait().unwrap();
        for leftover in leftovers(state.path()).unwrap() {
            let removed = leftover.clean();
            assert_eq!(removed.failed, Vec::<String>::new());
            found += removed.done.len();
        }
        let left: Vec<_> = std::fs::read_dir(state.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.iter().all(|path| path.ends_with("leases")), "{left:?}");
        assert_eq!(std::fs::read_dir(state.path().join("leases")).map_or(0, Iterator::count), 0);
        let marker = format!("{ENV_TOKEN}={}-", victim.id());
        let survivors = std::fs::read_dir("/proc").unwrap().filter(|entry| {
            let environment = std::fs::read(entry.as_ref().unwrap().path().join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(marker.as_bytes()))
        });
        assert_eq!(survivors.count(), 0, "processes of round {round} survived");
        let partial = format!(".new-{}-", victim.id());
        let partial = std::fs::read_dir(scratch().join("cache/checkpoints"))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(&partial));
        assert_eq!(partial.count(), 0, "half a checkpoint of round {round} is left");
    }
    assert!(found > 0, "no kill hit anything: the test shows nothing");
    assert!(!interrupt::requested());
}
