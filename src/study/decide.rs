//! From acceptance rules and the runs of several seeds to a decision: enable which policy, keep the defaults, or neither yet.
//!
//! A bound holds when the whole interval over the seeds keeps it, is broken when the whole interval lies beyond it, and is open when the
//! interval straddles it. Every rule must hold for a policy to pass, so no rule's confidence has to be shared out among them (an
//! intersection-union test: Berger, "Multiparameter hypothesis testing and acceptance sampling", Technometrics 1982).

use super::expect::bound;
use super::figure::{Figure, figure, say};
use super::interval::{Interval, interval};
use super::result::{ArmResult, Holds};
use crate::lab::{Acceptance, Amount, Bound, MetricRef, Rule, one_line};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The arms of one seed.
#[derive(Debug, Clone, Copy)]
pub struct Seed<'a> {
    /// The seed.
    pub seed: u64,
    /// Its arms.
    pub arms: &'a [ArmResult],
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Decision {
    /// This arm's policy is the smallest that keeps every rule.
    Enable(String),
    /// Every policy breaks a rule.
    KeepDefaults,
    /// The evidence does not suffice.
    Inconclusive,
    /// One seed was run, which asks for no decision.
    NotAsked,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Decision::Enable(arm) => write!(f, "ENABLE {arm}"),
            Decision::KeepDefaults => f.write_str("KEEP DEFAULTS"),
            Decision::Inconclusive => f.write_str("INCONCLUSIVE"),
            Decision::NotAsked => f.write_str("NOT DECIDED"),
        }
    }
}

/// A decision, its reason, and each rule in each arm that may be enabled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    /// The decision.
    pub decision: Decision,
    /// Why, in one sentence that names the rules that decided.
    pub because: String,
    /// The ids of those rules.
    pub decided_by: Vec<String>,
    /// The rules, arm by arm in the order of preference.
    pub rules: Vec<RuleResult>,
}

/// One acceptance rule in one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleResult {
    /// The rule.
    pub id: String,
    /// The sentence.
    pub say: String,
    /// The arm.
    pub arm: String,
    /// Whether it keeps the rule.
    pub holds: Holds,
    /// The bound, in words.
    pub bound: String,
    /// The means over the seeds, or why there are none, in words.
    pub measured: String,
    /// The figure in each seed, in the metric's unit; none where it is absent.
    pub figures: Vec<Option<f64>>,
    /// The paired difference from the baseline, in the metric's unit.
    pub difference: Option<Interval>,
    /// For each bound how far the figure lies beyond it, in the metric's unit: at most 0 keeps it.
    pub beyond: Vec<Interval>,
}

