//! Charts as SVG, drawn by hand so that they follow the page's colours, light or dark, and need nothing from outside.

use std::fmt::Write;

/// The width every chart is drawn in; the page scales it.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 12.0;

/// One line or area over time.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name, for the tooltip.
    pub name: String,
    /// CSS class of its colour.
    pub class: String,
    /// Nanoseconds and value.
    pub points: Vec<(u64, f64)>,
    /// Filled down to the axis.
    pub filled: bool,
}

/// A line across, such as a limit.
#[derive(Debug, Clone)]
pub struct Level {
    /// What it is.
    pub label: String,
    /// Where.
    pub value: f64,
}

/// Something at a moment, such as a kill.
#[derive(Debug, Clone)]
pub struct Moment {
    /// What happened.
    pub label: String,
    /// When.
    pub at_ns: u64,
}

/// A chart over the common time axis.
#[derive(Debug, Clone)]
pub struct Chart<'a> {
    /// Read out to those who cannot see it.
    pub title: String,
    /// Series, from the back to the front.
    pub series: Vec<Series>,
    /// Lines across.
    pub levels: Vec<Level>,
    /// Moments.
    pub moments: Vec<Moment>,
    /// Phases: name, start and end.
    pub phases: &'a [(String, u64, u64)],
    /// End of the time axis.
    pub end_ns: u64,
    /// Top of the value axis.
    pub top: f64,
    /// Height of the plot.
    pub height: f64,
    /// Says a value with its unit.
    pub say: fn(f64) -> String,
    /// Whether values are bytes, whose round numbers are powers of two.
    pub binary: bool,
    /// Whether the time axis is written below.
    pub axis: bool,
}

