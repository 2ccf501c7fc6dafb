//! Expectations, rules and claims that name what is not there or could never be decided.

use super::super::file::LabFile;
use super::super::metric::Subject;
use super::{no_arm, unique};
use crate::lab::{Acceptance, Arm, Arrivals, MetricRef, Test, Unit};
use crate::yaml::{Node, Problems};

/// What a figure may name.
struct Known<'a> {
    arms: &'a [Arm],
    names: Vec<&'a str>,
    alerts: Vec<&'a str>,
    root: &'a Node,
}

pub(super) fn check(file: &LabFile, arms: &[Arm], root: &Node, problems: &mut Problems) {
    let names: Vec<_> = file.arms.iter().map(|a| a.name.as_str()).collect();
    let alerts = file.alerts.iter().flat_map(|alerts| &alerts.rules).map(|rule| rule.name.as_str()).collect();
    let known = Known { arms, names: names.clone(), alerts, root };
    let ids: Vec<_> = file.expectations.iter().map(|e| e.id.as_str()).collect();
    unique(&ids, "expectations", root, problems);
    for (i, expectation) in file.expectations.iter().enumerate() {
        let path = format!("expectations[{i}]");
        let metric = &expectation.metric;
        known.figure_of_arm(metric, Some(&expectation.false_in), &format!("{path}.metric"), problems);
        known.test(&expectation.is, metric, &format!("{path}.is"), problems);
        // Existence is exact, everything else is a ratio: an absolute latency says more about the machine than about memory.
        let absolute = expectation.is.at_least.is_some() || expectation.is.at_most.is_some();
        if absolute && metric.unit() == Unit::Time && matches!(metric.name.subject(), Subject::Requests | Subject::Report) {
            let message = "a latency must be compared with another arm (ratioTo), never with an absolute time";
            problems.push(root.blame(format!("{path}.is"), message));
        }
        let false_in = expectation.false_in.as_str();
        if !names.contains(&false_in) {
            problems.push(root.blame(format!("{path}.falseIn"), no_arm(false_in, &names)));
        } else if metric.arm.as_deref() == Some(false_in) {
            problems.push(root.blame(format!("{path}.falseIn"), "an expectation cannot be true and false in the same arm"));
        }
    }
    if !file.expectations.is_empty() && !file.expectations.iter().any(|e| e.precondition) {
        let message =
            "one expectation must be marked `precondition: true`: that the pressure occurred, else the lab shows nothing";
        problems.push(root.blame("expectations", message));
    }
    if let Some(acceptance) = &file.acceptance {
        known.acceptance(acceptance, &file.baseline, problems);
    }
    if let Some(sweep) = &file.sweep {
        if sweep.metric.arm.is_some() {
            problems.push(root.blame("sweep.metric.arm", "the figure is taken from every swept arm: leave the arm out"));
        }
        if sweep.values.len() < 2 {
            problems.push(root.blame("sweep.values", "a sweep needs at least two values"));
        }
        // In a lab that has been swept, the arms of the values stand in the place of the one they came from.
        let swept: Vec<_> = sweep.arms().collect();
        let own: Vec<_> = if swept.iter().all(|arm| names.contains(&arm.as_str())) {
            swept.iter().map(String::as_str).collect()
        } else {
            vec![sweep.arm.as_str()]
        };
        for arm in own {
            known.figure(&sweep.metric, &[arm, &sweep.against], "sweep.metric", problems);
        }
        if !names.contains(&sweep.against.as_str()) {
            problems.push(root.blame("sweep.against", no_arm(&sweep.against, &names)));
        }
    }
    for (i, claim) in file.source.claims.iter().enumerate() {
        let path = format!("source.claims[{i}]");
        if let Some(metric) = &claim.measured {
            known.figure_of_arm(metric, None, &format!("{path}.measured"), problems);
        }
        if let Some(arm) = claim.ratio_to.as_deref().filter(|a| !names.contains(a)) {
            problems.push(root.blame(format!("{path}.ratioTo"), no_arm(arm, &names)));
        }
    }
}

