//! Properties of an audit on clusters drawn at random, and the talk's own figures.

use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

const MI: u64 = 1 << 20;

fn pod(name: &str, request: u64, limit: Option<u64>) -> ClusterPod {
    let mut resources = json!({ "requests": { "memory": request } });
    if let Some(limit) = limit {
        resources["limits"] = json!({ "memory": limit });
    }
    let spec = json!({ "nodeName": "n", "containers": [{ "name": "c", "resources": resources }] });
    let pod = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap();
    ClusterPod { pod, owners: vec![], oom_killed: vec![] }
}

fn node(memory: u64, swap: u64) -> ClusterNode {
    let facts = NodeFacts::new(memory, swap);
    ClusterNode { name: "n".into(), kubernetes: Version::V1_37, facts, allocatable: memory }
}

fn usage(series: &[(&str, &[(i64, u64)])]) -> Usage {
    let who = |pod: &str| Who { node: None, namespace: "default".into(), pod: pod.into(), container: "c".into() };
    Usage { series: series.iter().map(|(pod, points)| (who(pod), points.iter().copied().collect())).collect(), sums: 0 }
}

#[test]
fn the_talk_s_burst_is_found_too_small_and_told_which_request_would_do() {
    // 512Mi of limit, a host runtime of about 1 GB behind 2Gi: entitlement 196 MB of a request of 392 MB on a node with half its memory as swap.
    let request = 392 * MI;
    let audit = audit(
        &[node(8192 * MI, 4096 * MI)],
        &[pod("server", request, Some(2048 * MI))],
        &usage(&[("server", &[(0, 300 * MI), (1, 1024 * MI)])]),
    )
    .unwrap();
    let found = &audit.nodes[0].pods[0].containers[0];
    assert_eq!((found.entitlement, found.beyond_request, found.too_small), (196 * MI, Some(632 * MI), true));
    // Two thirds of the peak as request, since swap adds half of it.
    let needed = found.request_needed.unwrap();
    assert!(needed.abs_diff(1024 * MI * 2 / 3) <= 1, "{needed}");
    assert!(audit.harmful() && audit.informative());
    assert_eq!(audit.nodes[0].usage, Some(Levels { average: 662 * MI, peak: 1024 * MI }));
    assert_eq!((audit.nodes[0].gap, audit.nodes[0].covered), (Some(362 * MI), Some(196 * MI)));
}

#[test]
fn a_peak_is_of_one_moment_and_a_container_counts_while_it_runs() {
    let pods = [pod("a", 1, None), pod("b", 1, None)];
    let series: [(&str, &[(i64, u64)]); 2] = [("a", &[(0, 10), (10, 0), (20, 10)]), ("b", &[(5, 7), (15, 9)])];
    let found = audit(&[node(100, 0)], &pods, &usage(&series)).unwrap();
    // 0: 10 · 5: 10+7 · 10: 0+7 · 15: 0+9 · 20: 10, b has ended.
    assert_eq!(found.nodes[0].usage, Some(Levels { average: (10 + 17 + 7 + 9 + 10) / 5, peak: 17 }));
    assert_eq!(found.moments, 5);
}

#[test]
fn a_pod_elsewhere_and_samples_of_nobody_are_named() {
    let mut lost = pod("lost", 1, None);
    lost.pod.spec.node_name = "other".into();
    let found = audit(&[node(100, 0)], &[lost], &usage(&[("gone", &[(0, 1)])])).unwrap();
    assert_eq!((found.elsewhere, found.unmatched), (vec!["default/lost".to_owned()], vec!["default/gone/c".to_owned()]));
}

type Drawn = Vec<(u64, Option<u64>, BTreeMap<i64, u64>)>;

fn drawn() -> impl Strategy<Value = Drawn> {
    let points = prop::collection::btree_map(0i64..20, 0u64..3 << 30, 0..8);
    prop::collection::vec((0u64..2 << 30, prop::option::of(0u64..3 << 30), points), 1..6)
}

proptest! {
    #[test]
    fn figures_agree_with_each_other(memory in 1u64 << 28..1 << 36, swap in 0u64..1 << 35, drawn in drawn()) {
        let names: Vec<String> = (0..drawn.len()).map(|i| format!("p{i}")).collect();
        let pods: Vec<ClusterPod> = drawn.iter().zip(&names)
            .map(|((request, over, _), name)| pod(name, *request, over.map(|over| request + over)))
            .collect();
        let points: Vec<Vec<(i64, u64)>> = drawn.iter().map(|d| d.2.clone().into_iter().collect()).collect();
        let series: Vec<(&str, &[(i64, u64)])> =
            names.iter().zip(&points).filter(|(_, p)| !p.is_empty()).map(|(name, p)| (name.as_str(), p.as_slice())).collect();
        let cluster = node(memory, swap);
        let found = audit(std::slice::from_ref(&cluster), &pods, &usage(&series)).unwrap();
        let node = &found.nodes[0];
        let containers: Vec<_> = node.pods.iter().flat_map(|p| &p.containers).collect();
        let peaks: Vec<u64> = containers.iter().filter_map(|c| c.usage).map(|u| u.peak).collect();
        prop_assert_eq!(node.usage.is_some(), !peaks.is_empty());
        if let (Some(levels), Some(gap), Some(covered)) = (node.usage, node.gap, node.covered) {
            prop_assert!(levels.average <= levels.peak && gap == levels.peak - levels.average);
            prop_assert!(levels.peak >= *peaks.iter().max().unwrap() && levels.peak <= peaks.iter().sum());
            prop_assert!(covered <= gap && covered <= swap && covered <= node.entitled);
        }
        for (container, cluster_pod) in containers.iter().zip(&pods) {
            // The kubelet's own plan says the same bytes.
            let mut config = limited_swap();
            config.fail_swap_on = Some(false);
            let plan = crate::plan::plan(cluster.kubernetes, &config, &cluster.facts, std::slice::from_ref(&cluster_pod.pod)).unwrap();
            let role = crate::record::Role::Container { pod: cluster_pod.pod.name().into(), container: "c".into() };
            let swap_max = plan.cgroup(&role).unwrap().value("memory.swap.max").unwrap();
            prop_assert_eq!(swap_max, container.entitlement.to_string());
            if container.too_small {
                prop_assert!(container.entitled && container.usage.unwrap().peak > container.request + container.entitlement);
            }
            if let Some(needed) = container.request_needed {
                let enough = |request: u64| {
                    let name = cluster_pod.pod.name();
                    let found = audit(std::slice::from_ref(&cluster), &[pod(name, request, container.limit)], &usage(&series)).unwrap();
                    let container = &found.nodes[0].pods[0].containers[0];
                    container.entitled && !container.too_small
                };
                prop_assert!(needed > container.request && enough(needed) && !enough(needed - 1));
            }
        }
    }
}
