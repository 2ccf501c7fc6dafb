//! Any text is a mount table, cgroup paths and a list of pods, or refused; what is kept of a list is read again as it was.

#![no_main]

use highwater::provider::attach::{of_table, place, qualify, read_pods};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = of_table(text);
    for line in text.lines() {
        if let Some(place) = place(line) {
            assert!(line.starts_with(place.pod) && place.pod.starts_with(place.kubepods) && !place.uid.is_empty());
            if let Some(container) = place.container {
                assert!(line.starts_with(container.path) && container.path.starts_with(place.pod) && container.id.len() == 64);
            }
        }
    }
    let Ok(mut listed) = read_pods(text) else { return };
    let kept = listed.to_json().to_string();
    let again = read_pods(&kept).expect("what is kept is a list");
    assert_eq!(again.pods.len(), listed.pods.len(), "{kept}");
    for (again, listed) in again.pods.iter().zip(&listed.pods) {
        assert_eq!(again.pod, listed.pod, "{kept}");
    }
    qualify(&mut listed.pods);
});
