//! Reading samples: the answer of a Prometheus range query, or scrapes of `/metrics` one after the other, each after a line with its time.
//!
//! The line before a scrape is `# scraped UNIX-SECONDS`, and for a server, which does not know its own pod, `# scraped UNIX-SECONDS
//! NAMESPACE/POD`. The text between is the Prometheus text format; a sample's own time stamp, which neither exporter writes, is an error.

use super::signals::{QUERY, Samples, Signal, renamed};
use crate::study::samples::{Sheet, milliseconds};
use crate::yaml::{Problem, Problems};
use std::collections::BTreeMap;

const SCRAPED: &str = "# scraped ";

/// Reads files of samples, by name and text.
///
/// # Errors
/// Every mistake of every file, with its line.
pub fn read(files: &[(String, String)]) -> Result<Samples, Problems> {
    let (mut samples, mut problems) = (Samples::default(), Problems::default());
    for (name, text) in files {
        let mut sheet = Sheet::new(name, text);
        let source = sheet.source();
        match text.trim_start().chars().next() {
            None => problems.push(Problem::of_file(name, "the file is empty: it must hold samples")),
            Some('{') => matrix(&mut sheet, &source.text, &mut samples),
            Some(_) => scrapes(&mut sheet, &source.text, &mut samples),
        }
        problems.keep(sheet.problems.or(()));
    }
    problems.or(samples)
}

fn matrix(sheet: &mut Sheet, text: &str, samples: &mut Samples) {
    let series = sheet.matrix(text, QUERY);
    let renamed = renamed(series.iter().map(|series| &series.labels));
    for series in &series {
        let Some(name) = series.labels.get("__name__") else {
            sheet.wrong(series.part, &series.path, format!("a series without a name: ask for {QUERY}"));
            continue;
        };
        let Some(signal) = Signal::of(name) else {
            samples.others += 1;
            continue;
        };
        let points = match samples.points(signal, &series.labels, renamed, None) {
            Ok(points) => points,
            Err(message) => {
                sheet.wrong(series.part, &series.path, message);
                continue;
            }
        };
        for point in &series.points {
            match signal.value(&point.value) {
                Ok(value) if points.insert(point.at_ms, value).is_none() => {}
                Ok(_) => sheet.wrong(point.part, &series.path_of(point), twice(name)),
                Err(message) => sheet.wrong(point.part, &series.path_of(point), message),
            }
        }
    }
}

fn twice(name: &str) -> String {
    format!("a second sample of {name} of this device or server at this time: it was scraped by two jobs, leave one of them out")
}

fn scrapes(sheet: &mut Sheet, text: &str, samples: &mut Samples) {
    let parsed: Vec<(&str, Result<Sample, String>)> =
        text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).map(|line| (line, sample(line))).collect();
    let renamed = renamed(parsed.iter().filter_map(|(_, sample)| sample.as_ref().ok()).map(|sample| &sample.labels));
    let mut parsed = parsed.into_iter();
    let mut scrape: Option<(i64, Option<&str>)> = None;
    // A time that cannot be read is told once, not again with each of its samples.
    let mut lost = false;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix(SCRAPED) {
            let mut words = rest.split_whitespace();
            let at_ms = milliseconds(words.next().unwrap_or_default());
            lost = at_ms.is_err();
            match at_ms {
                Ok(at_ms) => scrape = Some((at_ms, words.next())),
                Err(message) => sheet.wrong(line, "", message),
            }
        }
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((_, found)) = parsed.next() else { break };
        let found = match found {
            Ok(found) => found,
            Err(message) => {
                sheet.wrong(line, "", message);
                continue;
            }
        };
        let Some(signal) = Signal::of(&found.name).filter(|_| !lost) else { continue };
        let Some((at_ms, pod)) = scrape else {
            sheet.wrong(line, "", format!("no time: write `{SCRAPED}UNIX-SECONDS NAMESPACE/POD` before each scrape"));
            return;
        };
        let kept = signal.value(&found.value).and_then(|value| {
            let points = samples.points(signal, &found.labels, renamed, pod)?;
            points.insert(at_ms, value).map_or(Ok(()), |_| Err(twice(&found.name)))
        });
        if let Err(message) = kept {
            sheet.wrong(line, "", message);
        }
    }
}

struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: String,
}

