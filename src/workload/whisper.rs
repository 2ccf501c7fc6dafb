//! Speech to text in the shape of Whisper on a CPU: an encoder pass for each window of audio, a decoder pass for each token of text.
//!
//! It is asked as a completion: the prompt's tokens are audio frames of 20 ms, the tokens to generate are the text. A real client would
//! upload audio to `/v1/audio/transcriptions`; what is measured, the time from the request to its first and last token, is the same.

use super::latency::Latency;
use super::memory::{Block, seed};
use super::openai::Answer;
use super::queue::Queue;
use super::report::{self, Line};
use super::{Args, ArgsError, WorkloadError, server, signals, system};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Settings of `whisper`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    encoder: usize,
    decoder: usize,
    libraries: usize,
    audio_per_frame: usize,
    window: u32,
    encode_time: Duration,
    decode_time: Duration,
    port: u16,
    model: String,
    report_every: Duration,
}

impl Settings {
    /// `--encoder` `--decoder` (weights in host memory) · `--libraries` (touched once) · `--audio-per-frame` (bytes a request holds for each
    /// frame, 1280) · `--window` (frames of an encoder pass, 1500: 30 s) · `--encode-time` `--decode-time` (arithmetic beyond reading the
    /// weights, 0) · `--port` (8000) `--model` `--report-every` (1s).
    pub(super) fn parse(mut args: Args) -> Result<Settings, ArgsError> {
        let settings = Settings {
            encoder: args.required_size("encoder")?,
            decoder: args.required_size("decoder")?,
            libraries: args.size("libraries")?.unwrap_or(0),
            audio_per_frame: args.size("audio-per-frame")?.unwrap_or(1280),
            window: args.number("window", 1)?.map_or(1500, |n| u32::try_from(n).unwrap_or(u32::MAX)),
            encode_time: args.duration("encode-time")?.unwrap_or(Duration::ZERO),
            decode_time: args.duration("decode-time")?.unwrap_or(Duration::ZERO),
            port: u16::try_from(args.number("port", 1)?.unwrap_or(8000)).unwrap_or(u16::MAX),
            model: args.text("model")?.unwrap_or_else(|| "whisper".to_owned()),
            report_every: args.duration("report-every")?.unwrap_or(Duration::from_secs(1)),
        };
        args.finish()?;
        Ok(settings)
    }
}

struct Model {
    settings: Settings,
    encoder: Block,
    decoder: Block,
}

/// Loads, then transcribes one request after the other.
///
/// # Errors
/// The system refuses memory or the port.
pub fn run(settings: &Settings) -> Result<(), WorkloadError> {
    signals::end_on_sigterm(143);
    let filled = |size: usize, salt: u64| -> Result<Block, WorkloadError> {
        let mut block = Block::anonymous(size).map_err(system(format!("map {size} bytes")))?;
        block.fill(0, size, seed().wrapping_add(salt));
        Ok(block)
    };
    let _libraries = (settings.libraries > 0).then(|| filled(settings.libraries, 1)).transpose()?;
    let model =
        Model { encoder: filled(settings.encoder, 2)?, decoder: filled(settings.decoder, 3)?, settings: settings.clone() };
    let queue = Arc::new(Queue::new(settings.model.clone()));
    let latency = Arc::new(Mutex::new(Latency::new()));
    let begin = Instant::now();
    report::every(settings.report_every, {
        let latency = Arc::clone(&latency);
        move || {
            let latency = latency.lock().unwrap_or_else(PoisonError::into_inner);
            latency.add_to(Line::new(begin.elapsed()), "transcription").print();
        }
    })?;
    let listener = server::listen(settings.port)?;
    server::start(&listener, &queue)?;
    for id in 0.. {
        let mut answer = queue.take();
        let started = Instant::now();
        if model.transcribe(&mut answer, id).is_ok() {
            latency.lock().unwrap_or_else(PoisonError::into_inner).record(started.elapsed());
        }
    }
    Ok(())
}

impl Model {
    fn transcribe(&self, answer: &mut Answer, id: u64) -> io::Result<()> {
        let settings = &self.settings;
        let frames = answer.completion.prompt_tokens;
        let mut audio = Block::anonymous((settings.audio_per_frame * frames as usize).max(1))?;
        audio.fill(0, audio.len(), id);
        for _ in 0..frames.div_ceil(settings.window).max(1) {
            self.encoder.touch(0, self.encoder.len());
            sleep(settings.encode_time);
        }
        audio.touch(0, audio.len());
        for number in 1..=answer.completion.max_tokens {
            self.decoder.touch(0, self.decoder.len());
            sleep(settings.decode_time);
            answer.token(id, &settings.model, number)?;
        }
        Ok(())
    }
}
