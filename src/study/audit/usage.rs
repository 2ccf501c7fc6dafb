//! Usage samples as people can really produce them: a Prometheus range query, or lines of `kubectl top` with the time before each.
//!
//! Prometheus: the answer of `/api/v1/query_range` to [`QUERY`], a matrix with the labels `namespace`, `pod`, `container` and, where the
//! cluster has it, `node`. Lines: unix seconds, then the columns of `kubectl top pod -A --containers --no-headers`, for example
//! `1764540000 shop web-0 server 120m 812Mi`; empty lines and lines that begin with # are skipped.

mod lines;
mod prometheus;

use crate::study::samples::Sheet;
use crate::yaml::{Problem, Problems};
use std::collections::BTreeMap;

/// The query whose range answer is read. `max` folds what two scrape jobs of one kubelet export twice.
pub const QUERY: &str = r#"max by (node, namespace, pod, container) (container_memory_working_set_bytes{container!="",pod!=""})"#;

/// A container's name in the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who {
    /// The node, where the samples say it.
    pub node: Option<String>,
    /// The namespace.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// The container.
    pub container: String,
}

/// Bytes in use by container and time (milliseconds since 1970).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// The samples.
    pub series: BTreeMap<Who, BTreeMap<i64, u64>>,
    /// Series that are sums over containers (no container label) and so were left out.
    pub sums: usize,
}

/// Reads files of samples, by name and text.
///
/// # Errors
/// Every mistake of every file, with its line.
pub fn read(files: &[(String, String)]) -> Result<Usage, Problems> {
    let (mut usage, mut problems) = (Usage::default(), Problems::default());
    for (name, text) in files {
        let mut reader = Reader { sheet: Sheet::new(name, text), usage };
        let source = reader.sheet.source();
        match text.trim_start().chars().next() {
            None => problems.push(Problem::of_file(name, "the file is empty: it must hold samples")),
            Some('{') => prometheus::read(&mut reader, &source.text),
            Some(_) => lines::read(&mut reader, &source.text),
        }
        problems.keep(reader.sheet.problems.or(()));
        usage = reader.usage;
    }
    problems.or(usage)
}

/// What is read so far of a file and those before it.
struct Reader {
    sheet: Sheet,
    usage: Usage,
}

impl Reader {
    /// Keeps a sample. Two for one container at one time contradict each other.
    fn keep(&mut self, who: &Who, at_ms: i64, bytes: u64, (part, path): (&str, &str)) {
        let points = self.usage.series.entry(who.clone()).or_default();
        if points.insert(at_ms, bytes).is_some() {
            let message = format!(
                "a second sample of {}/{}/{} at this time: aggregate what is exported twice, with {QUERY}",
                who.namespace, who.pod, who.container
            );
            self.sheet.wrong(part, path, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(text: &str) -> Result<Usage, Problems> {
        read(&[("usage".to_owned(), text.to_owned())])
    }

    const LINES: &str = "# of a day\n1764540000 NAMESPACE POD NAME CPU(cores) MEMORY(bytes)\n1764540000 shop web-0 server 120m 812Mi\n\n1764540060 shop web-0 server 1 1Gi\n";

    #[test]
    fn lines_and_a_matrix_say_the_same() {
        let matrix = r#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{"namespace":"shop","pod":"web-0","container":"server"},"values":[[1764540000,"851443712"],[1764540060.000,"1073741824"]]},
            {"metric":{"namespace":"shop","pod":"web-0"},"values":[[1764540000,"9"]]}]}}"#;
        let (lines, matrix) = (one(LINES).unwrap(), one(matrix).unwrap());
        assert_eq!(lines.series, matrix.series);
        assert_eq!((lines.sums, matrix.sums), (0, 1));
    }

    #[test]
    fn every_mistake_of_every_file_is_told() {
        let lines = "1764540000 shop web-0 server 120m\n2026-11-30T22:00:00Z shop web-0 server 1m 1Mi\n1764540000 shop web-0 server 1m 9Mb\n1764540000 a b c 1m 1Mi\n1764540000 a b c 1m 1Mi\n";
        let matrix = r#"{"status":"success","data":{"resultType":"matrix","result":[
 {"metric":{"namespace":"shop","container":"server"},"values":[]},
 {"metric":{"__name__":"container_memory_rss","namespace":"s","pod":"p","container":"c"},"values":[[1764540000,"1"]]},
 {"metric":{"namespace":"s","pod":"p","container":"c"},"values":[[1764540000,"NaN"],[1764540060,7],["x","1"]]},
 {"metric":{"namespace":"s","pod":"p","container":"c"},"value":[1764540000,"1"]}]}}"#;
        let files = [("top.txt".to_owned(), lines.to_owned()), ("range.json".to_owned(), matrix.to_owned())];
        insta::assert_snapshot!(read(&files).unwrap_err().to_string());
    }

    #[test]
    fn answers_that_are_no_range_are_refused() {
        let vector = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
        assert!(one(vector).unwrap_err().to_string().contains("query_range"));
        let failed = r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#;
        assert!(one(failed).unwrap_err().to_string().contains("parse error"));
        let text = one("{\n\"status\": }").unwrap_err().to_string();
        assert!(text.starts_with("usage:2:"), "{text}");
        assert!(one(" \n").is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String, tail in "[0-9 {}:\",\\[\\]a-z.]{0,60}") {
            let _ = (one(&text), one(&format!("{{{tail}")), one(&format!("1764540000 {tail}")));
        }

        #[test]
        fn what_is_written_as_lines_is_read(samples in prop::collection::btree_map(1_000_000_000i64..2_000_000_000, 0u64..1 << 50, 1..20)) {
            let text: String = samples.iter().map(|(at, bytes)| format!("{at} n p c 1m {bytes}\n")).collect();
            let usage = one(&text).unwrap();
            let expected: BTreeMap<i64, u64> = samples.iter().map(|(at, bytes)| (at * 1000, *bytes)).collect();
            prop_assert_eq!(usage.series.values().next().unwrap(), &expected);
        }
    }
}