/// Decides by the rules. `void` is a reason why these runs decide nothing, whatever they show.
#[must_use]
pub fn decide(acceptance: &Acceptance, baseline: &str, seeds: &[Seed<'_>], void: Option<String>) -> Decided {
    let of = |arm: &String| acceptance.rules.iter().map(|rule| judge(rule, arm, baseline, seeds)).collect::<Vec<_>>();
    let by_arm: Vec<(&String, Vec<RuleResult>)> = acceptance.prefer.iter().map(|arm| (arm, of(arm))).collect();
    let (decision, because, decided_by) = match (void, seeds.len()) {
        (Some(reason), _) => (Decision::Inconclusive, reason, Vec::new()),
        (None, 0 | 1) => (Decision::Inconclusive, "one seed has no spread: a decision needs at least two".to_owned(), Vec::new()),
        (None, count) => choose(&by_arm, acceptance.rules.len(), count),
    };
    Decided { decision, because, decided_by, rules: by_arm.into_iter().flat_map(|(_, rules)| rules).collect() }
}

fn choose(by_arm: &[(&String, Vec<RuleResult>)], rules: usize, seeds: usize) -> (Decision, String, Vec<String>) {
    let (mut broken, mut by) = (Vec::new(), Vec::new());
    for (arm, results) in by_arm {
        if let Some(rule) = results.iter().find(|r| r.holds == Holds::No) {
            broken.push(format!("{arm} breaks {}: {}, wanted {}", rule.id, rule.measured, rule.bound));
            by.push(rule.id.clone());
        } else if let Some(rule) = results.iter().find(|r| r.holds == Holds::Unknown) {
            let because = format!("{arm} neither keeps nor breaks {}: {}, wanted {}", rule.id, rule.measured, rule.bound);
            return (Decision::Inconclusive, because, vec![rule.id.clone()]);
        } else {
            let passed = format!("{arm} is the smallest policy that keeps all {rules} rules with {seeds} seeds");
            let because = std::iter::once(passed).chain(broken).collect::<Vec<_>>().join("; ");
            return (Decision::Enable((*arm).clone()), because, by);
        }
    }
    (Decision::KeepDefaults, format!("no policy keeps every rule with {seeds} seeds: {}", broken.join("; ")), by)
}

fn judge(rule: &Rule, arm: &str, baseline: &str, seeds: &[Seed<'_>]) -> RuleResult {
    let metric = &rule.metric;
    let other = rule.is.ratio_to.as_ref().map_or(baseline, |ratio| ratio.arm.as_str());
    let (own, base) = (figures(metric, arm, seeds), figures(metric, other, seeds));
    let (holds, measured, beyond) = match weigh(rule, &own, &base) {
        Ok((holds, beyond)) => {
            let mut measured = means(metric, &own, other, &base);
            if let Some(open) = beyond.iter().find(|beyond| beyond.low <= 0.0 && beyond.high > 0.0) {
                measured += &format!(", the interval straddles the bound: beyond it by {}", open.say(metric.unit()));
            }
            (holds, measured, beyond)
        }
        Err(absent) => (Holds::Unknown, absent, Vec::new()),
    };
    RuleResult {
        id: rule.id.clone(),
        say: one_line(&rule.say),
        arm: arm.to_owned(),
        holds,
        bound: bound(&rule.is, metric),
        measured,
        difference: paired(&own, &base, |own, base| own - base),
        beyond,
        figures: own.iter().map(Figure::number).collect(),
    }
}

/// A figure of an arm in every seed.
fn figures(metric: &MetricRef, arm: &str, seeds: &[Seed<'_>]) -> Vec<Figure> {
    let of = |seed: &Seed<'_>| match seed.arms.iter().find(|a| a.name == arm) {
        Some(arm) => figure(arm, metric),
        None => Figure::Absent(format!("arm {arm} was not run with seed {}", seed.seed)),
    };
    seeds.iter().map(of).collect()
}

fn paired(own: &[Figure], base: &[Figure], of: impl Fn(f64, f64) -> f64) -> Option<Interval> {
    let pairs: Option<Vec<f64>> = own.iter().zip(base).map(|(own, base)| Some(of(own.number()?, base.number()?))).collect();
    interval(&pairs?)
}

/// Whether the rule holds, and how far the figure lies beyond each bound; or which figure is missing.
fn weigh(rule: &Rule, own: &[Figure], base: &[Figure]) -> Result<(Holds, Vec<Interval>), String> {
    let is = &rule.is;
    let missing = |figures: &[Figure]| figures.iter().find(|f| matches!(f, Figure::Absent(_))).map(|f| f.say(rule.metric.unit()));
    if let Some(absent) = missing(own).or_else(|| is.ratio_to.as_ref().and_then(|_| missing(base))) {
        return Err(absent);
    }
    let number = |amount: &Amount| match amount.bound(&rule.metric) {
        Ok(Bound::Number(number)) => Some(number),
        _ => None,
    };
    let exact = is.equals.as_ref().map_or(Holds::Yes, |wanted| {
        let same = own.iter().all(|figure| match figure {
            Figure::Text(text) => *text == wanted.0,
            figure => figure.number() == number(wanted),
        });
        if same { Holds::Yes } else { Holds::No }
    });
    let (least, most) = (is.at_least.as_ref().and_then(number), is.at_most.as_ref().and_then(number));
    let ratio = is.ratio_to.as_ref();
    // A ratio's bound is tested as a difference from so many times the base, which may be 0.
    let bounds = [
        least.map(|least| paired(own, own, |own, _| least - own)),
        most.map(|most| paired(own, own, |own, _| own - most)),
        ratio.and_then(|r| r.at_least).map(|times| paired(own, base, |own, base| times * base - own)),
        ratio.and_then(|r| r.at_most).map(|times| paired(own, base, |own, base| own - times * base)),
    ];
    let asked: Vec<Option<Interval>> = bounds.into_iter().flatten().collect();
    let holds = asked.iter().fold(exact, |worst, beyond| match (worst, beyond) {
        (Holds::No, _) => Holds::No,
        (_, Some(beyond)) if beyond.low > 0.0 => Holds::No,
        (worst, Some(beyond)) if beyond.high <= 0.0 => worst,
        _ => Holds::Unknown,
    });
    Ok((holds, asked.into_iter().flatten().collect()))
}

/// The means over the seeds, and with two or more the difference with its interval.
fn means(metric: &MetricRef, own: &[Figure], other: &str, base: &[Figure]) -> String {
    let unit = metric.unit();
    let mean = |figures: &[Figure]| {
        let numbers: Option<Vec<f64>> = figures.iter().map(Figure::number).collect();
        numbers.filter(|n| !n.is_empty()).map(|n| n.iter().sum::<f64>() / n.len() as f64)
    };
    match (mean(own), mean(base)) {
        (Some(mine), Some(theirs)) => {
            let text = format!("{} against {} of {other}", say(mine, unit), say(theirs, unit));
            match paired(own, base, |own, base| own - base) {
                Some(difference) => format!("{text} ({})", difference.say(unit)),
                None => text,
            }
        }
        (Some(mine), None) => say(mine, unit),
        _ => own.first().map_or_else(|| "no seed was run".to_owned(), |figure| figure.say(unit)),
    }
}

impl Interval {
    /// The mean with its ends, signed, in words.
    #[must_use]
    pub fn say(&self, unit: crate::lab::Unit) -> String {
        let signed = |number: f64| {
            let sign = if number < 0.0 { "−" } else { "+" };
            format!("{sign}{}", say(number.abs(), unit))
        };
        format!("{}, {} to {}", signed(self.mean), signed(self.low), signed(self.high))
    }
}
