//! Fine-tuning in the shape of LoRA: sequential passes over frozen weights, gradients that accumulate, an optimizer, and checkpoints that need
//! the model and its serialised copy at the same time.

use super::files;
use super::latency::Latency;
use super::memory::{Block, seed};
use super::report::Line;
use super::{Args, ArgsError, WorkloadError, signals, system};
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Settings of `training`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    weights: usize,
    adapters: usize,
    activations: usize,
    batch: usize,
    accumulate: u64,
    steps: u64,
    compute: Duration,
    checkpoint_every: u64,
    checkpoint: Option<PathBuf>,
}

impl Settings {
    /// `--weights` (frozen) `--adapters` (trained, with as much for gradients and twice as much for the optimizer, 1/64 of the weights) ·
    /// `--activations` (of a sample, 0) `--batch` (samples, 1) `--accumulate` (passes a step, 4) `--steps` · `--compute` (arithmetic for each
    /// MiB of weights a pass reads, 0) · `--checkpoint-every` (steps, 0: never) `--checkpoint` (a file to write it to; without one it is
    /// only serialised in memory).
    pub(super) fn parse(mut args: Args) -> Result<Settings, ArgsError> {
        let weights = args.required_size("weights")?;
        let settings = Settings {
            weights,
            adapters: args.size("adapters")?.unwrap_or(weights / 64).max(4096),
            activations: args.size("activations")?.unwrap_or(0),
            batch: args.number("batch", 1)?.map_or(1, |n| usize::try_from(n).unwrap_or(usize::MAX)),
            accumulate: args.number("accumulate", 1)?.unwrap_or(4),
            steps: args.number("steps", 1)?.unwrap_or(1),
            compute: args.duration("compute")?.unwrap_or(Duration::ZERO),
            checkpoint_every: args.number("checkpoint-every", 0)?.unwrap_or(0),
            checkpoint: args.text("checkpoint")?.map(PathBuf::from),
        };
        args.finish()?;
        Ok(settings)
    }
}

const LAYER: usize = 1 << 20;

struct Trainer {
    settings: Settings,
    weights: Block,
    adapters: Block,
    gradients: Block,
    optimizer: Block,
    activations: Block,
}

/// Trains for its steps and ends with 0. A line is reported after each step.
///
/// # Errors
/// Memory cannot be mapped, or the checkpoint not written.
pub fn run(settings: &Settings) -> Result<(), WorkloadError> {
    signals::end_on_sigterm(143);
    let mut trainer = Trainer::load(settings)?;
    let (mut steps, mut checkpoints) = (Latency::new(), Latency::new());
    let begin = Instant::now();
    for number in 1..=settings.steps {
        let started = Instant::now();
        trainer.step(number);
        steps.record(started.elapsed());
        if settings.checkpoint_every > 0 && number % settings.checkpoint_every == 0 {
            let started = Instant::now();
            trainer.checkpoint()?;
            checkpoints.record(started.elapsed());
        }
        let line = steps.add_to(Line::new(begin.elapsed()), "step");
        checkpoints.add_to(line, "checkpoint").print();
    }
    Ok(())
}

impl Trainer {
    fn load(settings: &Settings) -> Result<Trainer, WorkloadError> {
        let mut salt = seed();
        let mut filled = |size: usize| -> Result<Block, WorkloadError> {
            let mut block = Block::anonymous(size).map_err(system(format!("map {size} bytes")))?;
            salt = salt.wrapping_add(1);
            block.fill(0, size, salt);
            Ok(block)
        };
        Ok(Trainer {
            weights: filled(settings.weights)?,
            adapters: filled(settings.adapters)?,
            gradients: filled(settings.adapters)?,
            optimizer: filled(2 * settings.adapters)?,
            activations: filled(settings.activations.saturating_mul(settings.batch).max(1))?,
            settings: settings.clone(),
        })
    }

    fn step(&mut self, number: u64) {
        for pass in 0..self.settings.accumulate {
            // Forward: every layer in order, its activations kept for the way back.
            let layers = self.weights.len().div_ceil(LAYER);
            let part = self.activations.len().div_ceil(layers).next_multiple_of(8);
            for layer in 0..layers {
                self.weights.touch(layer * LAYER, LAYER);
                self.activations.fill(layer * part, part, number ^ pass);
                sleep(self.settings.compute);
            }
            for layer in (0..layers).rev() {
                self.weights.touch(layer * LAYER, LAYER);
                self.activations.touch(layer * part, part);
                sleep(self.settings.compute);
            }
            let len = self.gradients.len();
            self.gradients.touch(0, len);
            self.gradients.fill(0, len, number.wrapping_mul(31) ^ pass);
        }
        self.gradients.touch(0, self.gradients.len());
        let (moments, adapters) = (self.optimizer.len(), self.adapters.len());
        self.optimizer.touch(0, moments);
        self.optimizer.fill(0, moments, number);
        self.adapters.touch(0, adapters);
        self.adapters.fill(0, adapters, number);
    }

    // The model and its serialised copy exist at the same time: that is the peak.
    fn checkpoint(&self) -> Result<(), WorkloadError> {
        let (weights, adapters) = (self.weights.len(), self.adapters.len());
        let len = weights + adapters;
        let mut copy = Block::anonymous(len).map_err(system(format!("map {len} bytes for a checkpoint")))?;
        copy.copy(0, &self.weights, 0, weights);
        copy.copy(weights, &self.adapters, 0, adapters);
        let Some(path) = &self.settings.checkpoint else { return Ok(()) };
        let write = || -> std::io::Result<()> {
            let mut file = File::create(path)?;
            file.write_all(copy.bytes(0, len))?;
            file.sync_all()?;
            files::forget(&file)
        };
        write().map_err(system(format!("write the checkpoint {}", path.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_the_model_and_the_adapters() {
        let path = std::env::temp_dir().join(format!("highwater-checkpoint-{}", std::process::id()));
        let args = ["--weights=2Mi", "--adapters=64Ki", &format!("--checkpoint={}", path.display())].map(str::to_owned);
        let settings = Settings::parse(Args::new("training", &args).unwrap()).unwrap();
        let mut trainer = Trainer::load(&settings).unwrap();
        let before = trainer.adapters.bytes(0, 4096).to_vec();
        trainer.step(1);
        assert!(trainer.adapters.bytes(0, 4096) != before, "they were trained");
        trainer.checkpoint().unwrap();
        let written = std::fs::read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(written[..2 << 20] == *trainer.weights.bytes(0, 2 << 20));
        assert!(written[2 << 20..] == *trainer.adapters.bytes(0, 64 << 10));
    }
}
