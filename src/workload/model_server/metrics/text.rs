//! The Prometheus text format 0.0.4 as vLLM's Python client writes it.

use std::fmt::Write as _;

/// A histogram with fixed upper bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    bounds: Vec<f64>,
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// An empty one. Bounds rise; +Inf is added.
    pub fn new(bounds: &[f64]) -> Histogram {
        Histogram { bounds: bounds.to_vec(), counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// Counts a value.
    pub fn observe(&mut self, value: f64) {
        self.counts[self.bounds.partition_point(|bound| *bound < value)] += 1;
        self.sum += value;
    }
}

/// The text under construction. `base` are the labels that every series has.
#[derive(Debug)]
pub struct Text {
    base: String,
    out: String,
}

impl Text {
    /// An empty text.
    pub fn new(base: String) -> Text {
        Text { base, out: String::new() }
    }

    /// The text.
    pub fn finish(self) -> String {
        self.out
    }

    fn head(&mut self, kind: &str, name: &str, help: &str) {
        _ = write!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &str, value: f64) {
        let separator = if labels.is_empty() { "" } else { "," };
        _ = writeln!(self.out, "{name}{{{}{separator}{labels}}} {value:?}", self.base);
    }

    /// A gauge without labels of its own.
    pub fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.gauges(name, help, &[("", value)]);
    }

    /// A gauge with one series for each set of labels.
    pub fn gauges(&mut self, name: &str, help: &str, series: &[(&str, f64)]) {
        self.head("gauge", name, help);
        for (labels, value) in series {
            self.sample(name, labels, *value);
        }
    }

    /// A counter without labels of its own; `_total` is added.
    pub fn counter(&mut self, name: &str, help: &str, value: f64) {
        self.counters(name, help, &[("", value)]);
    }

    /// A counter with one series for each set of labels; `_total` is added.
    pub fn counters(&mut self, name: &str, help: &str, series: &[(&str, f64)]) {
        let name = format!("{name}_total");
        self.head("counter", &name, help);
        for (labels, value) in series {
            self.sample(&name, labels, *value);
        }
    }

    /// A histogram.
    pub fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head("histogram", name, help);
        let mut cumulative = 0;
        let bounds = histogram.bounds.iter().map(|bound| format!("{bound:?}")).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&histogram.counts) {
            cumulative += count;
            self.sample(&format!("{name}_bucket"), &format!("le=\"{bound}\""), cumulative as f64);
        }
        self.sample(&format!("{name}_count"), "", cumulative as f64);
        self.sample(&format!("{name}_sum"), "", histogram.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form() {
        let mut histogram = Histogram::new(&[0.01, 1.0]);
        for value in [0.01, 0.5, 7.0] {
            histogram.observe(value);
        }
        let mut text = Text::new(r#"engine="0""#.to_owned());
        text.histogram("a:b", "Help.", &histogram);
        text.counters("a:c", "Help.", &[(r#"reason="x""#, 2.0)]);
        let expected = r#"# HELP a:b Help.
# TYPE a:b histogram
a:b_bucket{engine="0",le="0.01"} 1.0
a:b_bucket{engine="0",le="1.0"} 2.0
a:b_bucket{engine="0",le="+Inf"} 3.0
a:b_count{engine="0"} 3.0
a:b_sum{engine="0"} 7.51
# HELP a:c_total Help.
# TYPE a:c_total counter
a:c_total{engine="0",reason="x"} 2.0
"#;
        assert_eq!(text.finish(), expected);
    }
}
