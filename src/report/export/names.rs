//! The names users know for what is sampled, as node exporter and the kubelet's /metrics/cadvisor write them.

use crate::record::{Metric, Role};
use crate::study::Stood;

/// What a family is to Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A level.
    Gauge,
    /// A count since the cgroup was made; its samples end in `_total`.
    Counter,
    /// A count that its exporter gives no type.
    Unknown,
}

/// How a value comes from what is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// The metric itself.
    Plain(Metric),
    /// Microseconds, as seconds.
    Seconds(Metric),
    /// `memory.current` without inactive file pages, as cAdvisor computes it.
    WorkingSet,
    /// The container's limit in this file, as planned; 0 where nothing limits.
    Limit(&'static str),
    /// The node's memory, as planned with.
    NodeMemory,
    /// The node's swap, as planned with.
    NodeSwap,
}

/// A family.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// Its name, of a counter without `_total`.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// What it says.
    pub help: &'static str,
    /// Whether it is about the node.
    pub node: bool,
    /// A label of its own.
    pub label: Option<(&'static str, &'static str)>,
    /// Where its value comes from.
    pub value: Value,
}

const fn of(node: bool, name: &'static str, kind: Kind, value: Value, help: &'static str) -> Family {
    Family { name, kind, help, node, label: None, value }
}

const fn fault(label: &'static str, metric: Metric) -> Family {
    let help = "Page faults since the cgroup was made.";
    Family {
        label: Some(("failure_type", label)),
        ..of(false, "container_memory_failures", Kind::Counter, Value::Plain(metric), help)
    }
}

use Kind::{Counter, Gauge, Unknown};
use Metric as M;
use Value::{Limit, NodeMemory, NodeSwap, Plain, Seconds, WorkingSet};

