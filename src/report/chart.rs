//! Charts as SVG, drawn by hand so that they follow the page's colours, light or dark, and need nothing from outside.

use super::plain::shortened;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The width every chart is drawn in; the page scales it.
pub const WIDTH: f64 = 960.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 12.0;

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draw {
    /// As a line of its own.
    Line,
    /// As an area on top of the stacked series before it.
    Stack,
    /// As an area that hangs down from zero.
    Below,
    /// As points.
    Dots,
}

/// One line or area over time.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name, for the cursor and the tooltip.
    pub name: String,
    /// CSS class of its colour.
    pub class: String,
    /// Nanoseconds and its own value, in order of time.
    pub points: Vec<(u64, f64)>,
    /// How it is drawn.
    pub draw: Draw,
}

/// A line across, such as a limit.
#[derive(Debug, Clone)]
pub struct Level {
    /// What it is.
    pub label: String,
    /// Where.
    pub value: f64,
    /// Whether it bounds what hangs down.
    pub below: bool,
}

/// Something at a moment, such as a kill.
#[derive(Debug, Clone)]
pub struct Moment {
    /// What happened.
    pub label: String,
    /// When.
    pub at_ns: u64,
    /// CSS class: `kill` is drawn through the whole chart, `start`, `ready` and `exit` at its top.
    pub class: &'static str,
}

/// The unit of a chart's values, for axis and cursor.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Its name in the page's script.
    pub name: &'static str,
    /// Says a value with its unit.
    pub say: fn(f64) -> String,
    /// Whether values are bytes, whose round numbers are powers of two.
    pub binary: bool,
}

