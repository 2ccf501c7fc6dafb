//! The init stub of the deterministic node: prepares memory, devices and mounts, pauses at the checkpoint, then becomes the guest program.
//!
//! It is small and has no logic of a lab, because its bytes are part of the checkpoint's key. It reads `/boot.conf`, one word list per line:
//! `module PATH plain|compressed`, `cgroup2 OPTIONS`, `memory BYTES`, `device NAME swap|data BYTES LATENCY_NS DEPTH MBPS` and, after its device, `ext4 NAME`.

mod conf;
mod device;
mod memory;
mod system;

use conf::Conf;
use highwater::record::shm::{ENV_FACTS, ENV_SHM, Region};
use highwater::record::{DISK, NodeFacts, port};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

const PROGRAM: &str = "/highwater-node";

#[expect(clippy::print_stderr, reason = "the console is where the host looks for the reason")]
fn main() {
    // Returning would be a kernel panic ("attempted to kill init"), which ends the machine; say why first.
    let Err(error) = run();
    eprintln!("highwater-init: {error}");
    std::process::exit(1);
}

fn run() -> io::Result<std::convert::Infallible> {
    system::mount_basics()?;
    let conf = Conf::parse(&std::fs::read_to_string("/boot.conf").map_err(named("/boot.conf"))?)?;
    for module in &conf.modules {
        system::load_module(&module.path, module.compressed)?;
    }
    system::mount("configfs", "/sys/kernel/config", "configfs", "")?;
    system::mount("cgroup2", "/sys/fs/cgroup", "cgroup2", &conf.cgroup2)?;
    system::loopback_up()?;
    let shared = system::shared_memory()?;
    // The files of the boot are of no use to the node; their pages go back to it.
    for file in conf.modules.iter().map(|m| m.path.as_str()).chain(["/boot.conf", "/init"]) {
        std::fs::remove_file(file).map_err(named(file))?;
    }

    let before = memory::free()?;
    let devices = conf.devices.iter().map(device::create).collect::<io::Result<Vec<_>>>()?;
    let device_bytes = before.saturating_sub(memory::free()?);
    let devices = devices.into_iter().map(device::measure).collect::<io::Result<Vec<_>>>()?;
    for device in conf.devices.iter().filter(|device| device.ext4) {
        std::fs::create_dir(DISK).map_err(named(DISK))?;
        system::mount(&format!("/dev/{}", device.name), DISK, "ext4", "")?;
    }
    let (mem_total, ballast_bytes) = device::ballast(conf.memory, device_bytes)?;
    let facts = NodeFacts {
        kernel: system::kernel_release()?,
        mem_total,
        device_bytes,
        ballast_bytes,
        boot_ns: system::uptime_ns(),
        devices,
    };
    let facts = serde_json::to_string(&facts)?;

    let region = Region::open(Path::new(&shared)).map_err(io::Error::other)?;
    region.output().map_err(io::Error::other)?.append(facts.as_bytes()).map_err(io::Error::other)?;
    port::pause()?;

    // From here on the machine is one arm's: the region has another header.
    let input = region.input().map_err(io::Error::other)?;
    std::fs::write(PROGRAM, input.program()).map_err(named(PROGRAM))?;
    std::fs::set_permissions(PROGRAM, std::fs::Permissions::from_mode(0o755)).map_err(named(PROGRAM))?;
    let error = std::process::Command::new(PROGRAM).arg("guest").env_clear().env(ENV_SHM, &shared).env(ENV_FACTS, facts).exec();
    Err(named(PROGRAM)(error))
}

/// Adds the object to an error, since the system's own text does not say.
fn named(object: &str) -> impl Fn(io::Error) -> io::Error + '_ {
    move |error| io::Error::new(error.kind(), format!("{object}: {error}"))
}
