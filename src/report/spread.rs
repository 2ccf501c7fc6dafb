//! Distributions side by side, as SVG, on one logarithmic axis.

use super::chart::{WIDTH, escape};
use std::fmt::Write;

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