/// A line of the text format: a name, labels in braces, a value.
fn sample(line: &str) -> Result<Sample, String> {
    let form = || "a sample is NAME{LABEL=\"VALUE\",…} NUMBER".to_owned();
    let end = line.find(|c: char| c == '{' || c.is_whitespace()).ok_or_else(form)?;
    let (name, mut rest) = line.split_at(end);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    if name.is_empty() || !name.chars().all(plain) {
        return Err(form());
    }
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside.trim_start();
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once('=').ok_or_else(form)?;
            let (value, after) = quoted(after.trim_start()).ok_or_else(form)?;
            labels.insert(label.trim().to_owned(), value);
            rest = after.trim_start();
            rest = rest.strip_prefix(',').map_or(rest, str::trim_start);
            if rest.is_empty() {
                return Err(form());
            }
        }
        rest = &rest[1..];
    }
    let mut words = rest.split_whitespace();
    let value = words.next().ok_or_else(form)?.to_owned();
    match words.next() {
        None => Ok(Sample { name: name.to_owned(), labels, value }),
        Some(_) => Err(format!("more than a number after the name: the time stands in the line `{SCRAPED}…` before the scrape")),
    }
}

/// A quoted label value and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let inside = text.strip_prefix('"')?;
    let (mut value, mut chars) = (String::new(), inside.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &inside[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            _ => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(text: &str) -> Result<Samples, Problems> {
        read(&[("samples".to_owned(), text.to_owned())])
    }

    #[test]
    fn scrapes_and_a_matrix_say_the_same() {
        let scrapes = "# scraped 1764540000 shop/chat-0\n# TYPE vllm:num_requests_waiting gauge\n\
            vllm:num_requests_waiting{engine=\"0\",model_name=\"a \\\"m\\\"\"} 3.0\nvllm:other 1\n\
            DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-1\",Hostname=\"n\",namespace=\"shop\",pod=\"chat-0\"} 97\n";
        let matrix = r#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{"__name__":"vllm:num_requests_waiting","namespace":"shop","pod":"chat-0","engine":"0","model_name":"a \"m\""},"values":[[1764540000,"3"]]},
            {"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","UUID":"GPU-1","Hostname":"n","namespace":"monitoring","pod":"dcgm-exporter-x","exported_namespace":"shop","exported_pod":"chat-0"},"values":[[1764540000,"97"]]},
            {"metric":{"__name__":"up"},"values":[]}]}}"#;
        let (scrapes, matrix) = (one(scrapes).unwrap(), one(matrix).unwrap());
        assert_eq!((&scrapes.gpus, &scrapes.engines), (&matrix.gpus, &matrix.engines));
        assert_eq!((scrapes.gpus.len(), matrix.others), (1, 1));
    }

    #[test]
    fn an_exporters_own_pod_holds_no_device() {
        let text = "# scraped 1764540000\nDCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-1\",exported_pod=\"chat-0\",pod=\"dcgm-x\"} 1\n\
            DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-2\",pod=\"dcgm-x\"} 0\n";
        let pods: Vec<_> = one(text).unwrap().gpus.into_keys().map(|gpu| gpu.pod).collect();
        assert_eq!(pods, [None, Some("chat-0".to_owned())]);
    }

    #[test]
    fn every_mistake_of_every_file_is_told() {
        let text = "# scraped yesterday\nvllm:num_requests_waiting 1\n# scraped 1764540000 shop/chat-0\nvllm:num_requests_waiting 1\n\
            vllm:num_requests_waiting 2\nvllm:kv_cache_usage_perc 55\nDCGM_FI_DEV_GPU_UTIL{pod=\"p\"} 1\nvllm:num_requests_waiting{a=\"b} 1\n\
            vllm:num_requests_waiting NaN\nvllm:num_requests_waiting 1 1764540000000\n<html>\n";
        let matrix = r#"{"status":"success","data":{"resultType":"matrix","result":[
 {"metric":{"pod":"p"},"values":[]},
 {"metric":{"__name__":"vllm:num_requests_waiting","job":"vllm"},"values":[]},
 {"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","gpu":"0"},"values":[[1764540000,"101"],[1764540060,7]]}]}}"#;
        let files = [("scrapes.txt".to_owned(), text.to_owned()), ("range.json".to_owned(), matrix.to_owned())];
        insta::assert_snapshot!(read(&files).unwrap_err().to_string());
        assert!(one("vllm:num_requests_waiting 1\n").unwrap_err().to_string().contains("no time"));
        assert!(one(" \n").is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String, tail in "[a-z:{}=\"\\\\, .0-9\n#]{0,80}") {
            let _ = (one(&text), one(&format!("# scraped 1764540000 p\n{tail}")), one(&format!("{{{tail}")));
        }

        #[test]
        fn a_quoted_value_is_read_as_it_was(value: String) {
            let written = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let written = format!("\"{written}\" 1");
            prop_assert_eq!(quoted(&written), Some((value, " 1")));
        }
    }
}
