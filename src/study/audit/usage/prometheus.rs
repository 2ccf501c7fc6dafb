//! The answer of a Prometheus range query to [`QUERY`].

use super::{QUERY, Reader, Who};
use crate::study::samples::Series;

const METRIC: &str = "container_memory_working_set_bytes";

pub(super) fn read(reader: &mut Reader, text: &str) {
    for found in reader.sheet.matrix(text, QUERY) {
        series(reader, &found);
    }
}

fn series(reader: &mut Reader, series: &Series<'_>) {
    let label = |name: &str| series.labels.get(name).cloned();
    if let Some(name) = label("__name__").filter(|name| name != METRIC) {
        reader.sheet.wrong(series.part, &series.path, format!("this is {name}: usage is read from {METRIC}"));
        return;
    }
    let Some(container) = label("container").filter(|name| name != "POD") else {
        reader.usage.sums += 1;
        return;
    };
    let (Some(namespace), Some(pod)) = (label("namespace"), label("pod")) else {
        let message = format!("container {container} without the labels namespace and pod: ask for {QUERY}");
        reader.sheet.wrong(series.part, &series.path, message);
        return;
    };
    let who = Who { node: label("node"), namespace, pod, container };
    for point in &series.points {
        let path = series.path_of(point);
        match bytes(&point.value) {
            Ok(bytes) => reader.keep(&who, point.at_ms, bytes, (point.part, &path)),
            Err(message) => reader.sheet.wrong(point.part, &path, message),
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
