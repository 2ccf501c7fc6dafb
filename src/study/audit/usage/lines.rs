//! Lines of `kubectl top pod -A --containers --no-headers`, each after the unix seconds at which it was printed.

use super::{Reader, Who};
use crate::study::samples::milliseconds;
use crate::units::Quantity;

const HEADER: [&str; 5] = ["NAMESPACE", "POD", "NAME", "CPU(cores)", "MEMORY(bytes)"];

pub(super) fn read(reader: &mut Reader, text: &str) {
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [time, namespace, pod, container, _cpu, memory] = columns[..] else {
            let message = format!(
                "{} columns instead of 6: the time, then namespace, pod, container, CPU and memory as `kubectl top pod -A \
                 --containers --no-headers` prints them",
                columns.len()
            );
            reader.sheet.wrong(line, "", message);
            continue;
        };
        if columns[1..] == HEADER {
            continue;
        }
        let at_ms = milliseconds(time);
        let bytes = memory
            .parse::<Quantity>()
            .map_err(|e| e.to_string())
            .and_then(|quantity| u64::try_from(quantity.ceil()).map_err(|_| format!("the memory {memory} must not be negative")));
        match (at_ms, bytes) {
            (Ok(at_ms), Ok(bytes)) => {
                let [namespace, pod, container] = [namespace, pod, container].map(str::to_owned);
                reader.keep(&Who { node: None, namespace, pod, container }, at_ms, bytes, (time, ""));
            }
            (at_ms, bytes) => {
                for (part, message) in [(time, at_ms.err()), (memory, bytes.err())] {
                    if let Some(message) = message {
                        reader.sheet.wrong(part, "", message);
                    }
                }
            }
        }
    }
}