/// Every exported family; rows of one name stand together. Container names: google/cadvisor metrics/prometheus.go, for cgroup v2. Node
/// names: node exporter, from /proc/meminfo, /proc/vmstat and /proc/pressure.
pub const FAMILIES: [Family; 32] = [
    of(false, "container_cpu_usage_seconds", Counter, Seconds(M::CpuUsageUs), "CPU time (cpu.stat usage_usec)."),
    of(false, "container_memory_cache", Gauge, Plain(M::StatFile), "Page cache in bytes (memory.stat file)."),
    fault("pgfault", M::StatPgfault),
    fault("pgmajfault", M::StatPgmajfault),
    of(false, "container_memory_kernel_usage", Gauge, Plain(M::StatKernel), "Kernel memory in bytes (memory.stat kernel)."),
    of(false, "container_memory_rss", Gauge, Plain(M::StatAnon), "Anonymous memory in bytes (memory.stat anon)."),
    of(false, "container_memory_swap", Gauge, Plain(M::MemorySwapCurrent), "Swap in bytes (memory.swap.current)."),
    of(false, "container_memory_usage_bytes", Gauge, Plain(M::MemoryCurrent), "All memory in bytes (memory.current)."),
    of(false, "container_memory_working_set_bytes", Gauge, WorkingSet, "memory.current without inactive file pages, in bytes."),
    of(false, "container_oom_events", Counter, Plain(M::EventsOomKill), "OOM kills (memory.events oom_kill)."),
    of(
        false,
        "container_pressure_cpu_waiting_seconds",
        Counter,
        Seconds(M::CpuPressureSomeUs),
        "Time some task waited for a CPU.",
    ),
    of(false, "container_pressure_io_stalled_seconds", Counter, Seconds(M::IoPressureFullUs), "Time every task waited for I/O."),
    of(false, "container_pressure_io_waiting_seconds", Counter, Seconds(M::IoPressureSomeUs), "Time some task waited for I/O."),
    of(
        false,
        "container_pressure_memory_stalled_seconds",
        Counter,
        Seconds(M::PressureFullUs),
        "Time every task waited for memory.",
    ),
    of(
        false,
        "container_pressure_memory_waiting_seconds",
        Counter,
        Seconds(M::PressureSomeUs),
        "Time some task waited for memory.",
    ),
    of(false, "container_spec_memory_limit_bytes", Gauge, Limit("memory.max"), "memory.max as planned; 0 is no limit."),
    of(
        false,
        "container_spec_memory_swap_limit_bytes",
        Gauge,
        Limit("memory.swap.max"),
        "memory.swap.max as planned; 0 is no limit.",
    ),
    of(true, "node_memory_Cached_bytes", Gauge, Plain(M::Cached), "Page cache in bytes (/proc/meminfo)."),
    of(true, "node_memory_MemAvailable_bytes", Gauge, Plain(M::MemAvailable), "Available memory in bytes (/proc/meminfo)."),
    of(true, "node_memory_MemFree_bytes", Gauge, Plain(M::MemFree), "Free memory in bytes (/proc/meminfo)."),
    of(true, "node_memory_MemTotal_bytes", Gauge, NodeMemory, "The node's memory in bytes, as planned with."),
    of(true, "node_memory_SwapFree_bytes", Gauge, Plain(M::SwapFree), "Free swap in bytes (/proc/meminfo)."),
    of(true, "node_memory_SwapTotal_bytes", Gauge, NodeSwap, "The node's swap in bytes, as planned with."),
    of(true, "node_pressure_cpu_waiting_seconds", Counter, Seconds(M::CpuPressureSomeUs), "Time some task waited for a CPU."),
    of(true, "node_pressure_io_stalled_seconds", Counter, Seconds(M::IoPressureFullUs), "Time every task waited for I/O."),
    of(true, "node_pressure_io_waiting_seconds", Counter, Seconds(M::IoPressureSomeUs), "Time some task waited for I/O."),
    of(true, "node_pressure_memory_stalled_seconds", Counter, Seconds(M::PressureFullUs), "Time every task waited for memory."),
    of(true, "node_pressure_memory_waiting_seconds", Counter, Seconds(M::PressureSomeUs), "Time some task waited for memory."),
    of(true, "node_vmstat_oom_kill", Unknown, Plain(M::VmOomKill), "OOM kills since boot (/proc/vmstat)."),
    of(true, "node_vmstat_pgmajfault", Unknown, Plain(M::VmPgmajfault), "Major faults since boot (/proc/vmstat)."),
    of(true, "node_vmstat_pswpin", Unknown, Plain(M::VmPswpin), "Pages read from swap since boot (/proc/vmstat)."),
    of(true, "node_vmstat_pswpout", Unknown, Plain(M::VmPswpout), "Pages written to swap since boot (/proc/vmstat)."),
];

impl Family {
    /// The name of its samples.
    #[must_use]
    pub fn sample(&self) -> String {
        if self.kind == Counter { format!("{}_total", self.name) } else { self.name.to_owned() }
    }

    /// Its value for a cgroup at one moment; none where the kernel does not have it or it was never read.
    #[must_use]
    pub fn value(&self, role: &Role, standing: &Stood, limits: &dyn Fn(&Role, &str) -> u64, node: (u64, u64)) -> Option<f64> {
        if self.node != (*role == Role::Node) {
            return None;
        }
        // What never changed from 0 is 0, once anything was read.
        let read = |metric| {
            let known = !standing.values.is_empty() && !standing.unsupported.contains(&metric);
            known.then(|| standing.values.get(&metric).copied().unwrap_or(0))
        };
        Some(match self.value {
            Plain(metric) => read(metric)? as f64,
            Seconds(metric) => read(metric)? as f64 / 1e6,
            WorkingSet => read(M::MemoryCurrent)?.saturating_sub(read(M::StatInactiveFile)?) as f64,
            Limit(file) => limits(role, file) as f64,
            NodeMemory => node.0 as f64,
            NodeSwap => node.1 as f64,
        })
    }
}
