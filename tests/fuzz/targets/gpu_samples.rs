//! Any text is samples of a fleet or refused with a reason that names a place; whatever is read, its figures keep to their bounds.

#![no_main]

use highwater::study::inventory::{inventory, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let samples = match read(&[("fuzz".to_owned(), text.to_owned())]) {
        Ok(samples) => samples,
        Err(problems) => {
            assert!(!problems.is_empty() && problems.to_string().starts_with("fuzz"));
            return;
        }
    };
    for gpu in inventory(&samples).gpus {
        assert!(gpu.course.len() <= gpu.moments && gpu.window_ms >= 0 && !gpu.question.says.is_empty());
        if let Some(used) = gpu.used {
            let shares = [used.average, used.peak, used.little, used.full];
            assert!(shares.iter().all(|share| (0.0..=100.000_001).contains(share)), "{used:?}");
            assert!(used.little_longest_ms <= gpu.window_ms);
        }
        if let Some(queue) = gpu.queue {
            assert!(queue.thirds.iter().all(|third| *third <= queue.most) && queue.longest_ms <= gpu.window_ms, "{queue:?}");
        }
    }
});
