//! What is read of devices and of the servers on them: the names of dcgm-exporter and of vLLM, whose they are, and which values they can have.

use serde::Serialize;
use std::collections::BTreeMap;

/// The query whose range answer is read.
pub const QUERY: &str = r#"{__name__=~"DCGM_FI_DEV_(GPU_UTIL|FB_USED|FB_FREE)|DCGM_FI_PROF_(GR_ENGINE|SM)_ACTIVE|vllm:num_requests_waiting|vllm:kv_cache_usage_perc|vllm:time_to_first_token_seconds_(sum|count)"}"#;

/// What a series says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// Percent of the sampling period in which any kernel ran (NVML's utilization).
    Utilization,
    /// Share of time in which the graphics or compute engine was active.
    EngineActive,
    /// Share of cycles with a warp on a multiprocessor, over all of them.
    SmActive,
    /// Cumulative kernel time in seconds, of the modelled device only.
    BusySeconds,
    /// Memory that is allocated; the unit is that of `MemoryFree`.
    MemoryUsed,
    /// Memory that is not.
    MemoryFree,
    /// Requests that wait.
    Waiting,
    /// Share of the KV cache that is in use, from 0 to 1.
    KvUsage,
    /// Cumulative seconds to the first token.
    TtftSum,
    /// Requests that had a first token.
    TtftCount,
}

use Signal::{BusySeconds, EngineActive, KvUsage, MemoryFree, MemoryUsed, SmActive, TtftCount, TtftSum, Utilization, Waiting};

/// Names as dcgm-exporter's default counters and vLLM 0.33 have them; ours are those of the modelled device.
const NAMES: [(&str, Signal); 10] = [
    ("DCGM_FI_DEV_GPU_UTIL", Utilization),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", EngineActive),
    ("DCGM_FI_PROF_SM_ACTIVE", SmActive),
    ("DCGM_FI_DEV_FB_USED", MemoryUsed),
    ("DCGM_FI_DEV_FB_FREE", MemoryFree),
    ("highwater_gpu_busy_seconds_total", BusySeconds),
    ("vllm:num_requests_waiting", Waiting),
    ("vllm:kv_cache_usage_perc", KvUsage),
    ("vllm:time_to_first_token_seconds_sum", TtftSum),
    ("vllm:time_to_first_token_seconds_count", TtftCount),
];

impl Signal {
    /// The signal of a metric's name, if it is one.
    pub fn of(name: &str) -> Option<Signal> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal)
    }

    /// Whether it is the device's and not the server's.
    pub fn is_device(self) -> bool {
        matches!(self, Utilization | EngineActive | SmActive | BusySeconds | MemoryUsed | MemoryFree)
    }

    /// A value as it is written, if it can be one.
    pub fn value(self, text: &str) -> Result<f64, String> {
        let value: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
        let most = match self {
            Utilization => 100.0,
            EngineActive | SmActive | KvUsage => 1.0,
            _ => f64::MAX,
        };
        match (0.0..=most).contains(&value) {
            true => Ok(value),
            false if most < f64::MAX => Err(format!("{text} is not between 0 and {most}")),
            false => Err(format!("{text} is no finite number from 0 on")),
        }
    }
}

/// A device or a part of one, in one pod's hands or in nobody's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gpu {
    /// The pod that holds it, as namespace/pod.
    pub pod: Option<String>,
    /// The node.
    pub host: Option<String>,
    /// Its UUID, else its index; none where only the server was seen.
    pub id: Option<String>,
    /// The product's name.
    pub model: Option<String>,
    /// The MIG instance's profile and number.
    pub instance: Option<String>,
    /// Which replica of a time-sliced device.
    pub replica: Option<String>,
}

/// Values by time, in milliseconds.
pub type Points = BTreeMap<i64, f64>;

/// What was read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Samples {
    /// Device by device.
    pub gpus: BTreeMap<Gpu, BTreeMap<Signal, Points>>,
    /// Server by server (namespace/pod); a pod may have an engine for each data-parallel rank.
    pub engines: BTreeMap<String, BTreeMap<(Signal, String), Points>>,
    /// Series of other metrics, which are left out.
    pub others: usize,
}

type Labels = BTreeMap<String, String>;

/// Whether a scrape renamed the exporter's own labels `pod` and `namespace`, as Prometheus does without `honorLabels`: then the plain ones
/// name the exporter's pod and not the one that holds the device.
pub fn renamed<'a>(mut series: impl Iterator<Item = &'a Labels>) -> bool {
    series.any(|labels| labels.contains_key("exported_pod"))
}

impl Samples {
    /// The points of a series, to be filled. `pod` is whose server was scraped, where the labels do not say it.
    ///
    /// # Errors
    /// Nothing says whose it is.
    pub fn points(&mut self, signal: Signal, labels: &Labels, renamed: bool, pod: Option<&str>) -> Result<&mut Points, String> {
        let label = |name: &str| labels.get(name).filter(|value| !value.is_empty()).cloned();
        let prefix = if signal.is_device() && renamed { "exported_" } else { "" };
        let named = label(&format!("{prefix}pod"))
            .map(|pod| label(&format!("{prefix}namespace")).map_or(pod.clone(), |namespace| format!("{namespace}/{pod}")))
            .or_else(|| if signal == BusySeconds || !signal.is_device() { pod.map(str::to_owned) } else { None });
        if !signal.is_device() {
            let pod = named.ok_or("a server without the label pod: whose it is must be known")?;
            let rank = ["model_name", "engine"].map(|name| label(name).unwrap_or_default()).join("/");
            return Ok(self.engines.entry(pod).or_default().entry((signal, rank)).or_default());
        }
        let modelled = (signal == BusySeconds).then(|| "modelled".to_owned());
        let id = label("UUID").or_else(|| label("gpu")).or(modelled).ok_or("a device without the labels UUID and gpu")?;
        let instance = label("GPU_I_PROFILE").map(|profile| match label("GPU_I_ID") {
            Some(number) => format!("{profile} ({number})"),
            None => profile,
        });
        let (host, model) = (label("Hostname"), label("modelName"));
        let gpu = Gpu { pod: named, host, id: Some(id), model, instance, replica: label("vgpu") };
        Ok(self.gpus.entry(gpu).or_default().entry(signal).or_default())
    }
}
