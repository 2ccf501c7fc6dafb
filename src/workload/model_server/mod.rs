//! A model server in the shape of vLLM: weights and KV cache in the modelled GPU, continuous batching, a CPU tier for the cache in two
//! variants, a host runtime that is really touched, OpenAI completions and `/metrics`.

mod blocks;
mod engine;
mod metrics;
mod offload;
mod pool;
mod runtime;
mod scheduler;
mod sequence;
mod tiers;

use super::gpu::{Device, Link, Roofline, rest};
use super::memory::{Block, seed};
use super::{Args, ArgsError, WorkloadError, report, server, signals, system};
use engine::{Engine, Shared};
use metrics::Fixed;
use pool::{Pool, PoolSettings};
use runtime::{Runtime, RuntimeSettings};
use scheduler::Limits;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Settings of `model-server`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    vram: u64,
    utilization: f64,
    weights: u64,
    staging: usize,
    kv_per_token: usize,
    block_tokens: u32,
    batched_tokens: u32,
    sequences: u32,
    max_model_len: u32,
    roofline: Roofline,
    link: Link,
    pool: PoolSettings,
    runtime: RuntimeSettings,
    port: u16,
    model: String,
    legacy: bool,
    report_every: Duration,
}

impl Settings {
    /// The modelled GPU: `--vram` `--gpu-memory-utilization` (0.92) `--weights` `--kv-per-token` (bytes of cache a token takes) ·
    /// `--decode-base` (a step's time to read the weights, 20ms) `--decode-per-seq` (100us) `--prefill-rate` (tokens a second, 8000) `--link`
    /// (bytes a second to the host, 25G) · The engine: `--block-size` (16) `--max-num-batched-tokens` (2048) `--max-num-seqs` (128)
    /// `--max-model-len` (what the cache holds, at most 4096). · The host: `--staging` (a buffer through which the weights are loaded, then
    /// given back, 4Mi), the settings of the CPU tier and of the runtime. · `--port` (8000) `--model` `--legacy-metrics=off|on`
    /// `--report-every` (1s; a line of figures).
    pub(super) fn parse(mut args: Args) -> Result<Settings, ArgsError> {
        let pool = PoolSettings::parse(&mut args)?;
        let runtime = RuntimeSettings::parse(&mut args)?;
        let number = |value: Option<u64>, default: u32| value.map_or(default, |n| u32::try_from(n).unwrap_or(u32::MAX));
        let settings = Settings {
            vram: args.required_size("vram")? as u64,
            utilization: args.share("gpu-memory-utilization")?.unwrap_or(0.92),
            weights: args.required_size("weights")? as u64,
            staging: args.size("staging")?.unwrap_or(4 << 20),
            kv_per_token: args.required_size("kv-per-token")?.max(1),
            block_tokens: number(args.number("block-size", 1)?, 16),
            batched_tokens: number(args.number("max-num-batched-tokens", 1)?, 2048),
            sequences: number(args.number("max-num-seqs", 1)?, 128),
            max_model_len: number(args.number("max-model-len", 1)?, 4096),
            roofline: Roofline {
                base: args.duration("decode-base")?.unwrap_or(Duration::from_millis(20)),
                per_sequence: args.duration("decode-per-seq")?.unwrap_or(Duration::from_micros(100)),
                tokens_per_s: args.number("prefill-rate", 1)?.unwrap_or(8000),
            },
            link: Link { bytes_per_s: args.size("link")?.unwrap_or(25_000_000_000).max(1) as u64 },
            pool,
            runtime,
            port: u16::try_from(args.number("port", 1)?.unwrap_or(8000)).unwrap_or(u16::MAX),
            model: args.text("model")?.unwrap_or_else(|| "highwater".to_owned()),
            legacy: args.word("legacy-metrics", &["off", "on"])? == "on",
            report_every: args.duration("report-every")?.unwrap_or(Duration::from_secs(1)),
        };
        args.finish()?;
        Ok(settings)
    }

