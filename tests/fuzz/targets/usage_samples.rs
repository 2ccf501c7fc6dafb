//! Any text is usage samples or refused with a reason that names a place; samples survive being written as lines.

#![no_main]

use highwater::study::audit::read;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let usage = match read(&[("fuzz".to_owned(), text.to_owned())]) {
        Ok(usage) => usage,
        Err(problems) => {
            assert!(!problems.is_empty() && problems.to_string().starts_with("fuzz"));
            return;
        }
    };
    // A name with a blank, or one that a line cannot begin with, cannot be written as a column.
    let plain = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
    let mut lines = String::new();
    for (who, points) in &usage.series {
        if ![&who.namespace, &who.pod, &who.container].into_iter().all(|name| plain(name)) || who.node.is_some() {
            return;
        }
        for (at, bytes) in points {
            if *bytes > 1 << 60 {
                return;
            }
            lines += &format!("{}.{:03} {} {} {} 1m {bytes}\n", at / 1000, at % 1000, who.namespace, who.pod, who.container);
        }
    }
    let again = match read(&[("lines".to_owned(), lines.clone())]) {
        Ok(again) => again,
        Err(problems) => {
            assert!(lines.is_empty(), "{problems}");
            return;
        }
    };
    let kept = usage.series.iter().filter(|(_, points)| !points.is_empty());
    assert!(kept.eq(again.series.iter()), "{lines}");
});
