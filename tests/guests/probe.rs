//! A guest for the tests of the machine, built by them: it runs in place of highwater-node and reports on the console.
//!
//! The order is `sleep` (many short sleeps, their times in nanoseconds: what a race in the machine would change first) or `swap` (rewrites
//! every block of /dev/swap0 with noise and compares free memory before and after).

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};

fn main() {
    let report = match order().as_str() {
        "sleep" => sleep(),
        "swap" => swap(),
        other => panic!("unknown order {other:?}"),
    };
    // One write, so that the console's own cost lies behind everything measured.
    fs::write("/dev/console", report).unwrap();
    end();
}

/// Reads the order from the shared memory: offset and length stand at bytes 40 and 48.
fn order() -> String {
    let path = std::env::var("HIGHWATER_SHM").unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    unsafe extern "C" {
        fn mmap(at: *mut u8, length: usize, protection: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    }
    let size = 1 << 20;
    // SAFETY: a new mapping of the region's first MiB.
    let bytes = unsafe {
        let base = mmap(std::ptr::null_mut(), size, 3, 1, std::os::fd::AsRawFd::as_raw_fd(&file), 0);
        std::slice::from_raw_parts(base, size)
    };
    let field = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    // The probe is larger than a MiB or not, the order lies behind it: map again when it is out of reach.
    let (at, length) = (field(40), field(48));
    if at + length <= size {
        return String::from_utf8(bytes[at..at + length].to_vec()).unwrap();
    }
    let page = at & !4095;
    // SAFETY: as above, further behind.
    let bytes = unsafe {
        let base = mmap(std::ptr::null_mut(), size, 3, 1, std::os::fd::AsRawFd::as_raw_fd(&file), page as i64);
        std::slice::from_raw_parts(base, size)
    };
    String::from_utf8(bytes[at - page..at - page + length].to_vec()).unwrap()
}

fn sleep() -> String {
    let began = Instant::now();
    let mut report = String::new();
    let mut noise = Noise(1);
    for i in 0..6000 {
        std::thread::sleep(Duration::from_nanos(10_000 + noise.next() % 300_000));
        if i % 20 == 0 {
            writeln!(report, "{}", began.elapsed().as_nanos()).unwrap();
        }
    }
    report
}

fn swap() -> String {
    const O_DIRECT: i32 = 0o40000;
    let file = File::options().write(true).custom_flags(O_DIRECT).open("/dev/swap0").unwrap();
    let size: u64 = fs::read_to_string("/sys/block/swap0/size").unwrap().trim().parse::<u64>().unwrap() * 512;
    #[repr(align(4096))]
    struct Aligned([u8; 65536]);
    let mut buffer = Box::new(Aligned([0; 65536]));
    let mut noise = Noise(2);
    let before = free();
    for at in (0..size).step_by(buffer.0.len()) {
        buffer.0.iter_mut().for_each(|byte| *byte = noise.next() as u8);
        file.write_all_at(&buffer.0, at).unwrap();
    }
    format!("wrote {size} taken {}\n", before as i64 - free() as i64)
}

fn free() -> u64 {
    fs::read("/proc/sys/vm/stat_refresh").unwrap();
    let text = fs::read_to_string("/proc/zoneinfo").unwrap();
    let pages = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("nr_free_pages ").or_else(|| line.strip_prefix("count:"))?.trim().parse::<u64>().ok()
    });
    pages.sum::<u64>() * 4096
}

struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn end() {
    unsafe extern "C" {
        fn ioperm(from: u64, count: u64, on: i32) -> i32;
        fn tcdrain(fd: i32) -> i32;
    }
    // SAFETY: system calls and the two ports of src/record/port.rs.
    unsafe {
        let console = File::options().write(true).open("/dev/console").unwrap();
        tcdrain(std::os::fd::AsRawFd::as_raw_fd(&console));
        ioperm(0xf4, 1, 1);
        ioperm(0x505, 1, 1);
        std::arch::asm!("out dx, al", "mov edx, 0x505", "mov al, 1", "out dx, al", inout("dx") 0xf4u16 => _, inout("al") 0x2au8 => _);
    }
}
