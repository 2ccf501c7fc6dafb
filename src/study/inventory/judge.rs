//! The question a device raises, by the course of its use and of its queue, and what would be done wrong by one signal alone.

use super::{FEWEST, FULL, Gpu, GpuUse, LITTLE, Queue, Used};
use crate::lab::Unit;
use crate::study::say;
use serde::Serialize;

/// Percent of the samples from which on a device is hardly used, or a queue is always there.
const MOST: f64 = 90.0;
/// Percent of the samples from which on a device is unused for much of the time.
const MUCH: f64 = 50.0;
/// Memory from which on a device looks full, in percent.
const LOOKS_FULL: f64 = 80.0;

/// What to ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Question {
    /// Its kind.
    pub id: QuestionId,
    /// In words, with what was seen.
    pub says: String,
}

/// The kinds of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuestionId {
    /// A queue grows or never empties while the device works: it needs capacity.
    Capacity,
    /// Requests wait while the device hardly works: what else holds them?
    NotTheDevice,
    /// First tokens take longer and longer although nobody waits in the server.
    BeforeTheServer,
    /// Little use for nearly all of the time: is it over-allocated?
    LittleUse,
    /// Little use for much of the time, with bursts between.
    Bursts,
    /// No pod holds it.
    Unheld,
    /// It is used, and no queue grows or stands.
    InUse,
    /// A server whose device was not seen, or a device whose use was not.
    Unknown,
    /// Too few samples for a course.
    TooFew,
}

/// A signal that says something else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Misleading {
    /// The signal and what it reads.
    pub reads: String,
    /// What would be done by it alone.
    pub wrong_action: String,
    /// Why that is wrong.
    pub because: String,
}

impl QuestionId {
    /// As people read it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            QuestionId::Capacity => "queue: capacity?",
            QuestionId::NotTheDevice => "queue: not the device?",
            QuestionId::BeforeTheServer => "latency: who waits outside?",
            QuestionId::LittleUse => "little use: over-allocated?",
            QuestionId::Bursts => "bursts: shared between them?",
            QuestionId::Unheld => "unheld",
            QuestionId::InUse => "none",
            QuestionId::Unknown => "not enough seen",
            QuestionId::TooFew => "too few samples",
        }
    }

    /// Whether somebody should look into it.
    #[must_use]
    pub fn is_open(self) -> bool {
        !matches!(self, QuestionId::InUse) && self.is_informed()
    }

    /// Whether enough was seen to ask at all.
    #[must_use]
    pub fn is_informed(self) -> bool {
        !matches!(self, QuestionId::Unknown | QuestionId::TooFew)
    }
}

impl Gpu {
    /// What is held, in words.
    fn kind(&self) -> String {
        let model = self.model.as_deref().unwrap_or("GPU");
        match (&self.instance, &self.replica) {
            (Some(instance), _) => format!("an instance {instance} of a {model}"),
            (None, Some(_)) => format!("a time-sliced replica of a {model} (use and memory are the device's, not the pod's)"),
            (None, None) => format!("a whole {model}"),
        }
    }
}

impl Queue {
    /// Each third of the window has a longer queue than the one before, and the last at least twice that of the first.
    fn grows(&self) -> bool {
        let [first, middle, last] = self.thirds;
        first <= middle && middle < last && last >= 2.0 * first.max(0.5)
    }

    fn stands(&self) -> bool {
        self.waiting >= MOST
    }
}

/// A length of time as people say it.
#[must_use]
pub fn time(ms: i64) -> String {
    match ms / 1000 {
        s if s >= 172_800 => format!("{} d", s / 86_400),
        s if s >= 7200 => format!("{:.1} h", s as f64 / 3600.0),
        s if s >= 120 => format!("{} min", s / 60),
        _ => say(ms as f64 * 1e6, Unit::Time),
    }
}