/// A chart over the common time axis.
#[derive(Debug, Clone)]
pub struct Chart<'a> {
    /// Read out to those who cannot see it.
    pub title: String,
    /// Series; stacked ones from the bottom up.
    pub series: Vec<Series>,
    /// Lines across.
    pub levels: Vec<Level>,
    /// Moments.
    pub moments: &'a [Moment],
    /// Phases: name, start and end.
    pub phases: &'a [(String, u64, u64)],
    /// End of the time axis.
    pub end_ns: u64,
    /// Top of the value axis.
    pub top: f64,
    /// How far values hang down below zero.
    pub below: f64,
    /// Height of the plot.
    pub height: f64,
    /// The unit.
    pub scale: Scale,
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
        let span = (self.top + self.below).max(f64::MIN_POSITIVE);
        let y = |value: f64| up + self.height * (self.top - value.clamp(-self.below, self.top)) / span;
        let base = up + self.height;
        let mut svg = format!(
            r#"<svg class="time" viewBox="0 0 {WIDTH} {total:.0}" role="img" aria-label="{}" data-end="{}" data-unit="{}">"#,
            escape(&self.title),
            self.end_ns,
            self.scale.name
        );
        // What is stretched when the page zooms into the axis lies in a drawing of its own; words and marks are only moved.
        let mut plot = String::new();
        for (i, (name, start, end)) in self.phases.iter().enumerate() {
            let (from, to) = (x(*start), x(*end));
            let class = if i % 2 == 1 { "band odd" } else { "band" };
            let _ = write!(
                plot,
                r#"<rect class="{class}" x="{from:.1}" y="{up}" width="{:.1}" height="{:.1}"/>"#,
                to - from,
                self.height
            );
            // A phase that is too narrow for its name keeps it as a tooltip only.
            let label = if to - from > name.chars().count() as f64 * 7.0 + 8.0 { name.as_str() } else { "" };
            let _ = write!(
                svg,
                r#"<text class="phase" x="{:.1}" y="12" data-from="{start}" data-to="{end}">{}<title>{}</title></text>"#,
                from + 4.0,
                escape(label),
                escape(name)
            );
        }
        let ticks = |to: f64| if self.scale.binary { binary_ticks(to) } else { ticks(to, 3) };
        // The longer side sets the step, so that both sides count alike.
        let step = ticks(self.top.max(self.below)).get(1).copied().unwrap_or(f64::INFINITY);
        let down = (1..).map(|i| f64::from(i) * step).take_while(|v| *v <= self.below * 1.0001).map(|v| -v);
        let above = (0..).map(|i| f64::from(i) * step).take_while(|v| *v <= self.top * 1.0001 || *v == 0.0);
        for value in above.chain(down) {
            let _ = write!(
                svg,
                r#"<line class="grid" x1="{LEFT}" x2="{:.0}" y1="{2:.1}" y2="{2:.1}"/><text class="tick" x="{:.0}" y="{3:.1}" text-anchor="end">{4}</text>"#,
                WIDTH - RIGHT,
                LEFT - 8.0,
                y(value),
                y(value) + 4.0,
                escape(&(self.scale.say)(value.abs())),
            );
        }
        plot.push_str(&self.drawn(&x, &y));
        let width = WIDTH - LEFT - RIGHT;
        let _ = write!(
            svg,
            r#"<svg class="plot" x="{LEFT}" y="0" width="{width}" height="{total:.0}" viewBox="{LEFT} 0 {width} {total:.0}" preserveAspectRatio="none">{plot}</svg>"#
        );
        svg.push_str(&self.across(&y));
        for moment in self.moments {
            svg.push_str(&mark(moment, x(moment.at_ns), up, base));
        }
        if self.axis {
            for seconds in self::ticks(self.end_ns as f64 / 1e9, 8) {
                let at = x((seconds * 1e9) as u64);
                let _ = write!(
                    svg,
                    r#"<g class="at"><line class="mark" x1="{at:.1}" x2="{at:.1}" y1="{base:.1}" y2="{:.1}"/><text class="tick" x="{at:.1}" y="{:.1}" text-anchor="middle">{} s</text></g>"#,
                    base + 5.0,
                    base + 20.0,
                    trimmed(seconds),
                );
            }
        }
        let _ =
            write!(svg, r#"<line class="axis" x1="{LEFT}" x2="{:.0}" y1="{1:.1}" y2="{1:.1}"/></svg>"#, WIDTH - RIGHT, y(0.0));
        svg
    }

    /// Lines across with their names: at the right, at the left where another name is too near, and only on the line where both are taken.
    fn across(&self, y: &impl Fn(f64) -> f64) -> String {
        const LETTERS: f64 = 13.0;
        let mut svg = String::new();
        let mut taken: [Vec<f64>; 2] = Default::default();
        for level in self.levels.iter().filter(|l| l.value <= if l.below { self.below } else { self.top }) {
            let at = y(if level.below { -level.value } else { level.value });
            let foot = if level.below { at + 12.0 } else { at - 4.0 };
            let label = escape(&level.label);
            let _ = write!(
                svg,
                r#"<line class="level" x1="{LEFT}" x2="{:.0}" y1="{1:.1}" y2="{1:.1}"><title>{label}</title></line>"#,
                WIDTH - RIGHT,
                at
            );
            let free = taken.iter_mut().position(|feet| feet.iter().all(|other| (other - foot).abs() >= LETTERS));
            if let Some(side) = free {
                taken[side].push(foot);
                let (x, anchor) = if side == 0 { (WIDTH - RIGHT - 4.0, "end") } else { (LEFT + 4.0, "start") };
                let label = escape(&shortened(&level.label, 60));
                let _ = write!(svg, r#"<text class="level" x="{x:.0}" y="{foot:.1}" text-anchor="{anchor}">{label}</text>"#);
            }
        }
        svg
    }

    /// Stacked series from the top down, so that the lower ones cover what they must; then the others.
    fn drawn(&self, x: &impl Fn(u64) -> f64, y: &impl Fn(f64) -> f64) -> String {
        let mut reached: BTreeMap<u64, f64> = BTreeMap::new();
        let (mut stacked, mut others) = (Vec::new(), String::new());
        for series in &self.series {
            let own = series.points.iter();
            match series.draw {
                Draw::Stack => {
                    let heights = own.map(|(ns, value)| {
                        let height = reached.entry(*ns).or_default();
                        *height += value;
                        *height
                    });
                    stacked.push(path(series, heights.collect(), x, y));
                }
                Draw::Below => others += &path(series, own.map(|p| -p.1).collect(), x, y),
                Draw::Line => others += &path(series, own.map(|p| p.1).collect(), x, y),
                Draw::Dots => others += &dots(series, x, y),
            }
        }
        stacked.into_iter().rev().collect::<String>() + &others
    }
}

