//! Memory: how far counters grew and how high gauges stood, by cgroup and phase, from the stream of samples.

use super::result::CgroupResult;
use super::window::{Window, at};
use crate::record::{Metric, Role, Tick, Watch};
use std::collections::{BTreeMap, BTreeSet};

/// Whether a metric is a level and not a count.
pub fn is_gauge(metric: Metric) -> bool {
    use Metric::*;
    matches!(
        metric,
        MemoryCurrent
            | MemorySwapCurrent
            | StatAnon
            | StatFile
            | StatShmem
            | StatKernel
            | StatSlab
            | StatSock
            | StatInactiveAnon
            | StatActiveAnon
            | StatInactiveFile
            | StatActiveFile
            | StatUnevictable
            | MemFree
            | MemAvailable
            | SwapFree
            | Cached
    )
}

/// Follows the watches of a stream and gives every reading as a level by role.
#[derive(Debug, Default)]
pub struct Levels {
    watches: BTreeMap<u16, (Role, u32)>,
    values: BTreeMap<(u16, Metric), i64>,
    newest: BTreeMap<Role, u16>,
    settled: BTreeSet<u16>,
}

/// One reading.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading<'a> {
    /// Whose.
    pub role: &'a Role,
    /// What.
    pub metric: Metric,
    /// The value now, of the newest start.
    pub level: u64,
    /// By how much a counter grew; 0 for what was there before the arm began.
    pub grew: u64,
}

impl Levels {
    /// A new watch. A restarted container's replaces the one before.
    pub fn watch(&mut self, watch: &Watch) {
        self.watches.insert(watch.id, (watch.role.clone(), watch.attempt));
        self.newest.insert(watch.role.clone(), watch.id);
    }

    /// Takes a tick apart.
    pub fn tick(&mut self, tick: &Tick, mut each: impl FnMut(Reading<'_>)) {
        let mut seen = BTreeSet::new();
        for change in &tick.changes {
            let Some((role, _)) = self.watches.get(&change.watch) else { continue };
            let value = self.values.entry((change.watch, change.metric)).or_default();
            *value += change.delta;
            // The node counts since it booted, so its first reading is where it stands and not what the arm did.
            let before = matches!(role, Role::Node | Role::System { .. }) && !self.settled.contains(&change.watch);
            let grew = if before { 0 } else { u64::try_from(change.delta).unwrap_or(0) };
            seen.insert(change.watch);
            let newest = self.newest.get(role) == Some(&change.watch);
            if newest || !is_gauge(change.metric) {
                each(Reading { role, metric: change.metric, level: u64::try_from(*value).unwrap_or(0), grew });
            }
        }
        self.settled.extend(seen);
    }
}

/// Collects by phase and for the whole script.
#[derive(Debug)]
pub struct Memory<'w> {
    windows: &'w [Window],
    levels: Levels,
    standing: BTreeMap<(Role, Metric), u64>,
    phases: Vec<BTreeMap<Role, Cgroup>>,
    whole: BTreeMap<Role, Cgroup>,
    unsupported: BTreeMap<Role, BTreeSet<Metric>>,
    current: Option<usize>,
}

#[derive(Debug, Default, Clone)]
struct Cgroup {
    grew: BTreeMap<Metric, u64>,
    most: BTreeMap<Metric, u64>,
    least: BTreeMap<Metric, u64>,
    last: BTreeMap<Metric, u64>,
}

impl Cgroup {
    fn level(&mut self, metric: Metric, level: u64) {
        let most = self.most.entry(metric).or_insert(level);
        *most = level.max(*most);
        let least = self.least.entry(metric).or_insert(level);
        *least = level.min(*least);
        self.last.insert(metric, level);
    }
}