pub(super) fn question(found: &GpuUse) -> Question {
    let (gpu, window) = (&found.gpu, time(found.window_ms));
    let pod = gpu.pod.as_deref().unwrap_or("nobody");
    let ask = |id, says: String| Question { id, says };
    if found.moments < FEWEST {
        return ask(QuestionId::TooFew, format!("{} samples say nothing about a course: take at least {FEWEST}", found.moments));
    }
    let backlog = found.queue.filter(|queue| queue.grows() || queue.stands());
    let Some(used) = found.used else {
        return match backlog {
            Some(queue) => ask(
                QuestionId::Capacity,
                format!(
                    "{} Its device was not seen: does it work all that time, or does something else hold them?",
                    waits(&queue, &window)
                ),
            ),
            None => ask(QuestionId::Unknown, "its device's use was not seen, so nothing can be asked about it".to_owned()),
        };
    };
    if gpu.pod.is_none() {
        let says = format!(
            "no pod holds this {} for {window}. Is it kept free for a burst or a failure, or does no pod fit it (taints, a resource's name, a MIG layout)?",
            gpu.model.as_deref().unwrap_or("GPU")
        );
        return ask(QuestionId::Unheld, says);
    }
    if let Some(queue) = backlog {
        let waits = waits(&queue, &window);
        return match queue.used_meanwhile {
            Some(meanwhile) if meanwhile < LITTLE => ask(
                QuestionId::NotTheDevice,
                match queue.kv_meanwhile {
                    Some(kv) => format!(
                        "{waits} Meanwhile the device ran {meanwhile:.0} % and the KV cache was {kv:.0} % full. What holds the requests: \
                         the KV cache, a limit on the batch, a starved host?"
                    ),
                    None => format!(
                        "{waits} The device ran {meanwhile:.0} % meanwhile. What holds the requests: the KV cache, a limit on the \
                         batch, a starved host?"
                    ),
                },
            ),
            _ => ask(
                QuestionId::Capacity,
                format!(
                    "{waits} Does the queue keep growing beyond this window, and how long may a first token take? Then {pod} needs more capacity."
                ),
            ),
        };
    }
    if let Some([first, _, last]) = slower(found) {
        let says = format!(
            "First tokens take longer and longer, {} to {} in the thirds of {window}, although hardly anybody waits in {pod}. Do requests wait \
             before it, at a client's or a gateway's limit, or have prompts grown?",
            say(first * 1e6, Unit::Time),
            say(last * 1e6, Unit::Time)
        );
        return ask(QuestionId::BeforeTheServer, says);
    }
    let rarely = used.little >= MOST;
    let waited = found.queue.is_some_and(|queue| queue.longest_ms > 0);
    match () {
        () if rarely && !waited => ask(QuestionId::LittleUse, little(found, &used, pod, &window)),
        () if used.little >= MUCH => ask(QuestionId::Bursts, bursts(found, &used, pod, &window)),
        () => ask(QuestionId::InUse, format!("{pod} uses {}; {}", gpu.kind(), waited_for(found.queue))),
    }
}

/// Times to the first token in thirds, if they rise to at least twice what they were and the server's queue does not explain it.
fn slower(found: &GpuUse) -> Option<[f64; 3]> {
    let [Some(first), Some(middle), Some(last)] = found.ttft_ms? else { return None };
    let rises = first <= middle && middle < last && last >= 2.0 * first;
    (rises && found.queue.is_some_and(|queue| queue.waiting < LITTLE)).then_some([first, middle, last])
}

fn waits(queue: &Queue, window: &str) -> String {
    let [first, middle, last] = queue.thirds;
    let course = if queue.grows() { "and more" } else { "without end" };
    format!(
        "Requests wait {course}: {first:.0}, {middle:.0}, {last:.0} in the thirds of {window} (medians), somebody in {:.0} % of the samples.",
        queue.waiting
    )
}

fn little(found: &GpuUse, used: &Used, pod: &str, window: &str) -> String {
    let queue = match found.queue {
        Some(_) => "nobody waited",
        None => "whether anybody waited was not seen: read its server's queue first",
    };
    let (share, longest) = (used.little, time(used.little_longest_ms));
    format!(
        "{pod} holds {} and used less than {LITTLE} % of it in {share:.0} % of {} samples over {window} (at a stretch for {longest}, peak \
         {:.0} %); {queue}. Do these {window} hold its busiest hour? If so: a smaller card, a shared one, or none while it is idle, and \
         how long may a cold start take?",
        found.gpu.kind(),
        found.moments,
        used.peak
    )
}