impl Chart<'_> {
    /// The drawing.
    #[must_use]
    pub fn svg(&self) -> String {
        let (up, down) = (18.0, if self.axis { 30.0 } else { 8.0 });
        let total = up + self.height + down;
        let x = |ns: u64| LEFT + (WIDTH - LEFT - RIGHT) * ns as f64 / self.end_ns.max(1) as f64;
        let y = |value: f64| up + self.height * (1.0 - (value / self.top.max(f64::MIN_POSITIVE)).min(1.0));
        let base = up + self.height;
        let mut svg = format!(r#"<svg viewBox="0 0 {WIDTH} {total:.0}" role="img" aria-label="{}">"#, escape(&self.title));
        for (i, (name, start, end)) in self.phases.iter().enumerate() {
            let (from, to) = (x(*start), x(*end));
            let class = if i % 2 == 1 { "band odd" } else { "band" };
            let _ = write!(
                svg,
                r#"<rect class="{class}" x="{from:.1}" y="{up}" width="{:.1}" height="{:.1}"/>"#,
                to - from,
                self.height
            );
            // A phase that is too narrow for its name keeps it as a tooltip only.
            let label = if to - from > name.len() as f64 * 7.0 + 8.0 { name.as_str() } else { "" };
            let _ = write!(
                svg,
                r#"<text class="phase" x="{:.1}" y="12">{}<title>{}</title></text>"#,
                from + 4.0,
                escape(label),
                escape(name)
            );
        }
        for value in if self.binary { binary_ticks(self.top) } else { ticks(self.top, 3) } {
            let _ = write!(
                svg,
                r#"<line class="grid" x1="{LEFT}" x2="{:.0}" y1="{2:.1}" y2="{2:.1}"/><text class="tick" x="{:.0}" y="{3:.1}" text-anchor="end">{4}</text>"#,
                WIDTH - RIGHT,
                LEFT - 8.0,
                y(value),
                y(value) + 4.0,
                escape(&(self.say)(value)),
            );
        }
        for series in &self.series {
            svg.push_str(&path(series, &x, &y, base));
        }
        for level in self.levels.iter().filter(|l| l.value <= self.top) {
            let _ = write!(
                svg,
                r#"<line class="level" x1="{LEFT}" x2="{:.0}" y1="{2:.1}" y2="{2:.1}"/><text class="level" x="{1:.0}" y="{3:.1}" text-anchor="end">{4}</text>"#,
                WIDTH - RIGHT,
                WIDTH - RIGHT - 4.0,
                y(level.value),
                y(level.value) - 4.0,
                escape(&level.label),
            );
        }
        for moment in &self.moments {
            let at = x(moment.at_ns);
            let _ = write!(
                svg,
                r#"<g class="kill"><line x1="{at:.1}" x2="{at:.1}" y1="{up}" y2="{base:.1}"/><path d="M{:.1} {:.1}l8 8m0 -8l-8 8"/><title>{}</title></g>"#,
                at - 4.0,
                up + 2.0,
                escape(&moment.label),
            );
        }
        if self.axis {
            for ns in ticks(self.end_ns as f64 / 1e9, 8) {
                let at = x((ns * 1e9) as u64);
                let _ = write!(
                    svg,
                    r#"<line class="mark" x1="{at:.1}" x2="{at:.1}" y1="{base:.1}" y2="{:.1}"/><text class="tick" x="{at:.1}" y="{:.1}" text-anchor="middle">{} s</text>"#,
                    base + 5.0,
                    base + 20.0,
                    trimmed(ns),
                );
            }
        }
        let _ = write!(svg, r#"<line class="axis" x1="{LEFT}" x2="{:.0}" y1="{base:.1}" y2="{base:.1}"/></svg>"#, WIDTH - RIGHT);
        svg
    }
}

fn path(series: &Series, x: &impl Fn(u64) -> f64, y: &impl Fn(f64) -> f64, base: f64) -> String {
    let Some((first, _)) = series.points.first() else { return String::new() };
    let mut d = String::new();
    for (i, (ns, value)) in series.points.iter().enumerate() {
        let _ = write!(d, "{}{:.1} {:.1}", if i == 0 { 'M' } else { 'L' }, x(*ns), y(*value));
    }
    let (class, name) = (&series.class, escape(&series.name));
    if series.filled {
        let last = series.points.last().map_or(*first, |p| p.0);
        let area = format!("{d}L{:.1} {base:.1}L{:.1} {base:.1}Z", x(last), x(*first));
        // The mask hides what is stacked behind, so that colours do not mix.
        format!(
            r#"<path class="mask" d="{area}"/><path class="area {class}" d="{area}"><title>{name}</title></path><path class="line {class}" d="{d}"/>"#
        )
    } else {
        format!(r#"<path class="line {class}" d="{d}"><title>{name}</title></path>"#)
    }
}

/// Distributions side by side on one logarithmic axis.
#[derive(Debug, Clone)]
pub struct Spread {
    /// The arm.
    pub name: String,
    /// CSS class of its colour.
    pub class: String,
    /// Smallest and largest, in nanoseconds.
    pub range: Option<(f64, f64)>,
    /// Percentiles that have enough samples: label and nanoseconds.
    pub points: Vec<(&'static str, f64)>,
    /// What to write where there is nothing to draw.
    pub note: String,
}

/// Draws distributions.
#[must_use]
pub fn spreads(title: &str, list: &[Spread], say: fn(f64) -> String) -> String {
    let row = 34.0;
    let left = 150.0;
    let all = list.iter().filter_map(|s| s.range);
    let (low, high) = all.fold((f64::MAX, f64::MIN), |(low, high), (a, b)| (low.min(a), high.max(b)));
    if low > high {
        return String::new();
    }
    let (from, to) = ((low.max(1.0)).log10() - 0.08, high.max(1.0).log10() + 0.12);
    let x = |ns: f64| left + (WIDTH - left - 60.0) * (ns.max(1.0).log10() - from) / (to - from).max(0.01);
    let (up, height) = (12.0, list.len() as f64 * row + 12.0);
    let mut svg = format!(r#"<svg viewBox="0 0 {WIDTH} {:.0}" role="img" aria-label="{}">"#, height + 30.0, escape(title));
    for decade in (from.floor() as i32)..=(to.ceil() as i32) {
        for step in [1.0, 2.0, 5.0] {
            let ns = step * 10f64.powi(decade);
            if ns.log10() >= from && ns.log10() <= to {
                let at = x(ns);
                let _ = write!(
                    svg,
                    r#"<line class="grid" x1="{at:.1}" x2="{at:.1}" y1="0" y2="{height:.0}"/><text class="tick" x="{at:.1}" y="{:.0}" text-anchor="middle">{}</text>"#,
                    height + 18.0,
                    escape(&say(ns)),
                );
            }
        }
    }
    for (i, spread) in list.iter().enumerate() {
        let y = up + i as f64 * row + row / 2.0;
        let _ = write!(
            svg,
            r#"<text class="name" x="{:.0}" y="{:.1}" text-anchor="end">{}</text>"#,
            left - 12.0,
            y + 4.0,
            escape(&spread.name)
        );
        match spread.range {
            Some((a, b)) => {
                let _ = write!(
                    svg,
                    r#"<line class="whisker {0}" x1="{1:.1}" x2="{2:.1}" y1="{3:.1}" y2="{3:.1}"><title>{4} to {5}</title></line>"#,
                    spread.class,
                    x(a),
                    x(b).max(x(a) + 1.0),
                    y,
                    escape(&say(a)),
                    escape(&say(b)),
                );
            }
            None => {
                let _ =
                    write!(svg, r#"<text class="note" x="{:.0}" y="{:.1}">{}</text>"#, left + 4.0, y + 4.0, escape(&spread.note));
            }
        }
        for (j, (label, ns)) in spread.points.iter().enumerate() {
            let (at, text) = (x(*ns), format!("{label} {}", say(*ns)));
            let radius = if j == 0 { 6 } else { 4 };
            let _ = write!(svg, r#"<circle class="dot {}" cx="{at:.1}" cy="{y:.1}" r="{radius}"/>"#, spread.class);
            let _ = write!(
                svg,
                r#"<text class="value" x="{at:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
                y - 10.0,
                escape(&text)
            );
        }
    }
    svg.push_str("</svg>");
    svg
}

/// Round values from 0 to the top, about so many.
fn ticks(top: f64, about: usize) -> Vec<f64> {
    if top <= 0.0 {
        return vec![0.0];
    }
    let raw = top / about as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|f| f * power).find(|s| *s >= raw).unwrap_or(raw);
    (0..).map(|i| f64::from(i) * step).take_while(|v| *v <= top * 1.0001).collect()
}

/// Powers of two from 0 to the top, two to four of them.
fn binary_ticks(top: f64) -> Vec<f64> {
    let step = 2f64.powf((top.max(1.0) / 2.0).log2().floor());
    (0..).map(|i| f64::from(i) * step).take_while(|v| *v <= top * 1.0001).collect()
}

/// The smallest round top above a value, in steps that suit powers of two.
#[must_use]
pub fn binary_top(value: f64) -> f64 {
    let power = 2f64.powf(value.max(1.0).log2().floor());
    [1.0, 1.25, 1.5, 1.75, 2.0].iter().map(|f| f * power).find(|t| *t >= value).unwrap_or(value)
}

fn trimmed(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Text for XML.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_the_top() {
        assert_eq!(ticks(10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(0.0, 5), [0.0]);
        assert_eq!(ticks(61.3, 8), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(binary_top(80.0), 80.0);
        assert_eq!(binary_top(81.0), 96.0);
        assert_eq!(binary_ticks(96.0), [0.0, 32.0, 64.0, 96.0]);
    }

    #[test]
    fn names_from_a_lab_cannot_break_the_drawing() {
        let chart = Chart {
            title: "a<b>\"".into(),
            series: vec![],
            levels: vec![],
            moments: vec![Moment { label: "<script>".into(), at_ns: 1 }],
            phases: &[("<p>".into(), 0, 10)],
            end_ns: 10,
            top: 1.0,
            height: 100.0,
            say: |v| v.to_string(),
            binary: false,
            axis: true,
        };
        let svg = chart.svg();
        assert!(!svg.contains("<script>") && !svg.contains("<p>") && svg.contains("&lt;script&gt;"));
    }
}
