//! What workloads reported of themselves, by pod and phase: the latest value of each key, and by how much it grew.

use super::result::ReportResult;
use crate::record::Report;
use std::collections::BTreeMap;

/// The reports of a stretch of time. Values of all containers of a pod are one namespace.
///
/// Growth counts from the last report before the stretch, if there is one, to the last report within it.
pub fn reported(reports: &[Report], from_ns: u64, to_ns: u64) -> Vec<ReportResult> {
    let mut pods: BTreeMap<&str, Pod<'_>> = BTreeMap::new();
    for report in reports.iter().filter(|r| r.at_ns <= to_ns) {
        pods.entry(&report.pod).or_default().see(report, report.at_ns > from_ns);
    }
    pods.into_iter().filter_map(|(name, pod)| pod.result(name)).collect()
}

#[derive(Default)]
struct Pod<'r> {
    standing: BTreeMap<&'r str, f64>,
    grew: BTreeMap<&'r str, f64>,
    most: BTreeMap<&'r str, f64>,
    began_ns: Option<u64>,
    ended_ns: Option<u64>,
}

impl<'r> Pod<'r> {
    fn see(&mut self, report: &'r Report, inside: bool) {
        for (key, value) in report.values() {
            let before = self.standing.insert(key, value).unwrap_or(0.0);
            if inside {
                // A process that was started again counts from 0.
                *self.grew.entry(key).or_default() += if value >= before { value - before } else { value };
                let most = self.most.entry(key).or_insert(value);
                *most = most.max(value);
            }
        }
        if inside {
            self.began_ns.get_or_insert(report.at_ns);
            self.ended_ns = Some(report.at_ns);
        } else {
            self.began_ns = Some(report.at_ns);
        }
    }

    fn result(self, pod: &str) -> Option<ReportResult> {
        let (began_ns, ended_ns) = (self.began_ns?, self.ended_ns?);
        let owned = |map: BTreeMap<&str, f64>| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Some(ReportResult {
            pod: pod.to_owned(),
            span_ns: ended_ns - began_ns,
            last: owned(self.standing),
            grew: owned(self.grew),
            most: owned(self.most),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(at_ns: u64, line: &str) -> Report {
        Report { at_ns, pod: "p".into(), container: "c".into(), line: line.into() }
    }

    #[test]
    fn growth_is_from_the_report_before_and_survives_a_restart() {
        let lines = [
            report(5, "report elapsed_s=1 busy_s=2.5 used=7"),
            report(10, "report elapsed_s=2 busy_s=3 used=9 new_us=4"),
            report(20, "report elapsed_s=1 busy_s=1 used=3"),
            report(30, "report elapsed_s=2 busy_s=9 used=1"),
        ];
        let found = reported(&lines, 5, 20);
        let [pod] = &found[..] else { panic!("{found:?}") };
        assert_eq!((pod.span_ns, pod.grew["busy_s"], pod.most["used"], pod.last["used"]), (15, 1.5, 9.0, 3.0));
        assert_eq!(pod.last["new_us"], 4.0, "what a later report leaves out still stands");
        assert_eq!(reported(&lines, 30, 40), [], "nothing was reported");
        assert_eq!(reported(&lines, 0, 5)[0].span_ns, 0);
    }
}
