//! The talk's decision framework line by line, and what the runs of the labs say about each: verdicts come from runs, never from here.

use super::conclude::Conclusion;
use super::result::{LabResult, Standing};
use serde::Serialize;

/// A line of the framework and the labs that bear on it.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    /// A short name, for links.
    pub id: &'static str,
    /// The advice.
    pub says: &'static str,
    /// What bears on it; none where no lab can.
    pub labs: &'static [Bearing],
}

/// A lab and which of its expectations speak for the line when they are met, and which against it.
#[derive(Debug, Clone, Copy)]
pub struct Bearing {
    /// The lab.
    pub lab: &'static str,
    /// Ids of expectations that speak for it.
    pub backs: &'static [&'static str],
    /// Ids of expectations that speak against it.
    pub refutes: &'static [&'static str],
}

const fn lab(lab: &'static str, backs: &'static [&'static str], refutes: &'static [&'static str]) -> Bearing {
    Bearing { lab, backs, refutes }
}

/// The framework, as the talk's transcript has it.
pub const FRAMEWORK: &[Line] = &[
    Line {
        id: "multi-model",
        says: "LimitedSwap for multi-model serving and for bursts",
        labs: &[
            lab("swap/multi-model", &["spike-kills", "nvme-lives", "nvme-answers", "nvme-in-time"], &[]),
            lab("swap/traffic-burst", &["d-lives"], &["c-dies", "e-lives"]),
            lab("swap/mis-sized", &["none-dies", "right-lives", "right-answers"], &["too-small-dies"]),
            lab("swap/unlimited-exhausts-node", &["no-swap-for-it", "only-it"], &["neighbours-pay"]),
        ],
    },
    Line {
        id: "real-time",
        says: "No swap (Guaranteed) for real-time work and below a millisecond",
        labs: &[
            lab("swap/latency-critical", &["guaranteed-has-none", "sub-ms-guaranteed", "sub-ms-swap", "sub-ms-tail"], &[]),
            lab("swap/speech", &["rate-decides"], &[]),
        ],
    },
    Line {
        id: "sub-100ms",
        says: "No swap below 100 ms, although \"+26 % is sort of acceptable\" in the speech",
        labs: &[lab("swap/latency-critical", &["sub-100ms-tail"], &["sub-100ms-kept"])],
    },
    Line {
        id: "relaxed",
        says: "A safety net for what may take seconds",
        labs: &[
            lab("swap/latency-critical", &["relaxed-kept", "safety-net"], &[]),
            lab("swap/cpu-inference", &["alive", "killed"], &["slower"]),
            lab("swap/gpu-inference", &["alive", "killed"], &["slower"]),
        ],
    },
    Line {
        id: "training",
        says: "Training on NVMe only, and after measuring its IOPS",
        labs: &[lab("swap/training", &["small-hardly-slower", "medium-slower", "disk-worse"], &[])],
    },
    Line {
        id: "databases",
        says: "None for databases, etcd and control planes",
        labs: &[lab("swap/etcd", &["every-commit-is-later", "the-tail-is-later"], &[])],
    },
    Line {
        id: "requests",
        says: "Requests always set: no request, no entitlement",
        labs: &[lab("swap/limited-entitlement", &["no-request"], &[])],
    },
    Line {
        id: "disks",
        says: "Never on spinning disks",
        labs: &[
            lab("swap/training", &["disk-worse"], &[]),
            lab("swap/multi-model", &["disk-times-out"], &[]),
            lab("swap/alerts", &["io-warned"], &[]),
        ],
    },
    Line {
        id: "application-first",
        says: "Application-level memory first, kernel swap last",
        labs: &[lab("swap/tiers", &["pool-is-quick", "swap-is-slow", "killed"], &[])],
    },
    Line { id: "non-production", says: "Non-production first", labs: &[] },
];

/// What runs say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Says {
    /// Every expectation that bears on it speaks for it.
    Backed,
    /// Some speak for it, some against it.
    Mixed,
    /// They speak against it.
    Refuted,
    /// The runs decide nothing: the pressure did not occur, or arms or figures are missing.
    Nothing,
    /// No run was given.
    NotRun,
    /// No lab can say anything about it.
    NoLab,
}

impl Says {
    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Says::Backed => "backed",
            Says::Mixed => "backed in part",
            Says::Refuted => "refuted",
            Says::Nothing => "undecided",
            Says::NotRun => "not run",
            Says::NoLab => "no lab",
        }
    }
}

