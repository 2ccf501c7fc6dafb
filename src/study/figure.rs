//! Looking up a figure of a studied run by the name a lab gives it, and saying it in words.

use super::result::{ArmResult, CgroupResult, Distribution, LoadResult, PhaseResult};
use crate::lab::{Bytes, MetricName, MetricRef, Quantile, Unit};
use crate::record::{DeviceFacts, Metric, Role};

/// A figure.
#[derive(Debug, Clone, PartialEq)]
pub enum Figure {
    /// A number in the metric's unit: counts, bytes, nanoseconds, percent, per second.
    Number(f64),
    /// A control file's text.
    Text(String),
    /// It is not there, and why.
    Absent(String),
}

/// Looks up a figure in an arm.
#[must_use]
pub fn figure(arm: &ArmResult, metric: &MetricRef) -> Figure {
    let Some(phase) = arm.phase(metric.phase.as_deref()) else {
        return Figure::Absent(format!("the run stopped before phase {}", metric.phase.as_deref().unwrap_or_default()));
    };
    use MetricName::*;
    match metric.name {
        Busy => Figure::Number(arm.busy_ns as f64),
        Elapsed => Figure::Number(phase.length_ns() as f64),
        Drifted => Figure::Number(
            arm.phases.iter().filter_map(|p| p.ledger.as_ref()).map(|l| l.evidence.drifts.len()).sum::<usize>() as f64,
        ),
        Control => control(arm, phase, metric),
        GpuBusy | VramUsed | Reported => report(arm, phase, metric),
        SwapDeviceRead => device(arm, |device| device.random_read_ns),
        SwapDeviceRate => device(arm, |device| device.sequential_read_bps),
        AlertFired | AlertMissed | AlertLead => alert(arm, metric),
        OomKills | Exits | Restarts | BackOff | Outage => life(phase, metric),
        RequestsDue | RequestsOk | RequestsFailed | LatencyP50 | LatencyP90 | LatencyP99 | ServiceP50 | ServiceP90
        | ServiceP99 | TtftP50 | TtftP90 | TtftP99 | TpotP50 | TpotP90 | TpotP99 | Throughput | Goodput | SloMissed => {
            match phase.load(metric.load.as_deref()) {
                Some(load) => requests(load, phase, metric.name),
                None => Figure::Absent("no such request was sent".to_owned()),
            }
        }
        WorkingSet => match phase.cgroup(&Some(role(metric)).filter(|role| *role != Role::Node).unwrap_or(Role::Kubepods)) {
            Some(cgroup) => working_set(cgroup),
            None => Figure::Absent(format!("{} was not sampled", role(metric))),
        },
        _ => match phase.cgroup(&role(metric)) {
            Some(cgroup) => memory(cgroup, phase, metric.name, total_swap(arm)),
            None => Figure::Absent(format!("{} was not sampled", role(metric))),
        },
    }
}

fn role(metric: &MetricRef) -> Role {
    match (&metric.pod, &metric.container) {
        (Some(pod), Some(container)) => Role::Container { pod: pod.clone(), container: container.clone() },
        (Some(pod), None) => Role::Pod { pod: pod.clone() },
        _ => Role::Node,
    }
}

fn control(arm: &ArmResult, phase: &PhaseResult, metric: &MetricRef) -> Figure {
    // Without a phase the last snapshot counts.
    let ledger = phase.ledger.as_ref().or_else(|| arm.phases.iter().rev().find_map(|p| p.ledger.as_ref()));
    let file = metric.file.as_deref().unwrap_or_default();
    let found = ledger.and_then(|l| l.files.iter().find(|(r, _)| *r == role(metric))).and_then(|(_, files)| files.get(file));
    match found {
        Some(text) => Figure::Text(text.clone()),
        None => Figure::Absent(format!("{}/{file} was not there at the phase's end", role(metric))),
    }
}

fn device(arm: &ArmResult, of: impl Fn(&DeviceFacts) -> u64) -> Figure {
    let found = arm.swap_device.as_ref().map(|device| Figure::Number(of(device) as f64));
    found.unwrap_or_else(|| Figure::Absent("the arm has no swap device".to_owned()))
}

fn report(arm: &ArmResult, phase: &PhaseResult, metric: &MetricRef) -> Figure {
    let pod = metric.pod.as_deref().unwrap_or_default();
    let report = phase.reports.iter().find(|r| r.pod == pod);
    let value = report.and_then(|report| match metric.name {
        MetricName::GpuBusy => Some(report.grew.get("gpu_busy_s")? * 1e9 * 100.0 / report.span_ns as f64),
        MetricName::VramUsed => report.most.get("vram_used_bytes").copied(),
        _ => {
            let key = metric.key.as_deref()?;
            let scale = [("_us", 1e3), ("_ms", 1e6), ("_s", 1e9)].into_iter().find(|(unit, _)| key.ends_with(unit));
            Some(report.last.get(key)? * scale.map_or(1.0, |(_, scale)| scale))
        }
    });
    match value {
        Some(value) if value.is_finite() => Figure::Number(value),
        // A model server reports as soon as it listens: one that never did has used nothing of its device.
        _ if metric.name != MetricName::Reported && never_reported(arm, pod) => Figure::Number(0.0),
        _ => Figure::Absent(format!("pod {pod} reported no {}", metric.key.as_deref().unwrap_or(metric.name.text()))),
    }
}

