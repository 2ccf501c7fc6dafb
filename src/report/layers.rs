//! Which layer holds the cache of a model server, arm by arm: blocks in the device and in the server's own pool on the host. What of the pool lies
//! in kernel swap is drawn with the pods' memory, on the same time axis.

use super::Subject;
use super::chart::{Chart, Draw, Series};
use super::events::marks;
use super::figures::{COUNT, Figure, class, end, index, phases};
use crate::record::Report;
use std::collections::BTreeMap;

const DEVICE: &str = "kv_blocks_used";
const HOST: &str = "host_kv_blocks_used";

/// The drawings; none when no arm ever had a block on the host.
#[must_use]
pub fn layers(subject: &Subject<'_>) -> Vec<Figure> {
    let arms = subject.arms.iter().filter_map(|records| {
        let arm = subject.result.arms.iter().find(|arm| arm.name == records.name)?;
        Some((arm, blocks(&records.reports, &[DEVICE]), blocks(&records.reports, &[HOST])))
    });
    let arms: Vec<_> = arms.filter(|(_, device, _)| !device.is_empty()).collect();
    let most = |points: &[(u64, f64)]| points.iter().map(|p| p.1).fold(0.0, f64::max);
    if arms.iter().all(|(_, _, host)| most(host) == 0.0) {
        return Vec::new();
    }
    let both = |device: &[(u64, f64)], host: &[(u64, f64)]| most(device) + most(host);
    let top = arms.iter().map(|(_, device, host)| both(device, host)).fold(0.0, f64::max) * 1.08;
    let last = arms.len() - 1;
    arms.into_iter()
        .enumerate()
        .map(|(i, (arm, device, host))| {
            let own = class(index(subject, &arm.name));
            let pool = Series {
                name: "in the pool on the host, on top of the device".into(),
                class: "swap".into(),
                points: host,
                draw: Draw::Stack,
            };
            let device = Series { name: "in the device".into(), class: own.clone(), points: device, draw: Draw::Stack };
            let phases = phases(arm);
            let chart = Chart {
                title: format!("Cache blocks of arm {} over time, in the device and in the pool on the host", arm.name),
                series: vec![device, pool],
                levels: vec![],
                moments: &marks(subject, arm),
                phases: &phases,
                end_ns: end(subject),
                top,
                below: 0.0,
                height: 90.0,
                scale: COUNT,
                axis: i == last,
            };
            Figure { title: arm.name.clone(), class: own, svg: chart.svg(), note: String::new() }
        })
        .collect()
}

/// The sum of these keys over all pods that report the first, point by point.
fn blocks(reports: &[Report], keys: &[&str]) -> Vec<(u64, f64)> {
    let mut standing: BTreeMap<&str, f64> = BTreeMap::new();
    let mut points = Vec::new();
    for report in reports {
        let found: Vec<f64> = report.values().filter(|(key, _)| keys.contains(key)).map(|(_, value)| value).collect();
        if !found.is_empty() {
            standing.insert(&report.pod, found.iter().sum());
            points.push((report.at_ns, standing.values().sum()));
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_summed_as_they_stand() {
        let report = |at_ns, pod: &str, line: &str| Report { at_ns, pod: pod.into(), container: "c".into(), line: line.into() };
        let reports = [
            report(1, "a", "report kv_blocks_used=3 host_kv_blocks_used=1"),
            report(2, "b", "report kv_blocks_used=4 host_kv_blocks_used=0"),
            report(3, "db", "report commits=9"),
            report(4, "a", "report kv_blocks_used=1 host_kv_blocks_used=5"),
        ];
        assert_eq!(blocks(&reports, &[DEVICE]), [(1, 3.0), (2, 7.0), (4, 5.0)]);
        assert_eq!(blocks(&reports, &[HOST]), [(1, 1.0), (2, 1.0), (4, 5.0)]);
    }
}