/// A line with what the runs say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LineVerdict {
    /// The line's id.
    pub id: &'static str,
    /// The advice.
    pub line: &'static str,
    /// All labs together.
    pub says: Says,
    /// Lab by lab; a lab of several runs stands once for each.
    pub labs: Vec<LabVerdict>,
}

/// What one run of a lab says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LabVerdict {
    /// The lab.
    pub lab: &'static str,
    /// Which of the runs given; none where there is none of this lab.
    pub run: Option<usize>,
    /// What it says.
    pub says: Says,
    /// Sentences of the expectations that speak for the line, with what was measured.
    pub backing: Vec<String>,
    /// The same of those that speak against it.
    pub against: Vec<String>,
}

/// Judges every line by runs.
#[must_use]
pub fn framework(runs: &[LabResult]) -> Vec<LineVerdict> {
    FRAMEWORK.iter().map(|line| judge(line, runs)).collect()
}

fn judge(line: &Line, runs: &[LabResult]) -> LineVerdict {
    let labs: Vec<LabVerdict> = line
        .labs
        .iter()
        .flat_map(|bearing| {
            let of_lab = runs.iter().enumerate().filter(|(_, run)| run.lab == bearing.lab);
            let mut found: Vec<_> = of_lab.map(|(index, run)| one(bearing, index, run)).collect();
            if found.is_empty() {
                let (backing, against) = (Vec::new(), Vec::new());
                found.push(LabVerdict { lab: bearing.lab, run: None, says: Says::NotRun, backing, against });
            }
            found
        })
        .collect();
    LineVerdict { id: line.id, line: line.says, says: together(&labs), labs }
}

fn one(bearing: &Bearing, index: usize, run: &LabResult) -> LabVerdict {
    let (mut backing, mut against, mut open) = (Vec::new(), Vec::new(), false);
    for expectation in &run.expectations {
        let sentence = || format!("{}: {}", expectation.say, expectation.measured);
        let (backs, refutes) = (bearing.backs, bearing.refutes);
        let id = expectation.id.as_str();
        match (backs.contains(&id), refutes.contains(&id), expectation.standing) {
            (false, false, _) => {}
            (_, _, Standing::Undecided | Standing::NotRun) => open = true,
            (true, _, Standing::Met) => backing.push(sentence()),
            (_, true, Standing::Met) => against.push(sentence()),
            // What should speak for the line and did not hold speaks against it; what should speak against it and did not, says nothing.
            (true, _, Standing::NotMet | Standing::Indistinct) => against.push(format!("not so: {}", sentence())),
            _ => {}
        }
    }
    let says = match (backing.is_empty(), against.is_empty()) {
        // Without the pressure nothing of it means anything.
        _ if matches!(run.conclusion, Conclusion::Uninformative) => Says::Nothing,
        (false, true) if open => Says::Nothing,
        (false, true) => Says::Backed,
        (false, false) => Says::Mixed,
        (true, false) => Says::Refuted,
        (true, true) => Says::Nothing,
    };
    LabVerdict { lab: bearing.lab, run: Some(index), says, backing, against }
}

