//! Block devices in memory: made with null_blk, written in full so that they take no memory later, and measured.

use crate::conf::Device;
use crate::{memory, named};
use highwater::record::{DeviceFacts, DeviceRole};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::Instant;

const PAGE: usize = 4096;
const MIB: u64 = 1 << 20;
/// One write while filling, one read while measuring throughput.
const CHUNK: usize = 256 << 10;
const O_DIRECT: i32 = 0o40000;

/// A device that exists and is written.
pub struct Made {
    file: File,
    name: String,
    role: DeviceRole,
    bytes: u64,
}

/// Page-aligned memory, as direct I/O wants it.
#[repr(align(4096))]
struct Aligned([u8; CHUNK]);

pub fn create(device: &Device) -> io::Result<Made> {
    let file = power_on(&device.name, device.bytes, device.latency_ns, device.depth, device.mbps)?;
    let zeros = Box::new(Aligned([0; CHUNK]));
    let mut at = 0;
    while at < device.bytes {
        let length = (device.bytes - at).min(CHUNK as u64) as usize;
        file.write_all_at(&zeros.0[..length], at).map_err(named(&device.name))?;
        at += length as u64;
    }
    if device.role == DeviceRole::Swap {
        let mut page = zeros;
        sign_as_swap(&mut page.0[..PAGE], device.bytes);
        file.write_all_at(&page.0[..PAGE], 0).map_err(named(&device.name))?;
    } else if device.ext4 {
        write_blocks(&file, &device.name, zeros)?;
    }
    Ok(Made { file, name: device.name.clone(), role: device.role, bytes: device.bytes })
}

/// Writes what the host's mke2fs wrote: records of a block's number and its bytes, see `provider/sim/ext4.rs`.
fn write_blocks(file: &File, name: &str, mut block: Box<Aligned>) -> io::Result<()> {
    let path = format!("/ext4/{name}");
    let records = fs::read(&path).map_err(named(&path))?;
    for record in records.chunks_exact(8 + PAGE) {
        let (number, bytes) = record.split_at(8);
        block.0[..PAGE].copy_from_slice(bytes);
        let number = u64::from_le_bytes(number.try_into().expect("8 bytes"));
        file.write_all_at(&block.0[..PAGE], number * PAGE as u64).map_err(named(name))?;
    }
    fs::remove_file(&path).map_err(named(&path))
}

/// The header that mkswap writes: union swap_header of include/linux/swap.h.
fn sign_as_swap(page: &mut [u8], bytes: u64) {
    let last_page = (bytes / PAGE as u64 - 1) as u32;
    page[1024..1028].copy_from_slice(&1u32.to_le_bytes());
    page[1028..1032].copy_from_slice(&last_page.to_le_bytes());
    page[PAGE - 10..].copy_from_slice(b"SWAPSPACE2");
}

pub fn measure(device: Made) -> io::Result<DeviceFacts> {
    let mut buffer = Box::new(Aligned([0; CHUNK]));
    let pages = device.bytes / PAGE as u64;
    let mut state = 1u64;
    let reads = 64;
    let began = Instant::now();
    for _ in 0..reads {
        // Knuth's 64-bit linear congruential generator; only its high bits are used.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let page = (state >> 33) % pages;
        device.file.read_exact_at(&mut buffer.0[..PAGE], page * PAGE as u64).map_err(named(&device.name))?;
    }
    let random_read_ns = began.elapsed().as_nanos() as u64 / reads;
    let span = (device.bytes / CHUNK as u64).min(64) * CHUNK as u64;
    let began = Instant::now();
    for at in (0..span).step_by(CHUNK) {
        device.file.read_exact_at(&mut buffer.0, at).map_err(named(&device.name))?;
    }
    let took = began.elapsed().as_nanos().max(1);
    let sequential_read_bps = (u128::from(span) * 1_000_000_000 / took) as u64;
    Ok(DeviceFacts { name: device.name, role: device.role, size: device.bytes, random_read_ns, sequential_read_bps })
}

/// Takes memory from the kernel until exactly `node` bytes are left beside it and the devices; returns MemTotal and the bytes taken.
pub fn ballast(node: u64, devices: u64) -> io::Result<(u64, u64)> {
    let total = memory::total()?;
    let surplus = total.checked_sub(node + devices).ok_or_else(|| {
        io::Error::other(format!("the machine's {total} bytes cannot hold a node of {node} and devices of {devices}"))
    })?;
    let before = memory::free()?;
    let file = power_on("ballast", surplus.next_multiple_of(MIB), 0, 64, 0)?;
    let zeros = Box::new(Aligned([0; CHUNK]));
    let mut at = 0;
    loop {
        // A written page also costs a share of the device's index, so approach from below and look again.
        let missing = surplus.saturating_sub(before.saturating_sub(memory::free()?));
        let next = (missing / 128 * 127 / PAGE as u64) as usize * PAGE;
        if next == 0 {
            break;
        }
        let length = next.min(CHUNK);
        file.write_all_at(&zeros.0[..length], at).map_err(named("ballast"))?;
        at += length as u64;
    }
    Ok((total, before.saturating_sub(memory::free()?)))
}

fn power_on(name: &str, bytes: u64, latency_ns: u64, depth: u64, mbps: u64) -> io::Result<File> {
    let folder = format!("/sys/kernel/config/nullb/{name}");
    fs::create_dir(&folder).map_err(named(&folder))?;
    let set = |file: &str, value: u64| {
        let path = format!("{folder}/{file}");
        fs::write(&path, value.to_string()).map_err(named(&path))
    };
    set("size", bytes.div_ceil(MIB))?;
    set("blocksize", PAGE as u64)?;
    set("memory_backed", 1)?;
    set("submit_queues", 1)?;
    set("hw_queue_depth", depth)?;
    // Completion by timer models the latency; without latency, complete at once.
    set("irqmode", if latency_ns > 0 { 2 } else { 0 })?;
    set("completion_nsec", latency_ns)?;
    set("mbps", mbps)?;
    set("power", 1)?;
    let path = format!("/dev/{name}");
    if !fs::exists(&path)? {
        // Older kernels number the disks and ignore the name of the folder.
        let index = fs::read_to_string(format!("{folder}/index"))?;
        std::os::unix::fs::symlink(format!("nullb{}", index.trim()), &path).map_err(named(&path))?;
    }
    File::options().read(true).write(true).custom_flags(O_DIRECT).open(&path).map_err(named(&path))
}