/// A series at these heights; where it neither rises nor falls only the ends of the stretch are kept.
fn path(series: &Series, heights: Vec<f64>, x: &impl Fn(u64) -> f64, y: &impl Fn(f64) -> f64) -> String {
    let at = |i: usize| (format!("{:.1}", y(heights[i])), trimmed(series.points[i].1));
    let all: Vec<_> = (0..heights.len()).map(at).collect();
    let (mut d, mut values) = (String::new(), String::new());
    let mut ends: Option<(f64, f64)> = None;
    for (i, point) in all.iter().enumerate() {
        let flat = i > 0 && i + 1 < all.len() && all[i - 1] == *point && all[i + 1] == *point;
        if !flat {
            let across = x(series.points[i].0);
            let _ = write!(d, "{}{across:.1} {}", if ends.is_none() { 'M' } else { 'L' }, point.0);
            let _ = write!(values, "{}{}", if ends.is_none() { "" } else { " " }, point.1);
            ends = Some((ends.map_or(across, |e| e.0), across));
        }
    }
    let Some((first, last)) = ends else { return String::new() };
    let (class, name, zero) = (&series.class, escape(&series.name), y(0.0));
    let area = match series.draw {
        Draw::Line => String::new(),
        _ => format!(
            r#"<path class="area {class}" d="{d}L{last:.1} {zero:.1}L{first:.1} {zero:.1}Z"><title>{name}</title></path>"#
        ),
    };
    format!(r#"{area}<path class="line {class}" d="{d}" data-n="{name}" data-v="{values}"><title>{name}</title></path>"#)
}

/// Points as stretches without length, which a round pen draws as dots of its own width.
fn dots(series: &Series, x: &impl Fn(u64) -> f64, y: &impl Fn(f64) -> f64) -> String {
    if series.points.is_empty() {
        return String::new();
    }
    let mut d = String::new();
    for (at_ns, value) in &series.points {
        let _ = write!(d, "M{:.1} {:.1}h0", x(*at_ns), y(*value));
    }
    format!(r#"<path class="dots {}" d="{d}"><title>{}</title></path>"#, series.class, escape(&series.name))
}

fn mark(moment: &Moment, at: f64, up: f64, base: f64) -> String {
    let shape = match moment.class {
        "kill" => format!(
            r#"<line x1="{at:.1}" x2="{at:.1}" y1="{up}" y2="{base:.1}"/><path d="M{:.1} {:.1}l8 8m0 -8l-8 8"/>"#,
            at - 4.0,
            up + 2.0
        ),
        "start" => format!(r#"<path d="M{:.1} {:.1}l7 4l-7 4z"/>"#, at, up + 1.0),
        "ready" => format!(r#"<circle cx="{at:.1}" cy="{:.1}" r="3.5"/>"#, up + 5.0),
        _ => format!(r#"<path d="M{:.1} {:.1}h7v7h-7z"/>"#, at - 3.5, up + 1.5),
    };
    format!(
        r#"<g class="moment {}" data-at="{}">{shape}<title>{}</title></g>"#,
        moment.class,
        moment.at_ns,
        escape(&moment.label)
    )
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

/// At most three digits behind the point.
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

    fn chart<'a>(series: Vec<Series>, moments: &'a [Moment], phases: &'a [(String, u64, u64)]) -> Chart<'a> {
        let scale = Scale { name: "count", say: |v| v.to_string(), binary: false };
        Chart {
            title: "a<b>\"".into(),
            series,
            levels: vec![],
            moments,
            phases,
            end_ns: 10,
            top: 10.0,
            below: 10.0,
            height: 200.0,
            scale,
            axis: true,
        }
    }

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
        let moments = [Moment { label: "<script>".into(), at_ns: 1, class: "kill" }];
        let series =
            Series { name: "\"><script>".into(), class: "swap".into(), points: vec![(1, 2.0), (3, 4.0)], draw: Draw::Below };
        let svg = chart(vec![series], &moments, &[("<p>".into(), 0, 10)]).svg();
        assert!(!svg.contains("<script>") && !svg.contains("<p>") && svg.contains("&lt;script&gt;"));
    }

    #[test]
    fn areas_stack_up_and_hang_down_and_the_cursor_reads_their_own_values() {
        let series = |name: &str, draw, values: &[f64]| Series {
            name: name.into(),
            class: String::new(),
            points: values.iter().enumerate().map(|(i, v)| (i as u64, *v)).collect(),
            draw,
        };
        let list = vec![
            series("anon", Draw::Stack, &[2.0, 2.0, 2.0, 4.0]),
            series("file", Draw::Stack, &[1.0, 1.0, 1.0, 1.0]),
            series("swap", Draw::Below, &[0.0, 0.0, 0.0, 5.0]),
        ];
        let svg = chart(list, &[], &[]).svg();
        // 10 values are 100 units high; zero lies at 118.
        assert!(svg.contains(r#"d="M72.0 98.0L247.2 98.0L334.8 78.0" data-n="anon" data-v="2 2 4""#), "{svg}");
        assert!(svg.contains(r#"d="M72.0 88.0L247.2 88.0L334.8 68.0" data-n="file" data-v="1 1 1""#), "{svg}");
        assert!(svg.contains(r#"L334.8 168.0" data-n="swap" data-v="0 0 5""#), "{svg}");
        assert!(svg.find("data-n=\"file\"") < svg.find("data-n=\"anon\""), "the lower area covers the upper one");
    }
}
