//! What the cgroups use: readings in a steady rhythm that never takes more than a hundredth of the time.

use super::Root;
use crate::cgroup::{PressureTotals, flat, flat_value, parse_number, parse_pressure};
use crate::record::{CgroupUsage, LedgerEntry, Levels, Role, Usage};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Of the time between two readings, this part may be spent reading.
const SHARE: u32 = 100;

/// Readings of one cgroup.
#[derive(Debug, Default)]
struct Series {
    usage: Vec<u64>,
    anon: Vec<u64>,
    file: Vec<u64>,
    inactive_file: Vec<u64>,
    swap: Vec<u64>,
    stalled: Vec<PressureTotals>,
    events: BTreeMap<String, u64>,
}

/// Reads the cgroups of these entries until the time is over, and at least once. `wait` sleeps until the next reading is due and says
/// whether to go on.
pub(super) fn watch(
    root: &Root,
    mount: &str,
    entries: &[LedgerEntry],
    (every, length): (Duration, Duration),
    mut wait: impl FnMut(Duration) -> bool,
) -> Usage {
    let watched: Vec<&LedgerEntry> = entries.iter().filter(|e| !matches!(e.role, Role::Node | Role::System { .. })).collect();
    let mut series: Vec<Series> = watched.iter().map(|_| Series::default()).collect();
    let begin = Instant::now();
    let mut samples = 0;
    loop {
        let started = Instant::now();
        for (entry, series) in watched.iter().zip(&mut series) {
            series.read(root, &format!("{mount}{}", entry.path));
        }
        samples += 1;
        let next = every.max(started.elapsed() * SHARE);
        if begin.elapsed() + next > length || !wait(next.saturating_sub(started.elapsed())) {
            break;
        }
    }
    let watched_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    let cgroups = watched.iter().zip(series).filter_map(|(entry, series)| series.finish(entry)).collect();
    Usage { samples, watched_ms: if samples > 1 { watched_ms } else { 0 }, cgroups }
}

impl Series {
    fn read(&mut self, root: &Root, directory: &str) {
        let number = |file: &str| parse_number(root.text(&format!("{directory}/{file}"))?.as_bytes());
        let Some(current) = number("memory.current").or_else(|| number("memory.usage_in_bytes")) else { return };
        self.usage.push(current);
        let stat = root.text(&format!("{directory}/memory.stat")).unwrap_or_default();
        let of = |v2: &str, v1: &str| flat_value(stat.as_bytes(), v2).or_else(|| flat_value(stat.as_bytes(), v1)).unwrap_or(0);
        self.anon.push(of("anon", "total_rss"));
        self.file.push(of("file", "total_cache"));
        self.inactive_file.push(of("inactive_file", "total_inactive_file"));
        self.swap.push(number("memory.swap.current").unwrap_or_else(|| of("swap", "total_swap")));
        let pressure = root.text(&format!("{directory}/memory.pressure")).unwrap_or_default();
        let totals = parse_pressure(pressure.as_bytes());
        self.stalled.push(totals);
        let events = root.text(&format!("{directory}/memory.events")).unwrap_or_default();
        self.events = flat(events.as_bytes()).map(|(key, value)| (String::from_utf8_lossy(key).into_owned(), value)).collect();
    }

    fn finish(self, entry: &LedgerEntry) -> Option<CgroupUsage> {
        let current = *self.usage.first()?;
        let grown = |pick: fn(&PressureTotals) -> Option<u64>| {
            let (first, last) = (self.stalled.first().and_then(pick)?, self.stalled.last().and_then(pick)?);
            Some(last.saturating_sub(first))
        };
        Some(CgroupUsage {
            role: entry.role.clone(),
            path: entry.path.clone(),
            current,
            some_us: grown(|s| s.some_us),
            full_us: grown(|s| s.full_us),
            usage: Levels::of(self.usage),
            anon: Levels::of(self.anon),
            file: Levels::of(self.file),
            inactive_file: Levels::of(self.inactive_file),
            swap: Levels::of(self.swap),
            events: self.events,
        })
    }
}