impl Known<'_> {
    fn acceptance(&self, acceptance: &Acceptance, baseline: &str, problems: &mut Problems) {
        let mut wrong = |path: String, message: &str| problems.push(self.root.blame(path, message));
        if acceptance.prefer.is_empty() {
            wrong("acceptance.prefer".into(), "name the arms that may be enabled, from the smallest policy to the largest");
        }
        if acceptance.rules.is_empty() {
            wrong("acceptance.rules".into(), "without a rule every arm would be accepted: state at least one");
        }
        if acceptance.prefer.iter().any(|arm| arm == baseline) {
            wrong("acceptance.prefer".into(), "the baseline is what is kept when no arm is enabled: take it out");
        }
        for arm in acceptance.prefer.iter().filter(|a| !self.names.contains(&a.as_str())) {
            problems.push(self.root.blame("acceptance.prefer", no_arm(arm, &self.names)));
        }
        let prefer: Vec<_> = acceptance.prefer.iter().map(String::as_str).collect();
        unique(&prefer, "acceptance.prefer", self.root, problems);
        let ids: Vec<_> = acceptance.rules.iter().map(|rule| rule.id.as_str()).collect();
        unique(&ids, "acceptance.rules", self.root, problems);
        for (i, rule) in acceptance.rules.iter().enumerate() {
            let path = format!("acceptance.rules[{i}]");
            if rule.metric.arm.is_some() {
                let message = "a rule holds for every arm that may be enabled: leave the arm out";
                problems.push(self.root.blame(format!("{path}.metric.arm"), message));
            }
            let other = rule.is.ratio_to.as_ref().map_or(baseline, |ratio| ratio.arm.as_str());
            let every: Vec<_> = prefer.iter().copied().chain([other]).collect();
            self.figure(&rule.metric, &every, &format!("{path}.metric"), problems);
            self.test(&rule.is, &rule.metric, &format!("{path}.is"), problems);
        }
    }

    /// Checks a figure that must name its arm, and will also be taken from another one.
    fn figure_of_arm(&self, metric: &MetricRef, other: Option<&str>, path: &str, problems: &mut Problems) {
        match metric.arm.as_deref() {
            Some(arm) => self.figure(metric, &[arm, other.unwrap_or(arm)], path, problems),
            None => {
                problems.push(self.root.blame(path.to_owned(), "name the arm whose figure is meant"));
                self.figure(metric, &[], path, problems);
            }
        }
    }

    /// Checks that a figure exists in the arms it will be taken from.
    fn figure(&self, metric: &MetricRef, of: &[&str], path: &str, problems: &mut Problems) {
        let mut wrong = |field: &str, message: String| problems.push(self.root.blame(format!("{path}{field}"), message));
        let subject = metric.name.subject();
        let name = metric.name.text();
        match (metric.alert.as_deref(), subject) {
            (None, Subject::Alert) => wrong("", format!("{name} needs the name of an alert")),
            (Some(alert), Subject::Alert) if self.alerts.is_empty() => {
                wrong(".alert", format!("there is no alert {alert}: the lab declares none, see `alerts` in its schema"));
            }
            (Some(alert), Subject::Alert) if !self.alerts.contains(&alert) => {
                wrong(".alert", format!("there is no alert {alert}: alerts are {}", self.alerts.join(", ")));
            }
            (Some(_), Subject::Alert) | (None, _) => {}
            (Some(_), _) => wrong(".alert", format!("{name} is not about an alert: leave it out")),
        }
        if let Some(arm) = of.first().filter(|a| !self.names.contains(a)) {
            return wrong(".arm", no_arm(arm, &self.names));
        }
        if metric.load.is_some() && subject != Subject::Requests {
            wrong(".load", format!("{name} is not about requests: leave the load out"));
        }
        if metric.pod.is_some() && matches!(subject, Subject::Requests | Subject::Arm | Subject::Alert) {
            wrong(".pod", format!("{name} is not about a pod: leave the pod out"));
        }
        if metric.container.is_some() && metric.pod.is_none() {
            wrong(".container", "name the pod as well".into());
        }
        match (&metric.file, subject) {
            (None, Subject::Control) => wrong("", "name the control file, for example memory.swap.max".into()),
            (Some(_), Subject::Control) | (None, _) => {}
            (Some(_), _) => wrong(".file", format!("{name} is not a control file: leave the file out")),
        }
        if subject == Subject::Report && metric.pod.is_none() {
            wrong("", format!("{name} is what a pod's workload reports: name the pod"));
        }
        match (&metric.key, name == "report") {
            (None, true) => wrong("", "name the key of the report, for example gpu_busy_s".into()),
            (Some(_), false) => wrong(".key", format!("{name} has no keys: leave the key out")),
            _ => {}
        }
        for arm in self.arms.iter().filter(|a| of.contains(&a.name.as_str())) {
            let phase = metric.phase.as_deref();
            if let Some(phase) = phase.filter(|p| !arm.phases.iter().any(|known| known.name == *p)) {
                wrong(".phase", format!("the arm {} has no phase {phase}", arm.name));
            }
            if let Some(pod) = &metric.pod {
                match arm.pods.iter().find(|p| p.metadata.name == *pod) {
                    None => wrong(".pod", format!("the arm {} has no pod {pod}", arm.name)),
                    Some(found) => {
                        if let Some(container) = metric.container.as_ref().filter(|c| !found.containers().any(|k| k.name == **c))
                        {
                            wrong(".container", format!("the pod {pod} has no container {container}"));
                        }
                    }
                }
            }
            if subject == Subject::Requests {
                requests(metric, arm, &mut wrong);
            }
        }
    }

    fn test(&self, is: &Test, metric: &MetricRef, path: &str, problems: &mut Problems) {
        let (names, root) = (&self.names, self.root);
        let bounds = [("atLeast", &is.at_least), ("atMost", &is.at_most), ("equals", &is.equals)];
        for (field, amount) in bounds.iter().filter_map(|(f, a)| a.as_ref().map(|a| (f, a))) {
            if let Err(message) = amount.bound(metric) {
                problems.push(root.blame(format!("{path}.{field}"), message));
            }
            if metric.unit() == Unit::Text && *field != "equals" {
                problems
                    .push(root.blame(format!("{path}.{field}"), "a control file has a text: only `equals` can be said of it"));
            }
        }
        if let Some(ratio) = &is.ratio_to {
            if !names.contains(&ratio.arm.as_str()) {
                problems.push(root.blame(format!("{path}.ratioTo.arm"), no_arm(&ratio.arm, names)));
            }
            if ratio.at_least.is_none() && ratio.at_most.is_none() {
                problems.push(root.blame(format!("{path}.ratioTo"), "give atLeast or atMost"));
            }
            if metric.unit() == Unit::Text {
                problems.push(root.blame(format!("{path}.ratioTo"), "texts have no ratio"));
            }
        } else if bounds.iter().all(|(_, a)| a.is_none()) {
            problems.push(root.blame(path.to_owned(), "give at least one of atLeast, atMost, equals, ratioTo"));
        }
    }
}

