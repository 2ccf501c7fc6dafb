//! Questions over made courses: the same average is several of them.

use super::signals::{Gpu, Points, Samples, Signal};
use super::{GpuUse, QuestionId, inventory};
use proptest::prelude::*;

fn gpu(pod: Option<&str>) -> Gpu {
    let pod = pod.map(str::to_owned);
    Gpu { pod, host: None, id: Some("GPU-1".into()), model: None, instance: None, replica: None }
}

fn points(values: impl Iterator<Item = f64>) -> Points {
    (0..).map(|minute| minute * 60_000).zip(values).collect()
}

fn of(used: impl Iterator<Item = f64>, waiting: Option<Vec<f64>>) -> GpuUse {
    let mut samples = Samples::default();
    samples.gpus.entry(gpu(Some("p"))).or_default().insert(Signal::Utilization, points(used));
    if let Some(waiting) = waiting {
        samples.engines.entry("p".into()).or_default().insert((Signal::Waiting, String::new()), points(waiting.into_iter()));
    }
    inventory(&samples).gpus.remove(0)
}

#[test]
fn the_same_average_raises_different_questions() {
    let nobody = || Some(vec![0.0; 40]);
    let steady = of([25.0; 40].into_iter(), nobody());
    let bursts = of((0..40).map(|n| if n % 4 == 0 { 100.0 } else { 0.0 }), nobody());
    let backlog = of([25.0; 40].into_iter(), Some((0..40).map(f64::from).collect()));
    let found = [&steady, &bursts, &backlog];
    assert_eq!(found.map(|gpu| gpu.used.unwrap().average), [25.0; 3]);
    assert_eq!(found.map(|gpu| gpu.question.id), [QuestionId::InUse, QuestionId::Bursts, QuestionId::Capacity]);
}

#[test]
fn a_queue_that_drains_or_was_always_there_does_not_grow() {
    let busy = || [95.0; 30].into_iter();
    let drains = of(busy(), Some((0..30).rev().map(|n| f64::from((n - 5).max(0))).collect()));
    assert_eq!(drains.question.id, QuestionId::InUse);
    let stands = of(busy(), Some(vec![8.0; 30]));
    assert_eq!(stands.question.id, QuestionId::Capacity);
    assert!(stands.question.says.contains("without end"), "{}", stands.question.says);
}

#[test]
fn latency_that_rises_without_a_queue_is_looked_for_outside() {
    let mut samples = Samples::default();
    samples.gpus.entry(gpu(Some("p"))).or_default().insert(Signal::Utilization, points([95.0; 30].into_iter()));
    let engine = samples.engines.entry("p".into()).or_default();
    let mut put = |signal, values: Vec<f64>| engine.insert((signal, String::new()), points(values.into_iter()));
    put(Signal::Waiting, vec![0.0; 30]);
    put(Signal::TtftCount, (0..30).map(f64::from).collect());
    put(Signal::TtftSum, (0..30).map(|n| f64::from(n * n) / 10.0).collect());
    let found = inventory(&samples).gpus.remove(0);
    assert_eq!(found.question.id, QuestionId::BeforeTheServer);
    assert!(found.misleading.iter().any(|signal| signal.reads.starts_with("queue")), "{:?}", found.misleading);
}

#[test]
fn little_use_with_an_unseen_queue_says_so() {
    let found = of([1.0; 12].into_iter(), None);
    assert_eq!(found.question.id, QuestionId::LittleUse);
    assert!(found.question.says.contains("was not seen"), "{}", found.question.says);
    assert_eq!(of([1.0; 9].into_iter(), None).question.id, QuestionId::TooFew);
}

proptest! {
    #[test]
    fn figures_keep_to_their_bounds(values in prop::collection::vec((0.0f64..=100.0, 0u32..50), 1..60)) {
        let found = of(values.iter().map(|(used, _)| *used), Some(values.iter().map(|(_, waiting)| f64::from(*waiting)).collect()));
        let (used, queue) = (found.used.unwrap(), found.queue.unwrap());
        prop_assert!(used.average <= used.peak + 1e-9 && used.little + used.full <= 100.0 + 1e-9);
        prop_assert!(used.little_longest_ms <= found.window_ms && queue.longest_ms <= found.window_ms);
        prop_assert!(queue.thirds.iter().all(|third| *third <= queue.most));
        prop_assert_eq!(found.course.len(), values.len().min(12));
    }
}
