//! Memory by kind, upwards, against its limits, and swap, downwards, against its own: all pods of an arm together, and pod by pod.

use super::chart::{Chart, Draw, Level, Series, binary_top};
use super::events::marks;
use super::figures::{BYTES, Figure, arm, class, end, index, phases, sum};
use super::{ArmRecords, Subject};
use crate::lab::Unit;
use crate::record::{Metric, Plan, Role};
use crate::study::{Curves, say};
use std::collections::BTreeMap;

/// Pods drawn one by one at most; the largest are.
const MOST_PODS: usize = 12;

/// Pods of an arm one by one.
#[derive(Debug, Clone)]
pub struct ByPod {
    /// The arm.
    pub arm: String,
    /// The largest pods, by name.
    pub figures: Vec<Figure>,
    /// How many others are left out.
    pub more: usize,
}

/// All pods of an arm; every arm on the same axes.
#[must_use]
pub fn memory(subject: &Subject<'_>) -> Vec<Figure> {
    let panels = subject.arms.iter().map(|ArmRecords { name, curves, .. }| Panel {
        arm: name.clone(),
        title: name.clone(),
        kinds: Kinds::of(curves, None),
        limits: limits(subject, name, None),
    });
    draw(subject, panels.collect(), 170.0)
}

/// Pod by pod, where an arm has several.
#[must_use]
pub fn by_pod(subject: &Subject<'_>) -> Vec<ByPod> {
    let arm = |ArmRecords { name, curves, .. }: &ArmRecords| {
        let roles = curves.list.iter().filter(|c| c.metric == Metric::MemoryCurrent).map(|c| &c.role);
        let panel = |role: &Role| Panel {
            arm: name.clone(),
            title: role.to_string(),
            kinds: Kinds::of(curves, Some(role)),
            limits: limits(subject, name, Some(role)),
        };
        let mut panels: Vec<_> = roles.map(panel).collect();
        if panels.len() < 2 {
            return None;
        }
        panels.sort_by(|a, b| b.kinds.most().total_cmp(&a.kinds.most()).then_with(|| a.title.cmp(&b.title)));
        let more = panels.len().saturating_sub(MOST_PODS);
        panels.truncate(MOST_PODS);
        panels.sort_by(|a, b| a.title.cmp(&b.title));
        Some(ByPod { arm: name.clone(), figures: draw(subject, panels, 90.0), more })
    };
    subject.arms.iter().filter_map(arm).collect()
}

struct Panel {
    arm: String,
    title: String,
    kinds: Kinds,
    limits: Vec<Limit>,
}

struct Limit {
    file: &'static str,
    value: u64,
    by: Role,
}

fn draw(subject: &Subject<'_>, panels: Vec<Panel>, height: f64) -> Vec<Figure> {
    let most = |of: fn(&Kinds) -> f64| panels.iter().map(|p| of(&p.kinds)).fold(0.0, f64::max);
    let (used, swapped) = (most(Kinds::most_memory), most(Kinds::most_swap));
    // A limit far above all use would flatten everything: it is named in words instead.
    let near = |below: bool, used: f64| {
        let limits = panels.iter().flat_map(|p| &p.limits).filter(move |l| l.below() == below).map(|l| l.value as f64);
        limits.filter(|v| *v <= used * 2.0).fold(used, f64::max)
    };
    let top = binary_top(near(false, used) * 1.08);
    let below = if swapped > 0.0 { near(true, swapped) * 1.15 } else { 0.0 };
    let last = panels.len().saturating_sub(1);
    let figure = |(i, panel): (usize, Panel)| {
        let result = arm(subject, &panel.arm)?;
        let own = class(index(subject, &panel.arm));
        let words: Vec<_> = panel.limits.iter().map(Limit::words).collect();
        let limits = if words.is_empty() { "no limit".to_owned() } else { words.join(", ") };
        let level = |l: &Limit| Level { label: l.words(), value: l.value as f64, below: l.below() };
        let chart = Chart {
            title: format!("Memory by kind and swap over time, {} in arm {}; {limits}", panel.title, panel.arm),
            levels: panel.limits.iter().filter(|l| l.value > 0).map(level).collect(),
            series: panel.kinds.series(&own),
            moments: &marks(subject, result),
            phases: &phases(result),
            end_ns: end(subject),
            top,
            below,
            height,
            scale: BYTES,
            axis: i == last,
        };
        Some(Figure { title: panel.title, class: own, svg: chart.svg(), note: limits })
    };
    panels.into_iter().enumerate().filter_map(figure).collect()
}

