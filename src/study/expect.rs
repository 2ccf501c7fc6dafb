//! Expectations against figures: does it hold, by what margin, and is it false where it must be?

use super::figure::{Figure, figure, say};
use super::result::{ArmResult, ExpectationResult, Holds, Standing};
use crate::lab::{Bound, Expectation, MetricRef, Test, one_line};

/// Judges one expectation.
pub fn judge(expectation: &Expectation, arms: &[ArmResult]) -> ExpectationResult {
    let metric = &expectation.metric;
    let own = metric.arm.as_deref().unwrap_or_default();
    let here = measure(&expectation.is, metric, own, arms);
    let there = measure(&expectation.is, metric, &expectation.false_in, arms);
    let not_run = here.not_run || there.not_run;
    let standing = match (here.holds, there.holds) {
        _ if not_run => Standing::NotRun,
        (Holds::Unknown, _) => Standing::Undecided,
        (Holds::No, _) => Standing::NotMet,
        (Holds::Yes, Holds::No) => Standing::Met,
        (Holds::Yes, Holds::Yes) => Standing::Indistinct,
        (Holds::Yes, Holds::Unknown) => Standing::Undecided,
    };
    ExpectationResult {
        id: expectation.id.clone(),
        say: one_line(&expectation.say),
        precondition: expectation.precondition,
        standing,
        figure: name(metric, own),
        bound: bound(&expectation.is, metric),
        measured: here.text,
        margin: here.margin,
        false_in: expectation.false_in.clone(),
        measured_there: there.text,
        holds_there: there.holds,
    }
}

struct Measured {
    holds: Holds,
    text: String,
    margin: Option<f64>,
    not_run: bool,
}

fn measure(is: &Test, metric: &MetricRef, arm: &str, arms: &[ArmResult]) -> Measured {
    let find = |name: &str| arms.iter().find(|a| a.name == name);
    let not_run =
        |name: &str| Measured { holds: Holds::Unknown, text: format!("arm {name} was not run"), margin: None, not_run: true };
    let Some(result) = find(arm) else { return not_run(arm) };
    let unit = metric.unit();
    let found = figure(result, metric);
    let mut text = found.say(unit);
    let mut checks = Checks::default();
    match &found {
        Figure::Absent(_) => checks.unknown = true,
        Figure::Text(value) => checks.exact(is.equals.as_ref().is_none_or(|want| want.0 == *value)),
        Figure::Number(value) => {
            let number = |amount: &crate::lab::Amount| match amount.bound(metric) {
                Ok(Bound::Number(number)) => Some(number),
                _ => None,
            };
            if let Some(least) = is.at_least.as_ref().and_then(number) {
                checks.bound(*value, least);
            }
            if let Some(most) = is.at_most.as_ref().and_then(number) {
                checks.bound(most, *value);
            }
            if let Some(exactly) = is.equals.as_ref().and_then(number) {
                checks.exact(*value == exactly);
            }
            if let Some(ratio) = &is.ratio_to {
                let Some(base) = find(&ratio.arm) else { return not_run(&ratio.arm) };
                match figure(base, metric) {
                    Figure::Number(base) if base > 0.0 => {
                        let factor = value / base;
                        text = format!("{factor:.2} x ({} / {})", say(*value, unit), say(base, unit));
                        if let Some(least) = ratio.at_least {
                            checks.bound(factor, least);
                        }
                        if let Some(most) = ratio.at_most {
                            checks.bound(most, factor);
                        }
                    }
                    other => {
                        text = format!("{text} / {}", other.say(unit));
                        checks.unknown = true;
                    }
                }
            }
        }
    }
    Measured { holds: checks.holds(), text, margin: checks.margin, not_run: false }
}

#[derive(Default)]
struct Checks {
    failed: bool,
    unknown: bool,
    margin: Option<f64>,
}

impl Checks {
    fn exact(&mut self, holds: bool) {
        self.failed |= !holds;
    }

    /// Something must not be smaller than something else; the margin is their ratio, the tightest one counts.
    fn bound(&mut self, larger: f64, smaller: f64) {
        self.failed |= larger < smaller;
        if smaller > 0.0 {
            let margin = larger / smaller;
            self.margin = Some(self.margin.map_or(margin, |m| m.min(margin)));
        }
    }

    fn holds(&self) -> Holds {
        match (self.unknown, self.failed) {
            (true, _) => Holds::Unknown,
            (false, true) => Holds::No,
            (false, false) => Holds::Yes,
        }
    }
}

/// A figure's name in words.
pub fn name(metric: &MetricRef, arm: &str) -> String {
    let mut text = metric.name.text().to_owned();
    if let Some(name) = metric.file.as_ref().or(metric.key.as_ref()) {
        text = name.clone();
    }
    match (&metric.pod, &metric.container) {
        (Some(pod), Some(container)) => text += &format!(" of {pod}/{container}"),
        (Some(pod), None) => text += &format!(" of {pod}"),
        _ => {}
    }
    if let Some(alert) = &metric.alert {
        text += &format!(" of {alert}");
    }
    if let Some(load) = &metric.load {
        text += &format!(" of load {load}");
    }
    if let Some(phase) = &metric.phase {
        text += &format!(" in {phase}");
    }
    format!("{text}, arm {arm}")
}

/// A bound in words.
#[must_use]
pub fn bound(is: &Test, metric: &MetricRef) -> String {
    let mut parts = Vec::new();
    let mut part = |word: &str, amount: &Option<crate::lab::Amount>| {
        if let Some(amount) = amount {
            let text = match amount.bound(metric) {
                Ok(Bound::Number(number)) => say(number, metric.unit()),
                _ => amount.0.clone(),
            };
            parts.push(format!("{word} {text}"));
        }
    };
    part("at least", &is.at_least);
    part("at most", &is.at_most);
    part("exactly", &is.equals);
    if let Some(ratio) = &is.ratio_to {
        for (word, factor) in [("at least", ratio.at_least), ("at most", ratio.at_most)] {
            parts.extend(factor.map(|f| format!("{word} {f} x {}", ratio.arm)));
        }
    }
    parts.join(" and ")
}