fn requests(metric: &MetricRef, arm: &Arm, wrong: &mut impl FnMut(&str, String)) {
    let phases = arm.phases.iter().filter(|p| metric.phase.as_ref().is_none_or(|wanted| p.name == *wanted));
    let loads: Vec<_> =
        phases.flat_map(|p| &p.load).filter(|l| metric.load.as_ref().is_none_or(|wanted| l.name == *wanted)).collect();
    if loads.is_empty() {
        return wrong("", format!("the arm {} sends no such requests", arm.name));
    }
    let name = metric.name.text();
    if matches!(name, "goodput" | "slo.missed") && loads.iter().any(|l| l.slo.is_none()) {
        wrong("", format!("{name} needs an `slo` on the load"));
    }
    // A random schedule's length is known only when it is drawn; the study refuses the percentile then.
    let due: Option<f64> = loads
        .iter()
        .map(|l| match &l.arrivals {
            Arrivals::Constant { rate, duration } => Some(rate * duration.seconds()),
            Arrivals::Trace(times) => Some(times.len() as f64),
            Arrivals::Ramp { from, to, duration } => Some((from + to) / 2.0 * duration.seconds()),
            Arrivals::Poisson { .. } => None,
        })
        .sum();
    if let (Some(quantile), Some(due)) = (metric.name.quantile(), due)
        && due * (1.0 - quantile.share()) < 9.5
    {
        let needed = (10.0 / (1.0 - quantile.share())).round();
        wrong(
            "",
            format!(
                "{} needs ten samples beyond it, so {needed} requests; the arm {} sends {due:.0}",
                metric.name.text(),
                arm.name
            ),
        );
    }
}