impl<'w> Memory<'w> {
    /// Collects over these phases.
    pub fn new(windows: &'w [Window]) -> Memory<'w> {
        Memory {
            windows,
            levels: Levels::default(),
            standing: BTreeMap::new(),
            phases: vec![BTreeMap::new(); windows.len()],
            whole: BTreeMap::new(),
            unsupported: BTreeMap::new(),
            current: None,
        }
    }

    /// A new watch.
    pub fn watch(&mut self, watch: &Watch) {
        self.unsupported.entry(watch.role.clone()).or_default().extend(watch.unsupported.iter().copied());
        self.levels.watch(watch);
    }

    /// A reading of everything that was due.
    pub fn tick(&mut self, tick: &Tick) {
        let phase = at(self.windows, tick.at_ns);
        if let Some(index) = phase.filter(|_| phase != self.current) {
            // A gauge that does not change in a phase still stands where it stood.
            for ((role, metric), level) in &self.standing {
                self.phases[index].entry(role.clone()).or_default().level(*metric, *level);
            }
            self.current = phase;
        }
        let (phases, whole, standing) = (&mut self.phases, &mut self.whole, &mut self.standing);
        self.levels.tick(tick, |reading| {
            let parts = [Some(&mut *whole), phase.map(|i| &mut phases[i])];
            for part in parts.into_iter().flatten() {
                let cgroup = part.entry(reading.role.clone()).or_default();
                if is_gauge(reading.metric) {
                    cgroup.level(reading.metric, reading.level);
                } else {
                    *cgroup.grew.entry(reading.metric).or_default() += reading.grew;
                }
            }
            if is_gauge(reading.metric) {
                standing.insert((reading.role.clone(), reading.metric), reading.level);
            }
        });
    }

    /// The results by phase, and for the whole script.
    pub fn finish(self) -> (Vec<Vec<CgroupResult>>, Vec<CgroupResult>) {
        let unsupported = self.unsupported;
        let results = |part: BTreeMap<Role, Cgroup>| {
            // A watch without any change was read all the same: everything stood at 0.
            let roles: BTreeSet<Role> = part.keys().chain(unsupported.keys()).cloned().collect();
            let mut part = part;
            let result = |role: Role| {
                let Cgroup { grew, most, least, last } = part.remove(&role).unwrap_or_default();
                let unsupported = unsupported.get(&role).cloned().unwrap_or_default();
                CgroupResult { role, grew, most, least, last, unsupported }
            };
            roles.into_iter().map(result).collect::<Vec<_>>()
        };
        (self.phases.into_iter().map(results).collect(), results(self.whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Change;

    fn window(name: &str, start_ns: u64, end_ns: u64) -> Window {
        Window { name: name.into(), start_ns, end_ns, deadline: false }
    }

    fn watch(id: u16, role: Role, attempt: u32) -> Watch {
        Watch { id, role, cgroup: "/".into(), attempt, unsupported: vec![Metric::StatPswpin] }
    }

    fn tick(at_ns: u64, changes: &[(u16, Metric, i64)]) -> Tick {
        Tick { at_ns, changes: changes.iter().map(|&(watch, metric, delta)| Change { watch, metric, delta }).collect() }
    }

    #[test]
    fn counters_grow_over_restarts_and_gauges_belong_to_the_newest_start() {
        let windows = [window("a", 0, 10), window("b", 10, 20)];
        let role = Role::Container { pod: "p".into(), container: "c".into() };
        let mut memory = Memory::new(&windows);
        memory.watch(&watch(0, role.clone(), 0));
        memory.tick(&tick(5, &[(0, Metric::StatPgmajfault, 100), (0, Metric::MemoryCurrent, 900)]));
        memory.watch(&watch(1, role.clone(), 1));
        memory.tick(&tick(10, &[(1, Metric::StatPgmajfault, 7), (1, Metric::MemoryCurrent, 50), (0, Metric::MemoryCurrent, -1)]));
        memory.tick(&tick(15, &[(1, Metric::StatPgmajfault, 3)]));
        let (phases, whole) = memory.finish();
        assert_eq!(phases[0][0].grew[&Metric::StatPgmajfault], 107);
        assert_eq!(phases[1][0].grew[&Metric::StatPgmajfault], 3);
        assert_eq!(whole[0].grew[&Metric::StatPgmajfault], 110);
        assert_eq!((whole[0].most[&Metric::MemoryCurrent], phases[1][0].most[&Metric::MemoryCurrent]), (900, 50));
        assert!(whole[0].unsupported.contains(&Metric::StatPswpin));
    }

    #[test]
    fn the_node_s_first_reading_is_where_it_stands() {
        let windows = [window("a", 0, 10)];
        let mut memory = Memory::new(&windows);
        memory.watch(&watch(0, Role::Node, 0));
        memory.tick(&tick(1, &[(0, Metric::VmPgmajfault, 5000), (0, Metric::SwapFree, 1 << 20)]));
        memory.tick(&tick(2, &[(0, Metric::VmPgmajfault, 11), (0, Metric::VmPswpin, 3), (0, Metric::SwapFree, -4096)]));
        let (_, whole) = memory.finish();
        assert_eq!((whole[0].grew[&Metric::VmPgmajfault], whole[0].grew[&Metric::VmPswpin]), (11, 3));
        assert_eq!(whole[0].most[&Metric::SwapFree] - whole[0].least[&Metric::SwapFree], 4096);
    }
}