fn never_reported(arm: &ArmResult, pod: &str) -> bool {
    arm.whole.lives.iter().any(|life| life.pod == pod && life.starts > 0) && arm.whole.reports.iter().all(|r| r.pod != pod)
}

fn alert(arm: &ArmResult, metric: &MetricRef) -> Figure {
    let Some(found) = arm.alerts.iter().find(|alert| Some(&alert.name) == metric.alert.as_ref()) else {
        return Figure::Absent("the alert was not evaluated".to_owned());
    };
    match (metric.name, found.lead_ns) {
        (MetricName::AlertFired, _) => Figure::Number(found.firings.len() as f64),
        (MetricName::AlertMissed, _) => Figure::Number(found.missed as f64),
        (_, Some(lead)) => Figure::Number(lead as f64),
        (_, None) => Figure::Absent("it preceded no kill".to_owned()),
    }
}

fn life(phase: &PhaseResult, metric: &MetricRef) -> Figure {
    let lives = phase.lives.iter().filter(|life| match (&metric.pod, &metric.container) {
        (Some(pod), container) => life.pod == *pod && life.container == *container,
        // The whole node: every pod once.
        (None, _) => life.container.is_none(),
    });
    // A pod that never started has no life; then nothing was killed either.
    let sum: u64 = lives
        .map(|life| match metric.name {
            MetricName::OomKills => life.oom_kills,
            MetricName::Exits => life.exits,
            MetricName::Restarts => life.restarts,
            MetricName::BackOff => life.back_off_ns,
            _ => life.outage_ns,
        })
        .sum();
    Figure::Number(sum as f64)
}

fn requests(load: &LoadResult, phase: &PhaseResult, name: MetricName) -> Figure {
    use MetricName::*;
    let percentile = |distribution: &Distribution| match name.quantile() {
        Some(quantile) => distribution.at(quantile).map_or_else(
            || Figure::Absent(format!("{} needs ten samples beyond it, there are {} in all", name.text(), distribution.count)),
            |ns| Figure::Number(ns as f64),
        ),
        None => Figure::Absent(format!("{} is no percentile", name.text())),
    };
    let seconds = phase.length_ns() as f64 / 1e9;
    match name {
        RequestsDue => Figure::Number(load.due as f64),
        RequestsOk => Figure::Number(load.ok() as f64),
        RequestsFailed => Figure::Number((load.due - load.ok()) as f64),
        Throughput => Figure::Number(load.tokens as f64 / seconds),
        Goodput => match load.good {
            Some(good) => Figure::Number(good as f64 / seconds),
            None => Figure::Absent("the load has no objective".to_owned()),
        },
        SloMissed => match load.good {
            Some(good) => Figure::Number((load.due - good) as f64 * 100.0 / load.due as f64),
            None => Figure::Absent("the load has no objective".to_owned()),
        },
        ServiceP50 | ServiceP90 | ServiceP99 => percentile(&load.service),
        TtftP50 | TtftP90 | TtftP99 => percentile(&load.ttft),
        TpotP50 | TpotP90 | TpotP99 => percentile(&load.tpot),
        _ => percentile(&load.latency),
    }
}

/// Never below 0, since the two are not read at one moment (`setMemoryStats` of cAdvisor).
fn working_set(cgroup: &CgroupResult) -> Figure {
    let last = |metric| cgroup.last.get(&metric).copied().unwrap_or(0);
    Figure::Number(last(Metric::MemoryCurrent).saturating_sub(last(Metric::StatInactiveFile)) as f64)
}

/// Swap that was free when the script began.
fn total_swap(arm: &ArmResult) -> u64 {
    arm.whole.cgroup(&Role::Node).and_then(|node| node.most.get(&Metric::SwapFree)).copied().unwrap_or(0)
}

