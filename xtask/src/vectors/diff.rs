//! Compares two JSON values leaf by leaf.

use serde_json::Value;

/// Counts the leaves compared and describes each difference with its path.
pub fn compare(wanted: &Value, got: &Value, path: &str, differences: &mut Vec<String>) -> usize {
    match (wanted, got) {
        (Value::Object(wanted), Value::Object(got)) => {
            let missing = got.iter().filter(|(key, _)| !wanted.contains_key(*key));
            for (key, value) in missing {
                differences.push(format!("{path}.{key}: the kubelet gives nothing, computed {value}"));
            }
            wanted
                .iter()
                .map(|(key, value)| compare(value, got.get(key).unwrap_or(&Value::Null), &format!("{path}.{key}"), differences))
                .sum()
        }
        (Value::Array(wanted), Value::Array(got)) if wanted.len() == got.len() => wanted
            .iter()
            .zip(got)
            .enumerate()
            .map(|(index, (wanted, got))| compare(wanted, got, &format!("{path}[{index}]"), differences))
            .sum(),
        (wanted, got) => {
            let same_number = wanted.as_f64().is_some_and(|number| got.as_f64() == Some(number));
            if wanted != got && !same_number {
                differences.push(format!("{path}: the kubelet gives {wanted}, computed {got}"));
            }
            1
        }
    }
}