    // What the weights leave of the device's share is cache.
    fn limits(&self) -> Result<Limits, WorkloadError> {
        let block_bytes = self.kv_per_token * self.block_tokens as usize;
        let room = ((self.vram as f64 * self.utilization) as u64).saturating_sub(self.weights);
        let blocks = u32::try_from(room / block_bytes as u64).unwrap_or(u32::MAX);
        if blocks == 0 {
            return Err(WorkloadError::Unfit {
                workload: "model-server",
                problem: format!(
                    "no available memory for the cache blocks: {} bytes of {} are left beside the weights, a block takes {block_bytes}; \
                     raise --vram or --gpu-memory-utilization",
                    room, self.vram
                ),
            });
        }
        Ok(Limits {
            blocks,
            block_tokens: self.block_tokens,
            batched_tokens: self.batched_tokens,
            sequences: self.sequences,
            tier: self.pool.tier(block_bytes),
        })
    }

    fn fixed(&self, limits: &Limits) -> Fixed {
        let holds = limits.blocks.saturating_mul(limits.block_tokens);
        let (offloading, backend) = match self.pool.offloading() {
            Some((bytes, backend)) => (format!("{:.4}", bytes as f64 / f64::from(1 << 30)), backend),
            None => ("None".to_owned(), "None"),
        };
        let host = match limits.tier {
            scheduler::HostTier::SwapPool(slots) => slots,
            _ => 0,
        };
        Fixed {
            model: self.model.clone(),
            max_model_len: self.max_model_len.min(holds),
            cache_config: format!(
                r#"block_size="{}",num_gpu_blocks="{}",num_cpu_blocks="{host}",gpu_memory_utilization="{}",cache_dtype="auto",enable_prefix_caching="False",kv_offloading_size="{offloading}",kv_offloading_backend="{backend}""#,
                limits.block_tokens, limits.blocks, self.utilization
            ),
            legacy: self.legacy,
        }
    }
}

/// Loads, then serves until the process is ended. As with vLLM, nothing listens before everything is there.
///
/// # Errors
/// The device is too small, the system refuses memory or the port, or V0's swap pool is full when a request must be preempted.
pub fn run(settings: &Settings) -> Result<(), WorkloadError> {
    signals::end_on_sigterm(143);
    let unfit = |problem: String| WorkloadError::Unfit { workload: "model-server", problem };
    let limits = settings.limits()?;
    let block_bytes = settings.kv_per_token * settings.block_tokens as usize;
    let mut device = Device::new(settings.vram);
    device.allocate("weights", settings.weights).map_err(|e| unfit(e.to_string()))?;
    device.allocate("KV cache", u64::from(limits.blocks) * block_bytes as u64).map_err(|e| unfit(e.to_string()))?;
    let runtime = Runtime::load(&settings.runtime, seed())?;
    load_weights(settings)?;
    let pool = Pool::open(&settings.pool, block_bytes, seed())?;
    if let Some(reason) = pool.as_ref().and_then(|pool| pool.pin_failed.as_ref()) {
        report::note(&format!("the CPU tier could not be pinned ({reason}) and is pageable"));
    }
    let shared = Arc::new(Shared::new(runtime, settings.fixed(&limits), limits));
    let engine = Engine::new(&shared, device, pool, settings.roofline, settings.link, block_bytes as u64);
    report::every(settings.report_every, {
        let shared = Arc::clone(&shared);
        move || shared.report()
    })?;
    let listener = server::listen(settings.port)?;
    server::start(&listener, &shared)?;
    engine.run(&shared).map_err(|full| unfit(full.to_string()))
}

// The weights pass through a buffer on the host, piece by piece, at the link's speed or the host's, whichever is slower.
fn load_weights(settings: &Settings) -> Result<(), WorkloadError> {
    let mut staging = Block::anonymous(settings.staging).map_err(system("map the staging buffer"))?;
    staging.fill(0, staging.len(), seed());
    let mut left = settings.weights;
    while left > 0 {
        let piece = left.min(staging.len() as u64);
        let begin = Instant::now();
        staging.touch(0, piece as usize);
        rest(settings.link.time(piece), begin);
        left -= piece;
    }
    Ok(())
}
