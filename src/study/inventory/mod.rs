//! The GPUs of a fleet, over time: whose they are, how they were used, who waited, and which question that raises for each. Never a
//! verdict: what a device did in a window does not say what it is for.
//!
//! Two problems look alike from afar and need opposite remedies. A queue that grows needs capacity. A device that is hardly used over time
//! is over-allocated. Averages hide both, and memory shows neither, since a server reserves it when it starts.

mod course;
mod judge;
mod read;
mod run;
mod signals;

pub use judge::{Misleading, Question, QuestionId, time};
pub use read::read;
pub use signals::{Gpu, QUERY, Samples};

use course::{Moment, course, longest_ms};
use serde::Serialize;

/// Use below this many percent is little. Ours: low enough that nobody would rent the device for it.
pub const LITTLE: f64 = 10.0;
/// Use from this many percent on is full.
pub const FULL: f64 = 90.0;
/// Fewer moments than this say nothing about a course.
pub const FEWEST: usize = 10;
/// Parts into which a course is cut to be shown.
const SLICES: usize = 12;

/// A fleet's devices.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    /// Device by device; a server whose device was not seen has one without a name.
    pub gpus: Vec<GpuUse>,
    /// Series of metrics that are not read.
    pub others: usize,
}

/// A device over the window in which it was seen in one pod's hands.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuUse {
    /// The device and its pod.
    pub gpu: Gpu,
    /// Times at which it was read.
    pub moments: usize,
    /// From the first to the last, in milliseconds.
    pub window_ms: i64,
    /// How much it ran.
    pub used: Option<Used>,
    /// Least and most memory that was allocated, in percent.
    pub memory: Option<[f64; 2]>,
    /// Who waited.
    pub queue: Option<Queue>,
    /// Mean milliseconds to the first token in the first, middle and last third of the window.
    pub ttft_ms: Option<[Option<f64>; 3]>,
    /// The course in at most twelve parts.
    pub course: Vec<Slice>,
    /// What to ask.
    pub question: Question,
    /// Signals that say something else, and what would be done wrong by them.
    pub misleading: Vec<Misleading>,
}

/// How much a device ran, in percent of the time between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Used {
    /// Mean of all samples.
    pub average: f64,
    /// The most.
    pub peak: f64,
    /// Percent of the samples below [`LITTLE`].
    pub little: f64,
    /// The longest stretch of those, in milliseconds.
    pub little_longest_ms: i64,
    /// Percent of the samples from [`FULL`] on.
    pub full: f64,
}

/// Who waited.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// Median of the first, middle and last third of the window.
    pub thirds: [f64; 3],
    /// The most.
    pub most: f64,
    /// Percent of the samples with somebody waiting.
    pub waiting: f64,
    /// The longest stretch of those, in milliseconds.
    pub longest_ms: i64,
    /// Median use of the device while somebody waited, in percent.
    pub used_meanwhile: Option<f64>,
    /// Median use of the KV cache meanwhile, in percent.
    pub kv_meanwhile: Option<f64>,
}

/// A part of the course.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Slice {
    /// Milliseconds from the window's beginning.
    pub from_ms: i64,
    /// Mean use in percent.
    pub used: Option<f64>,
    /// The longest queue.
    pub waiting: Option<f64>,
    /// Mean milliseconds to the first token.
    pub ttft_ms: Option<f64>,
}

/// Looks at every device.
#[must_use]
pub fn inventory(samples: &Samples) -> Inventory {
    let seen = |pod: &String| samples.gpus.keys().any(|gpu| gpu.pod.as_ref() == Some(pod));
    let devices = samples.gpus.iter().map(|(gpu, device)| {
        let engine = gpu.pod.as_ref().and_then(|pod| samples.engines.get(pod));
        of(gpu.clone(), &course(Some(device), engine))
    });
    let servers = samples.engines.iter().filter(|(pod, _)| !seen(pod)).map(|(pod, engine)| {
        let gpu = Gpu { pod: Some(pod.clone()), host: None, id: None, model: None, instance: None, replica: None };
        of(gpu, &course(None, Some(engine)))
    });
    Inventory { gpus: devices.chain(servers).collect(), others: samples.others }
}

