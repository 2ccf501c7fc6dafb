//! Where a sweep crosses from harm to help: the swept arms against the one that stays, in one sentence.

use super::expect::name;
use super::figure::figure;
use super::result::{ArmResult, SweepPoint, SweepResult};
use crate::lab::{Lab, MetricName, MetricRef, Sweep};
use crate::study::Figure;

/// Figures this near to each other are the same.
const SAME: f64 = 0.02;

/// How a point compares with the arm that stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Worse,
    Same,
    Better,
}

/// The sweep of a swept lab; none in a lab whose arms are others, or when none of them was run.
pub fn sweep(lab: &Lab, arms: &[ArmResult]) -> Option<SweepResult> {
    let sweep = lab.sweep.as_ref().filter(|sweep| sweep.arms().all(|arm| lab.arm(&arm).is_some()))?;
    let unit = sweep.metric.unit();
    let of = |arm: &str| arms.iter().find(|a| a.name == arm).map(|arm| figure(arm, &sweep.metric));
    let against = of(&sweep.against)?;
    let mut points = Vec::new();
    for value in &sweep.values {
        let found = of(&sweep.arm_of(value))?;
        points.push((value.0.clone(), found));
    }
    let (crossed, sentence) = match sentence(sweep, &against, &points) {
        Ok(sentence) => (true, sentence),
        Err(sentence) => (false, sentence),
    };
    Some(SweepResult {
        set: sweep.set.clone(),
        points: points.into_iter().map(|(value, f)| SweepPoint { value, figure: f.number(), text: f.say(unit) }).collect(),
        against: sweep.against.clone(),
        against_text: against.say(unit),
        crossed,
        sentence,
    })
}

/// The crossing in a sentence, or a sentence that says why there is none.
fn sentence(sweep: &Sweep, against: &Figure, points: &[(String, Figure)]) -> Result<String, String> {
    let unit = sweep.metric.unit();
    let what = name(&MetricRef { arm: None, ..sweep.metric.clone() }, &sweep.against);
    let field = short(&sweep.set);
    let side = |point: &Figure| Some(side(sweep.metric.name, point.number()?, against.number()?));
    let sides: Option<Vec<Side>> = points.iter().map(|(_, point)| side(point)).collect();
    let Some(sides) = sides else {
        return Err(format!("{what} could not be compared: a figure is missing"));
    };
    let said = |i: usize| format!("{} ({})", points[i].0, points[i].1.say(unit));
    let base = format!("{what}, is {}", against.say(unit));
    let first = sides.iter().rposition(|side| *side != Side::Better).map_or(0, |last| last + 1);
    if first == points.len() {
        return Err(format!("{base}; no {field} up to {} makes it better", said(points.len() - 1)));
    }
    if first == 0 {
        return Err(format!("{base}; every {field} from {} on makes it better", said(0)));
    }
    let worse: Vec<_> = (0..first).filter(|i| sides[*i] == Side::Worse).map(said).collect();
    let (harm, from) = match &worse[..] {
        [] => (String::new(), "no help"),
        all => (format!("worse with {}, ", all.join(", ")), "harm"),
    };
    Ok(format!(
        "{base}; by {field} it is {harm}no better yet with {}, better from {} on: the crossing point from {from} to help lies between {} \
         and {}",
        said(first - 1),
        said(first),
        points[first - 1].0,
        points[first].0
    ))
}

fn side(metric: MetricName, own: f64, other: f64) -> Side {
    let more_is_better =
        matches!(metric, MetricName::RequestsOk | MetricName::Goodput | MetricName::Throughput | MetricName::GpuBusy);
    let (own, other) = if more_is_better { (other, own) } else { (own, other) };
    let room = SAME * own.abs().max(other.abs());
    match own - other {
        d if d > room => Side::Worse,
        d if d < -room => Side::Better,
        _ => Side::Same,
    }
}

/// The end of a path that a reader knows: `requests.memory` of `pods.p.spec.containers[c].resources.requests.memory`.
fn short(path: &str) -> &str {
    let mut dots = path.rmatch_indices('.');
    dots.next();
    dots.next().map_or(path, |(at, _)| &path[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab;

    fn told(against: f64, points: [f64; 4]) -> Result<String, String> {
        let sweep = lab::load(&lab::find("swap/mis-sized").unwrap()).unwrap().sweep.unwrap();
        let points: Vec<_> =
            ["1Mi", "2Mi", "3Mi", "4Mi"].iter().zip(points).map(|(v, s)| ((*v).to_owned(), Figure::Number(s * 1e9))).collect();
        sentence(&sweep, &Figure::Number(against * 1e9), &points)
    }

    #[test]
    fn the_crossing_is_said_in_a_sentence() {
        let text = told(20.0, [25.0, 22.0, 20.1, 0.0]).unwrap();
        assert!(
            text.contains("worse with 1Mi (25.0 s), 2Mi (22.0 s), no better yet with 3Mi (20.1 s), better from 4Mi (0 ns) on"),
            "{text}"
        );
        assert!(text.ends_with("from harm to help lies between 3Mi and 4Mi"), "{text}");
        let text = told(20.0, [20.0, 20.0, 0.0, 0.0]).unwrap();
        assert!(text.ends_with("from no help to help lies between 2Mi and 3Mi"), "{text}");
        // A value that helps before one that does not is no crossing yet.
        assert!(told(20.0, [0.0, 25.0, 1.0, 1.0]).unwrap().ends_with("between 2Mi and 3Mi"));
    }

    #[test]
    fn without_a_crossing_there_is_none() {
        assert!(told(20.0, [20.0, 30.0, 20.0, 20.0]).unwrap_err().contains("no requests.memory up to 4Mi"));
        assert!(told(20.0, [1.0, 1.0, 1.0, 1.0]).unwrap_err().contains("every requests.memory from 1Mi"));
    }
}