fn waited_for(queue: Option<Queue>) -> String {
    match queue {
        Some(queue) if queue.longest_ms > 0 => {
            format!("up to {:.0} requests waited, at a stretch for {}", queue.most, time(queue.longest_ms))
        }
        Some(queue) if queue.most > 0.0 => format!("at most {:.0} waited, never at two samples in a row", queue.most),
        Some(_) => "nobody waited".to_owned(),
        None => "whether anybody waited was not seen".to_owned(),
    }
}

fn bursts(found: &GpuUse, used: &Used, pod: &str, window: &str) -> String {
    let queue = waited_for(found.queue);
    format!(
        "{pod} holds {} and used less than {LITTLE} % of it in {:.0} % of the samples over {window}, but {:.0} % at the peak; {queue}. Do the \
         bursts meet their objective as it is? If so: can another job run between them and give way, or must the device be there at once?",
        found.gpu.kind(),
        used.little,
        used.peak
    )
}

pub(super) fn misleading(found: &GpuUse) -> Vec<Misleading> {
    let mut list = Vec::new();
    let mut add = |reads: String, wrong_action: &str, because: String| {
        list.push(Misleading { reads, wrong_action: wrong_action.to_owned(), because });
    };
    let id = found.question.id;
    let idle = matches!(id, QuestionId::LittleUse | QuestionId::Bursts);
    if let (Some([least, most]), Some(used)) = (found.memory, found.used) {
        let reads = format!("memory: {least:.0} to {most:.0} % allocated, all the time");
        if idle && least >= LOOKS_FULL {
            let because = format!(
                "a server reserves its memory when it starts; the device ran less than {LITTLE} % in {:.0} % of the samples",
                used.little
            );
            add(reads, "take it for full: keep it, or add another", because);
        } else if id == QuestionId::Capacity && most - least < 5.0 {
            let because = format!(
                "it read the same with {:.0} and with {:.0} requests waiting",
                found.queue.map_or(0.0, |q| q.thirds[0]),
                found.queue.map_or(0.0, |q| q.most)
            );
            add(reads, "change nothing, since nothing moved", because);
        }
    }
    if let Some(used) = found.used {
        let average = format!("average use: {:.0} %", used.average);
        match id {
            QuestionId::Capacity => {
                if let Some(meanwhile) = found.queue.and_then(|queue| queue.used_meanwhile).filter(|used| *used >= FULL)
                    && used.average < FULL
                {
                    let because = format!("it ran {meanwhile:.0} % while requests waited (median)");
                    add(average, "take it for a device with room", because);
                }
            }
            QuestionId::Bursts => add(
                average,
                "give the device to somebody else, or cut it to the average",
                format!("it ran {:.0} % at the peak: the average is of two states and shows neither", used.peak),
            ),
            QuestionId::LittleUse if used.peak >= FULL => add(
                format!("peak use: {:.0} %", used.peak),
                "size it for the peak",
                format!("{:.0} % of the samples were below {LITTLE} %, and nobody waited at the peak", used.little),
            ),
            QuestionId::InUse if used.full >= MUCH && found.queue.is_some_and(|queue| queue.waiting < LITTLE) => add(
                format!("use: {FULL} % or more in {:.0} % of the samples", used.full),
                "add replicas",
                "it says that some kernel ran, for which one request at a time is enough; hardly anybody waited".to_owned(),
            ),
            _ => {}
        }
    }
    if let (QuestionId::BeforeTheServer, Some([first, _, last])) = (id, slower(found)) {
        let because = format!("a first token took {} and then {}", say(first * 1e6, Unit::Time), say(last * 1e6, Unit::Time));
        add("queue: hardly anybody waits in the server".to_owned(), "take it for enough", because);
    }
    if let (QuestionId::NotTheDevice, Some(queue)) = (id, found.queue) {
        let because = format!("the device ran {:.0} % while they waited", queue.used_meanwhile.unwrap_or(0.0));
        add(format!("queue: up to {:.0} requests wait", queue.most), "add devices", because);
    }
    list
}