fn of(gpu: Gpu, course: &[Moment]) -> GpuUse {
    let window_ms = course.first().zip(course.last()).map_or(0, |(first, last)| last.at_ms - first.at_ms);
    let memory: Vec<f64> = course.iter().filter_map(|m| m.memory).collect();
    let mut found = GpuUse {
        gpu,
        moments: course.len(),
        window_ms,
        used: used(course),
        memory: (!memory.is_empty()).then(|| [memory.iter().copied().fold(f64::MAX, f64::min), most(&memory)]),
        queue: queue(course),
        ttft_ms: Some(parts(course, 3).map(ttft_ms).collect::<Vec<_>>())
            .and_then(|thirds| <[Option<f64>; 3]>::try_from(thirds).ok())
            .filter(|thirds| thirds.iter().any(Option::is_some)),
        course: slices(course),
        question: Question { id: QuestionId::TooFew, says: String::new() },
        misleading: Vec::new(),
    };
    found.question = judge::question(&found);
    found.misleading = judge::misleading(&found);
    found
}

fn used(course: &[Moment]) -> Option<Used> {
    let values: Vec<f64> = course.iter().filter_map(|m| m.used).collect();
    (!values.is_empty()).then(|| Used {
        average: mean(&values),
        peak: most(&values),
        little: percent(&values, |used| used < LITTLE),
        little_longest_ms: longest_ms(course, |m| m.used.is_some_and(|used| used < LITTLE)),
        full: percent(&values, |used| used >= FULL),
    })
}

fn queue(course: &[Moment]) -> Option<Queue> {
    let values: Vec<f64> = course.iter().filter_map(|m| m.waiting).collect();
    let waits = |m: &Moment| m.waiting.is_some_and(|waiting| waiting > 0.0);
    let thirds = parts(course, 3).map(|part| median(part.iter().filter_map(|m| m.waiting).collect()).unwrap_or(0.0));
    (!values.is_empty()).then(|| Queue {
        thirds: <[f64; 3]>::try_from(thirds.collect::<Vec<_>>()).unwrap_or_default(),
        most: most(&values),
        waiting: percent(&values, |waiting| waiting > 0.0),
        longest_ms: longest_ms(course, waits),
        used_meanwhile: median(course.iter().filter(|m| waits(m)).filter_map(|m| m.used).collect()),
        kv_meanwhile: median(course.iter().filter(|m| waits(m)).filter_map(|m| m.kv).collect()),
    })
}

fn slices(course: &[Moment]) -> Vec<Slice> {
    let begin = course.first().map_or(0, |first| first.at_ms);
    let slice = |part: &[Moment]| {
        let used: Vec<f64> = part.iter().filter_map(|m| m.used).collect();
        let waiting: Vec<f64> = part.iter().filter_map(|m| m.waiting).collect();
        Some(Slice {
            from_ms: part.first()?.at_ms - begin,
            used: (!used.is_empty()).then(|| mean(&used)),
            waiting: (!waiting.is_empty()).then(|| most(&waiting)),
            ttft_ms: ttft_ms(part),
        })
    };
    parts(course, SLICES.min(course.len())).filter_map(slice).collect()
}

/// So many parts with as many moments each, as far as that goes.
fn parts(course: &[Moment], number: usize) -> impl Iterator<Item = &[Moment]> {
    (0..number).map(move |n| &course[course.len() * n / number..course.len() * (n + 1) / number])
}

/// The mean over requests, so a part with more of them counts for more.
fn ttft_ms(part: &[Moment]) -> Option<f64> {
    let (sum, count) = part.iter().filter_map(|m| m.ttft).fold((0.0, 0.0), |(s, n), (sum, count)| (s + sum, n + count));
    (count > 0.0).then(|| sum * 1000.0 / count)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn percent(values: &[f64], holds: impl Fn(f64) -> bool) -> f64 {
    values.iter().filter(|value| holds(**value)).count() as f64 * 100.0 / values.len() as f64
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests;
