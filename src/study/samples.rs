//! The answer of a Prometheus range query, series by series, so that each mistake in it is told with its own line.

use crate::yaml::{Mark, Path, Problems, Source};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A text that is being read, and what is wrong with it so far.
#[derive(Debug)]
pub struct Sheet {
    source: Arc<Source>,
    /// The mistakes.
    pub problems: Problems,
}

/// A series of a matrix.
#[derive(Debug)]
pub struct Series<'a> {
    /// Its text.
    pub part: &'a str,
    /// Where it stands in the answer.
    pub path: String,
    /// Its labels, without empty ones, which Prometheus takes for absent.
    pub labels: BTreeMap<String, String>,
    /// Its samples whose time can be read.
    pub points: Vec<Point<'a>>,
}

/// A sample.
#[derive(Debug)]
pub struct Point<'a> {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The value as it is written.
    pub value: String,
    /// The sample's text.
    pub part: &'a str,
    index: usize,
}

impl Series<'_> {
    /// Where a sample of this series stands in the answer.
    pub fn path_of(&self, point: &Point<'_>) -> String {
        format!("{}.values[{}]", self.path, point.index)
    }
}

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
struct Raw<'a> {
    metric: BTreeMap<String, String>,
    #[serde(borrow)]
    values: Vec<&'a RawValue>,
}

impl Sheet {
    /// A text that was not read yet.
    pub fn new(name: &str, text: &str) -> Sheet {
        Sheet { source: Arc::new(Source { name: name.to_owned(), text: text.to_owned() }), problems: Problems::default() }
    }

    /// The text. What is passed back to [`Sheet::wrong`] must be a slice of it.
    pub fn source(&self) -> Arc<Source> {
        self.source.clone()
    }

    /// A problem at a part of the text.
    pub fn wrong(&mut self, part: &str, path: &str, message: impl Into<String>) {
        let text = &self.source.text;
        let offset = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len());
        let before = text.get(..offset).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let mark = Mark {
            source: self.source.clone(),
            line: number(before.matches('\n').count() + 1),
            column: number(before[line_start..].chars().count() + 1),
        };
        self.problems.push(mark.problem(&Path::from(path), message));
    }

    /// The series of a range query's answer. `query` is what to ask for, for those who asked something else.
    pub fn matrix<'a>(&mut self, text: &'a str, query: &str) -> Vec<Series<'a>> {
        let Some(answer) = self.decode::<Answer<'_>>(text, "") else { return Vec::new() };
        let data = match (answer.status.as_str(), answer.data) {
            ("success", Some(data)) => data,
            (status, _) => {
                let error = answer.error.unwrap_or_else(|| "there is no data".to_owned());
                self.wrong(text, "", format!("the query ended with {status}: {error}"));
                return Vec::new();
            }
        };
        if data.result_type != "matrix" {
            let message = format!(
                "a {} and not a matrix: averages and peaks need a range, so ask /api/v1/query_range for {query}",
                data.result_type
            );
            self.wrong(text, "data.resultType", message);
            return Vec::new();
        }
        let series = data.result.iter().enumerate().filter_map(|(index, raw)| {
            let path = format!("data.result[{index}]");
            let found = self.decode::<Raw<'a>>(raw.get(), &path)?;
            let points = found.values.iter().enumerate().filter_map(|(index, raw)| {
                let place = || format!("{path}.values[{index}]");
                let (time, value) = self.decode::<(serde_json::Number, String)>(raw.get(), &place())?;
                let at_ms = milliseconds(&time.to_string()).map_err(|message| self.wrong(raw.get(), &place(), message)).ok()?;
                Some(Point { at_ms, value, part: raw.get(), index })
            });
            let points = points.collect();
            let labels = found.metric.into_iter().filter(|(_, value)| !value.is_empty()).collect();
            Some(Series { part: raw.get(), path, labels, points })
        });
        series.collect()
    }

    /// Decodes a slice of the text, and tells where in the whole text it is wrong.
    fn decode<'a, T: Deserialize<'a>>(&mut self, text: &'a str, path: &str) -> Option<T> {
        let error = match serde_json::from_str(text) {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let line_start = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
        let at = line_start + error.column().saturating_sub(1);
        let part = text.get(at..).unwrap_or(text);
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or(&message).to_owned();
        self.wrong(part, path, message);
        None
    }
}

/// Unix seconds as milliseconds, if the number can be one of this century.
pub fn milliseconds(text: &str) -> Result<i64, String> {
    let hint = "must be unix seconds, as `date +%s` prints them";
    let seconds: f64 = text.parse().map_err(|_| format!("the time {text:?} {hint}"))?;
    if !(946_684_800.0..4_102_444_800.0).contains(&seconds) {
        return Err(format!("the time {text} is not in this century: it {hint}"));
    }
    Ok((seconds * 1000.0).round() as i64)
}
