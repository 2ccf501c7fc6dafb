//! CPU inference: an OpenAI-compatible server whose every token reads the weights, as memory-bound decoding does.

mod engine;

use super::files;
use super::memory::{Block, seed};
use super::{Args, ArgsError, WorkloadError, server, signals, system};
use engine::Engine;
use std::path::PathBuf;
use std::sync::Arc;

/// Settings of `cpu-inference`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    weights: usize,
    weights_file: Option<PathBuf>,
    make: Option<usize>,
    token_share: f64,
    prefill_chunk: u32,
    kv_per_token: usize,
    batch: usize,
    runtime: usize,
    port: u16,
    model: String,
}

impl Settings {
    /// `--weights` (anonymous) or `--weights-file` (mapped, as llama.cpp does; `--make` is its size, and it is made when it is not there) · `--token-share` (of the weights a token reads, 1) · `--prefill-chunk` (prompt
    /// tokens per pass over the weights, 512) · `--kv-per-token` (cache a token adds, 0) · `--batch` (requests decoded together, 1)
    /// · `--runtime` (host runtime, touched once a request, 0) · `--port` (8000) · `--model` (its name).
    pub(super) fn parse(mut args: Args) -> Result<Settings, ArgsError> {
        let weights_file = args.text("weights-file")?.map(PathBuf::from);
        let settings = Settings {
            weights: if weights_file.is_some() { 0 } else { args.required_size("weights")? },
            weights_file,
            make: args.size("make")?,
            token_share: args.share("token-share")?.unwrap_or(1.0),
            prefill_chunk: u32::try_from(args.number("prefill-chunk", 1)?.unwrap_or(512)).unwrap_or(u32::MAX),
            kv_per_token: args.size("kv-per-token")?.unwrap_or(0),
            batch: usize::try_from(args.number("batch", 1)?.unwrap_or(1)).unwrap_or(usize::MAX),
            runtime: args.size("runtime")?.unwrap_or(0),
            port: u16::try_from(args.number("port", 1)?.unwrap_or(8000)).unwrap_or(u16::MAX),
            model: args.text("model")?.unwrap_or_else(|| "highwater".to_owned()),
        };
        args.finish()?;
        Ok(settings)
    }
}

/// Loads the weights, then serves until the process is ended. As with vLLM, nothing listens before the weights are there.
pub fn run(settings: &Settings) -> Result<(), WorkloadError> {
    signals::end_on_sigterm(143);
    let mut seed = seed();
    let mut filled = |bytes: usize| -> Result<Option<Block>, WorkloadError> {
        if bytes == 0 {
            return Ok(None);
        }
        let mut block = Block::anonymous(bytes).map_err(system(format!("map {bytes} bytes")))?;
        seed = seed.wrapping_add(1);
        block.fill(0, bytes, seed);
        Ok(Some(block))
    };
    let runtime = filled(settings.runtime)?;
    let weights = match &settings.weights_file {
        None => filled(settings.weights)?,
        Some(path) => {
            let file = files::open(path, settings.make, super::memory::seed())?;
            Block::of_file(&file).map_err(system(format!("map the weights {}", path.display())))?
        }
    };
    let listener = server::listen(settings.port)?;
    let engine = Arc::new(Engine::new(settings.clone(), weights, runtime));
    server::start(&listener, &engine)?;
    engine.run();
    Ok(())
}