fn together(labs: &[LabVerdict]) -> Says {
    let any = |says: Says| labs.iter().any(|lab| lab.says == says);
    match (any(Says::Backed), any(Says::Mixed), any(Says::Refuted)) {
        _ if labs.is_empty() => Says::NoLab,
        (true, false, false) => Says::Backed,
        (false, false, true) => Says::Refuted,
        (false, false, false) if any(Says::Nothing) => Says::Nothing,
        (false, false, false) => Says::NotRun,
        _ => Says::Mixed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{catalogue, load};
    use crate::study::{ExpectationResult, Holds};

    #[test]
    fn every_line_leads_to_labs_and_expectations_that_exist() {
        let labs: Vec<_> = catalogue().map(|files| load(&files).unwrap_or_else(|problems| panic!("{problems}"))).collect();
        let mut missing = Vec::new();
        for bearing in FRAMEWORK.iter().flat_map(|line| line.labs) {
            let Some(lab) = labs.iter().find(|lab| lab.name == bearing.lab) else {
                missing.push(bearing.lab.to_owned());
                continue;
            };
            assert!(!bearing.backs.is_empty(), "{}: nothing can speak for the line", bearing.lab);
            for id in bearing.backs.iter().chain(bearing.refutes) {
                if !lab.expectations.iter().any(|expectation| expectation.id == *id && !expectation.precondition) {
                    missing.push(format!("{} {id}", bearing.lab));
                }
            }
        }
        assert!(missing.is_empty(), "not in the catalogue: {}", missing.join(", "));
        // Every lab about swap bears on something.
        let bears = |name: &str| FRAMEWORK.iter().flat_map(|line| line.labs).any(|bearing| bearing.lab == name);
        let silent: Vec<_> = labs.iter().filter(|lab| lab.name.starts_with("swap/") && !bears(&lab.name)).collect();
        assert!(silent.is_empty(), "bear on no line: {:?}", silent.iter().map(|lab| &lab.name).collect::<Vec<_>>());
    }

    fn run(lab: &str, conclusion: Conclusion, expectations: &[(&str, Standing)]) -> LabResult {
        let expectation = |(id, standing): &(&str, Standing)| ExpectationResult {
            id: (*id).to_owned(),
            say: format!("{id} is so"),
            precondition: false,
            standing: *standing,
            figure: String::new(),
            bound: String::new(),
            measured: "7".to_owned(),
            margin: None,
            false_in: String::new(),
            measured_there: String::new(),
            holds_there: Holds::No,
        };
        LabResult {
            schema: crate::record::SCHEMA,
            lab: lab.to_owned(),
            comparability_key: String::new(),
            conclusion,
            because: String::new(),
            arms: vec![],
            expectations: expectations.iter().map(expectation).collect(),
            decision: None,
            seeds: vec![],
            claims: vec![],
            sweep: None,
        }
    }

    fn says(runs: &[LabResult], id: &str) -> Says {
        framework(runs).into_iter().find(|line| line.id == id).unwrap().says
    }

    #[test]
    fn verdicts_follow_the_runs() {
        use Standing::{Met, NotMet, NotRun};
        let etcd =
            |conclusion, one, two| run("swap/etcd", conclusion, &[("every-commit-is-later", one), ("the-tail-is-later", two)]);
        assert_eq!(says(&[], "databases"), Says::NotRun);
        assert_eq!(says(&[], "non-production"), Says::NoLab);
        assert_eq!(says(&[etcd(Conclusion::AsExpected, Met, Met)], "databases"), Says::Backed);
        assert_eq!(says(&[etcd(Conclusion::Failed, Met, NotMet)], "databases"), Says::Mixed);
        assert_eq!(says(&[etcd(Conclusion::Failed, NotMet, NotMet)], "databases"), Says::Refuted);
        assert_eq!(says(&[etcd(Conclusion::Inconclusive, NotRun, NotRun)], "databases"), Says::Nothing);
        assert_eq!(says(&[etcd(Conclusion::Uninformative, Met, Met)], "databases"), Says::Nothing);
        // The limit, and not swap, saved the server: that speaks against the line, whatever else is met.
        let burst = run("swap/traffic-burst", Conclusion::AsExpected, &[("d-lives", Met), ("e-lives", Met)]);
        assert_eq!(says(&[burst], "multi-model"), Says::Mixed);
    }
}
