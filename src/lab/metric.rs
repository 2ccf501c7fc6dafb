//! The figures that expectations, acceptance rules and claims can name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A count.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds of virtual time.
    Time,
    /// Percent of the phase's time.
    Percent,
    /// Per second.
    PerSecond,
    /// Bytes per second.
    Rate,
    /// A control file's text.
    Text,
}

/// Which quantile of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Quantile {
    P50,
    P90,
    P99,
}

impl Quantile {
    /// From 0 to 1.
    #[must_use]
    pub fn share(self) -> f64 {
        match self {
            Quantile::P50 => 0.50,
            Quantile::P90 => 0.90,
            Quantile::P99 => 0.99,
        }
    }
}

/// What a figure is about, and so which fields name its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Requests of one load or of all.
    Requests,
    /// A pod's or container's cgroup, or the node when none is named.
    Memory,
    /// A pod's or container's life.
    Life,
    /// What a pod's workload reported of itself.
    Report,
    /// A control file of the ledger.
    Control,
    /// An alert of the lab.
    Alert,
    /// The whole arm.
    Arm,
}

macro_rules! metrics {
    ($($(#[doc = $doc:literal])+ $name:ident $text:literal $unit:ident $subject:ident;)+) => {
        /// A figure's name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
        pub enum MetricName {
            $($(#[doc = $doc])+ #[serde(rename = $text)] $name,)+
        }

        impl MetricName {
            /// Every figure.
            pub const ALL: &[MetricName] = &[$(MetricName::$name),+];

            /// The name as it is typed.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(MetricName::$name => $text,)+ }
            }

            /// Its unit.
            #[must_use]
            pub fn unit(self) -> Unit {
                match self { $(MetricName::$name => Unit::$unit,)+ }
            }

            /// What it is about.
            #[must_use]
            pub fn subject(self) -> Subject {
                match self { $(MetricName::$name => Subject::$subject,)+ }
            }
        }
    };
}

metrics! {
    /// Requests that were due.
    RequestsDue "requests.due" Count Requests;
    /// Requests that were served.
    RequestsOk "requests.ok" Count Requests;
    /// Requests that were not served, for whatever reason.
    RequestsFailed "requests.failed" Count Requests;
    /// Latency from the scheduled time, median.
    LatencyP50 "latency.p50" Time Requests;
    /// Latency from the scheduled time, 90th percentile.
    LatencyP90 "latency.p90" Time Requests;
    /// Latency from the scheduled time, 99th percentile.
    LatencyP99 "latency.p99" Time Requests;
    /// Latency from the send, median.
    ServiceP50 "service.p50" Time Requests;
    /// Latency from the send, 90th percentile.
    ServiceP90 "service.p90" Time Requests;
    /// Latency from the send, 99th percentile.
    ServiceP99 "service.p99" Time Requests;
    /// Time to the first token from the scheduled time, median.
    TtftP50 "ttft.p50" Time Requests;
    /// Time to the first token from the scheduled time, 90th percentile.
    TtftP90 "ttft.p90" Time Requests;
    /// Time to the first token from the scheduled time, 99th percentile.
    TtftP99 "ttft.p99" Time Requests;
    /// Mean time per token after the first, median over requests.
    TpotP50 "tpot.p50" Time Requests;
    /// Mean time per token after the first, 90th percentile over requests.
    TpotP90 "tpot.p90" Time Requests;
    /// Mean time per token after the first, 99th percentile over requests.
    TpotP99 "tpot.p99" Time Requests;
    /// Tokens received per second of the phase.
    Throughput "throughput" PerSecond Requests;
    /// Requests served within their service level objective per second of the phase.
    Goodput "goodput" PerSecond Requests;
    /// Share of due requests that were not served within their service level objective. A P99 within it means at most 1.
    SloMissed "slo.missed" Percent Requests;
    /// Containers the OOM killer ended.
    OomKills "oomKills" Count Life;
    /// Containers that ended.
    Exits "exits" Count Life;
    /// Containers that were started again.
    Restarts "restarts" Count Life;
    /// Time restarts were held back.
    BackOff "backOff" Time Life;
    /// Time between the first start and the end in which no container of the pod was ready.
    Outage "outage" Time Life;
    /// Faults that had to read from a device.
    MajorFaults "majorFaults" Count Memory;
    /// Anonymous pages that came back soon after they were evicted.
    RefaultsAnon "refaults.anon" Count Memory;
    /// File pages that came back soon after they were evicted.
    RefaultsFile "refaults.file" Count Memory;
    /// Pages read from swap. By cgroup only where the kernel counts it so.
    SwapIn "swapIn" Count Memory;
    /// Pages written to swap. By cgroup only where the kernel counts it so.
    SwapOut "swapOut" Count Memory;
    /// Most swap used.
    SwapPeak "swapPeak" Bytes Memory;
    /// Swap used at the end.
    SwapEnd "swapEnd" Bytes Memory;
    /// Most memory used, swap apart.
    MemoryPeak "memoryPeak" Bytes Memory;
    /// Working set at the end as the kubelet computes it, memory used less inactive_file. The node's is that of all pods, which the
    /// eviction signal allocatableMemory.available is taken from.
    WorkingSet "workingSet" Bytes Memory;
    /// Share of the phase in which some task waited for memory.
    PressureSome "pressure.some" Percent Memory;
    /// Share of the phase in which all tasks waited for memory.
    PressureFull "pressure.full" Percent Memory;
    /// Share of the phase in which some task waited for the CPU.
    CpuPressure "cpuPressure.some" Percent Memory;
    /// Times the cgroup or one below it hit its memory.max.
    EventsMax "events.max" Count Memory;
    /// Times the cgroup itself hit its memory.max.
    LocalMax "localEvents.max" Count Memory;
    /// Times the cgroup or one below it was throttled over memory.high.
    EventsHigh "events.high" Count Memory;
    /// Times the cgroup was reclaimed below its memory.low.
    EventsLow "events.low" Count Memory;
    /// Share of the time in which the modelled GPU of a pod ran kernels.
    GpuBusy "gpu.busy" Percent Report;
    /// Most memory of its modelled GPU that a pod held.
    VramUsed "vram.used" Bytes Report;
    /// The latest value that a pod's workload reported under the name `key`, in the unit that the key ends in.
    Reported "report" Count Report;
    /// The control file named by `file`, as text.
    Control "control" Text Control;
    /// Times an alert began to fire.
    AlertFired "alert.fired" Count Alert;
    /// OOM kills before which an alert had not fired since the kill before; of its own container, for an alert about containers.
    AlertMissed "alert.missed" Count Alert;
    /// The shortest time from an alert's firing to the OOM kill it preceded, in the lab's time.
    AlertLead "alert.lead" Time Alert;
    /// Control files that differ from what the kubelet of this version writes.
    Drifted "ledger.drifted" Count Arm;
    /// How long the phase took: what a job needs, when the phase ends with it.
    Elapsed "elapsed" Time Arm;
    /// Time of one random 4 KiB read from the arm's first swap device, as measured before the arm began.
    SwapDeviceRead "swapDevice.read" Time Arm;
    /// Sequential reads from the arm's first swap device, as measured before the arm began.
    SwapDeviceRate "swapDevice.rate" Rate Arm;
    /// Busy virtual time of the arm.
    Busy "busy" Time Arm;
}

impl MetricName {
    /// The quantile, for those that are one.
    #[must_use]
    pub fn quantile(self) -> Option<Quantile> {
        match self.text().rsplit_once('.')?.1 {
            "p50" => Some(Quantile::P50),
            "p90" => Some(Quantile::P90),
            "p99" => Some(Quantile::P99),
            _ => None,
        }
    }
}