impl Limit {
    fn below(&self) -> bool {
        self.file == "memory.swap.max"
    }

    fn words(&self) -> String {
        format!("{} {} of {}", self.file, say(self.value as f64, Unit::Bytes), self.by)
    }
}

/// The limits that bound what is drawn: of a pod and, where it has one container only, that container; without a pod, of the only pod, or
/// of the cgroup above all of them.
fn limits(subject: &Subject<'_>, arm: &str, pod: Option<&Role>) -> Vec<Limit> {
    let Some(ArmRecords { plan, .. }) = subject.arm(arm) else { return Vec::new() };
    let mut pods = plan.cgroups.iter().map(|c| &c.role).filter(|r| matches!(r, Role::Pod { .. }));
    let only = match (pods.next(), pods.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    };
    let Some(role) = pod.or(only) else { return smallest(plan, &[&Role::Kubepods]) };
    let Role::Pod { pod: name } = role else { return Vec::new() };
    let containers: Vec<_> =
        plan.cgroups.iter().map(|c| &c.role).filter(|r| matches!(r, Role::Container { pod, .. } if pod == name)).collect();
    match containers[..] {
        [container] => smallest(plan, &[role, container]),
        _ => smallest(plan, &[role]),
    }
}

fn smallest(plan: &Plan, roles: &[&Role]) -> Vec<Limit> {
    let of = |file: &'static str| {
        let limit = |role: &&Role| {
            let value = plan.cgroup(role)?.value(file)?.parse().ok()?;
            Some(Limit { file, value, by: (*role).clone() })
        };
        roles.iter().filter_map(limit).min_by_key(|limit| limit.value)
    };
    ["memory.high", "memory.max", "memory.swap.max"].into_iter().filter_map(of).collect()
}

/// Memory by kind over time; the kinds together are `memory.current`.
struct Kinds {
    anon: Vec<(u64, f64)>,
    file: Vec<(u64, f64)>,
    rest: Vec<(u64, f64)>,
    swap: Vec<(u64, f64)>,
}

impl Kinds {
    fn of(curves: &Curves, role: Option<&Role>) -> Kinds {
        let of = |metric| sum(curves, metric, role);
        let (current, swap) = (of(Metric::MemoryCurrent), of(Metric::MemorySwapCurrent));
        let [anon, file] = [Metric::StatAnon, Metric::StatFile].map(|m| of(m).into_iter().collect::<BTreeMap<_, _>>());
        let mut kinds = Kinds { anon: vec![], file: vec![], rest: vec![], swap };
        for (at, whole) in current {
            // Files of one cgroup are read one after the other, and each point is the largest of its stretch.
            let anon = anon.get(&at).map_or(0.0, |v| v.min(whole));
            let file = file.get(&at).map_or(0.0, |v| v.min(whole - anon));
            kinds.anon.push((at, anon));
            kinds.file.push((at, file));
            kinds.rest.push((at, whole - anon - file));
        }
        kinds
    }

    fn most_memory(&self) -> f64 {
        let whole = self.anon.iter().zip(&self.file).zip(&self.rest).map(|((a, f), r)| a.1 + f.1 + r.1);
        whole.fold(0.0, f64::max)
    }

    fn most_swap(&self) -> f64 {
        self.swap.iter().map(|p| p.1).fold(0.0, f64::max)
    }

    fn most(&self) -> f64 {
        self.most_memory() + self.most_swap()
    }

    fn series(self, arm: &str) -> Vec<Series> {
        let series = |name: &str, class: String, points, draw| Series { name: name.into(), class, points, draw };
        vec![
            series("anonymous", arm.to_owned(), self.anon, Draw::Stack),
            series("files", format!("{arm} files"), self.file, Draw::Stack),
            series("other", "rest".into(), self.rest, Draw::Stack),
            series("swap", "swap".into(), self.swap, Draw::Below),
        ]
    }
}
