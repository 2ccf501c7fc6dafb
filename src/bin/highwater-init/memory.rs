//! How much memory the kernel has and how much of it is free, to the page.

use crate::named;
use std::io;

const PAGE: u64 = 4096;

/// MemTotal in bytes.
pub fn total() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").map_err(named("/proc/meminfo"))?;
    let kib = text.lines().find_map(|l| l.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.ok_or_else(|| io::Error::other("/proc/meminfo: no MemTotal"))? * 1024)
}

/// Free bytes, with the pages that wait in the lists of the one CPU: MemFree alone is off by some hundred KiB.
pub fn free() -> io::Result<u64> {
    // Reading it folds the counters that the CPU has not handed over yet.
    std::fs::read("/proc/sys/vm/stat_refresh").map_err(named("/proc/sys/vm/stat_refresh"))?;
    let text = std::fs::read_to_string("/proc/zoneinfo").map_err(named("/proc/zoneinfo"))?;
    let pages = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("nr_free_pages ").or_else(|| line.strip_prefix("count:"))?.trim().parse::<u64>().ok()
    });
    Ok(pages.sum::<u64>() * PAGE)
}