fn memory(cgroup: &CgroupResult, phase: &PhaseResult, name: MetricName, total_swap: u64) -> Figure {
    use Metric::*;
    let node = cgroup.role == Role::Node;
    let by = |of_node: Option<Metric>, of_cgroup: Option<Metric>| if node { of_node } else { of_cgroup };
    let metric = match name {
        MetricName::MajorFaults => by(Some(VmPgmajfault), Some(StatPgmajfault)),
        MetricName::RefaultsAnon => by(None, Some(StatWorkingsetRefaultAnon)),
        MetricName::RefaultsFile => by(None, Some(StatWorkingsetRefaultFile)),
        MetricName::SwapIn => by(Some(VmPswpin), Some(StatPswpin)),
        MetricName::SwapOut => by(Some(VmPswpout), Some(StatPswpout)),
        MetricName::SwapPeak | MetricName::SwapEnd => by(Some(SwapFree), Some(MemorySwapCurrent)),
        MetricName::MemoryPeak => by(None, Some(MemoryCurrent)),
        MetricName::PressureSome => Some(PressureSomeUs),
        MetricName::PressureFull => Some(PressureFullUs),
        MetricName::CpuPressure => Some(CpuPressureSomeUs),
        MetricName::EventsMax => by(None, Some(EventsMax)),
        MetricName::LocalMax => by(None, Some(LocalMax)),
        MetricName::EventsHigh => by(None, Some(EventsHigh)),
        MetricName::EventsLow => by(None, Some(EventsLow)),
        _ => None,
    };
    let Some(metric) = metric else {
        return Figure::Absent(format!("{} is not counted for {}", name.text(), cgroup.role));
    };
    if cgroup.unsupported.contains(&metric) {
        return Figure::Absent(format!("unsupported: this kernel does not count {} for {}", name.text(), cgroup.role));
    }
    let grew = cgroup.grew.get(&metric).copied().unwrap_or(0) as f64;
    let most = cgroup.most.get(&metric).copied().unwrap_or(0);
    Figure::Number(match name.unit() {
        // A pressure total is in microseconds; percent of the phase.
        Unit::Percent if phase.length_ns() == 0 => 0.0,
        Unit::Percent => grew * 1000.0 * 100.0 / phase.length_ns() as f64,
        Unit::Bytes if name == MetricName::SwapEnd => match cgroup.last.get(&metric).copied().unwrap_or(0) {
            // As much as is no longer free since the script began.
            free if metric == SwapFree => total_swap.saturating_sub(free) as f64,
            used => used as f64,
        },
        // What the node uses is what is no longer free.
        Unit::Bytes if metric == SwapFree => (most - cgroup.least.get(&metric).copied().unwrap_or(most)) as f64,
        Unit::Bytes => most as f64,
        _ => grew,
    })
}

impl Distribution {
    /// A percentile, where there are enough samples for it.
    #[must_use]
    pub fn at(&self, quantile: Quantile) -> Option<u64> {
        match quantile {
            Quantile::P50 => self.p50,
            Quantile::P90 => self.p90,
            Quantile::P99 => self.p99,
        }
    }
}

impl Figure {
    /// The number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Figure::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// In words, with its unit.
    #[must_use]
    pub fn say(&self, unit: Unit) -> String {
        match self {
            Figure::Number(number) => say(*number, unit),
            Figure::Text(text) => text.clone(),
            Figure::Absent(why) => format!("none ({why})"),
        }
    }
}

/// A number with its unit, as short as three digits allow.
#[must_use]
pub fn say(number: f64, unit: Unit) -> String {
    match unit {
        Unit::Count => {
            let digits = format!("{number:.0}");
            let mut grouped = String::new();
            for (i, digit) in digits.chars().enumerate() {
                if i > 0 && (digits.len() - i) % 3 == 0 {
                    grouped.push(' ');
                }
                grouped.push(digit);
            }
            grouped
        }
        Unit::Bytes => {
            let exact = Bytes(number as u64).to_string();
            if exact.len() <= 5 {
                return exact;
            }
            let steps = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
            match steps.iter().find(|(size, _)| number >= *size as f64) {
                Some((size, unit)) => format!("{} {unit}", three(number / *size as f64)),
                None => format!("{number:.0} B"),
            }
        }
        Unit::Time => match number {
            n if n >= 1e9 => format!("{} s", three(n / 1e9)),
            n if n >= 1e6 => format!("{} ms", three(n / 1e6)),
            n if n >= 1e3 => format!("{} us", three(n / 1e3)),
            n => format!("{n:.0} ns"),
        },
        Unit::Percent => format!("{} %", three(number)),
        Unit::Rate => format!("{} MB/s", three(number / 1e6)),
        Unit::PerSecond => format!("{}/s", three(number)),
        Unit::Text => number.to_string(),
    }
}

/// Three digits that matter.
fn three(number: f64) -> String {
    match number {
        n if n >= 100.0 || n == 0.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_said_with_their_unit() {
        for (number, unit, text) in [
            (0.0, Unit::Count, "0"),
            (1234567.0, Unit::Count, "1 234 567"),
            (33554432.0, Unit::Bytes, "32Mi"),
            (1610612736.0, Unit::Bytes, "1.50 GiB"),
            (1234.0, Unit::Bytes, "1234"),
            (1.5e9, Unit::Time, "1.50 s"),
            (123.4e6, Unit::Time, "123 ms"),
            (12.34, Unit::Percent, "12.3 %"),
        ] {
            assert_eq!(say(number, unit), text);
        }
    }
}
