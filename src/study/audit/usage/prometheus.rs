//! The answer of a Prometheus range query. Series are decoded one by one, so that each mistake is told with its own line.

use super::{QUERY, Reader, Who, milliseconds};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

const METRIC: &str = "container_memory_working_set_bytes";

// Prometheus and its kin add fields (warnings, stats, isPartial), so unknown ones are no mistake here.
#[derive(Deserialize)]
struct Answer<'a> {
    status: String,
    #[serde(default)]
    error: Option<String>,
    #[serde(borrow, default)]
    data: Option<Data<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    result_type: String,
    #[serde(borrow)]
    result: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Series<'a> {
    metric: BTreeMap<String, String>,
    #[serde(borrow)]
    values: Vec<&'a RawValue>,
}

pub(super) fn read(reader: &mut Reader, text: &str) {
    let Some(answer) = decode::<Answer<'_>>(reader, text, "") else { return };
    let data = match (answer.status.as_str(), answer.data) {
        ("success", Some(data)) => data,
        (status, _) => {
            let error = answer.error.unwrap_or_else(|| "there is no data".to_owned());
            reader.wrong(text, "", format!("the query ended with {status}: {error}"));
            return;
        }
    };
    if data.result_type != "matrix" {
        let message = format!(
            "a {} and not a matrix: averages and peaks need a range, so ask /api/v1/query_range for {QUERY}",
            data.result_type
        );
        reader.wrong(text, "data.resultType", message);
        return;
    }
    for (index, raw) in data.result.iter().enumerate() {
        let path = format!("data.result[{index}]");
        if let Some(found) = decode::<Series<'_>>(reader, raw.get(), &path) {
            series(reader, raw.get(), &path, &found);
        }
    }
}

fn series(reader: &mut Reader, text: &str, path: &str, series: &Series<'_>) {
    let label = |name: &str| series.metric.get(name).filter(|value| !value.is_empty()).cloned();
    if let Some(name) = label("__name__").filter(|name| name != METRIC) {
        reader.wrong(text, path, format!("this is {name}: usage is read from {METRIC}"));
        return;
    }
    let Some(container) = label("container").filter(|name| name != "POD") else {
        reader.usage.sums += 1;
        return;
    };
    let (Some(namespace), Some(pod)) = (label("namespace"), label("pod")) else {
        reader.wrong(text, path, format!("container {container} without the labels namespace and pod: ask for {QUERY}"));
        return;
    };
    let who = Who { node: label("node"), namespace, pod, container };
    for (index, raw) in series.values.iter().enumerate() {
        let path = format!("{path}.values[{index}]");
        let Some((time, value)) = decode::<(serde_json::Number, String)>(reader, raw.get(), &path) else { continue };
        match (milliseconds(&time.to_string()), bytes(&value)) {
            (Ok(at_ms), Ok(bytes)) => reader.keep(&who, at_ms, bytes, (raw.get(), &path)),
            (Err(message), _) | (_, Err(message)) => reader.wrong(raw.get(), &path, message),
        }
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is no number of bytes"))?;
    match value.is_finite() && value >= 0.0 {
        true => Ok(value.round() as u64),
        false => Err(format!("{text} is no number of bytes")),
    }
}

/// Decodes a slice of the text, and tells where in the whole text it is wrong.
fn decode<'a, T: Deserialize<'a>>(reader: &mut Reader, text: &'a str, path: &str) -> Option<T> {
    let error = match serde_json::from_str(text) {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    let line_start = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
    let at = line_start + error.column().saturating_sub(1);
    let part = text.get(at..).unwrap_or(text);
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or(&message).to_owned();
    reader.wrong(part, path, message);
    None
}
