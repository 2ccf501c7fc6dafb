//! Properties of the policy on pods and nodes drawn at random, and figures a real kubelet wrote.

use highwater::kubelet::{KubeletConfiguration, NodeFacts, Pod, Version};
use highwater::plan::{Planning, Risk, diff, plan};
use highwater::record::{Plan, PlannedCgroup};
use proptest::prelude::*;
use serde_json::json;

fn value<'a>(plan: &'a Plan, role: &str, file: &str) -> Option<&'a str> {
    let named = |cgroup: &&PlannedCgroup| cgroup.role.to_string() == role;
    let cgroup = plan.cgroups.iter().find(named).unwrap_or_else(|| panic!("no cgroup {role}"));
    cgroup.files.iter().find(|planned| planned.file == file).map(|planned| planned.value.as_str())
}

fn pod(name: &str, resources: serde_json::Value) -> Pod {
    let spec = json!({ "containers": [{ "name": "c", "resources": resources }] });
    serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).expect("a pod")
}

fn config(json: serde_json::Value) -> KubeletConfiguration {
    serde_json::from_value(json).expect("a configuration")
}

/// What kubelet 1.37.2 with containerd 2.4 and runc 1.5 wrote on a virtual machine, read from its files.
#[test]
fn a_real_node_wrote_these_bytes() {
    let both = config(json!({
        "memoryThrottlingFactor": 0.9, "memoryReservationPolicy": "TieredReservation", "failSwapOn": false,
        "memorySwap": { "swapBehavior": "LimitedSwap" },
    }));
    let facts = NodeFacts::new(10_191_240 << 10, 2_097_148 << 10);
    let equal = json!({ "cpu": "100m", "memory": "64Mi" });
    let pods = [
        pod("guaranteed", json!({ "requests": equal, "limits": equal })),
        pod("burstable", json!({ "requests": { "memory": "128Mi" }, "limits": { "memory": "256Mi" } })),
        pod("besteffort", json!({})),
    ];
    let plan = plan(Version::V1_37, &both, &facts, &pods).expect("it starts");
    for (role, file, bytes) in [
        ("kubepods", "memory.min", "201326592"),
        ("kubepods", "memory.low", "134217728"),
        ("kubepods", "memory.max", "10435829760"),
        ("burstable", "memory.low", "134217728"),
        ("pod/burstable", "memory.low", "134217728"),
        ("pod/burstable", "memory.max", "268435456"),
        ("pod/burstable/c", "memory.low", "134217728"),
        ("pod/burstable/c", "memory.high", "255012864"),
        ("pod/burstable/c", "memory.max", "268435456"),
        ("pod/guaranteed", "memory.min", "67108864"),
        ("pod/guaranteed/c", "memory.min", "67108864"),
        ("pod/guaranteed/c", "memory.max", "67108864"),
        ("pod/guaranteed/c", "memory.swap.max", "0"),
        ("pod/besteffort/c", "memory.min", "0"),
        ("pod/besteffort/c", "memory.low", "0"),
        ("pod/besteffort/c", "memory.high", "9392246784"),
    ] {
        assert_eq!(value(&plan, role, file), Some(bytes), "{role} {file}");
    }
    for (role, file) in
        [("burstable", "memory.min"), ("pod/burstable/pause", "memory.max"), ("pod/burstable/pause", "memory.high")]
    {
        assert_eq!(value(&plan, role, file), None, "{role} {file}");
    }
}

/// The lab memory-qos/upgrade-defaults, by arithmetic.
#[test]
fn the_upgrade_to_1_37() {
    let facts = NodeFacts::new(16 << 30, 0);
    let pods = [pod("p", json!({ "requests": { "memory": "128Mi" }, "limits": { "memory": "256Mi" } }))];
    let risks = |old: serde_json::Value, new: serde_json::Value| {
        let before = plan(Version::V1_36, &config(old), &facts, &pods).expect("1.36 starts");
        let after = plan(Version::V1_37, &config(new), &facts, &pods).map_err(|reasons| reasons[0].to_string())?;
        Ok::<_, String>(
            diff(&before, &after).iter().map(|change| change.risk).filter(|risk| *risk < Risk::Rank).collect::<Vec<_>>(),
        )
    };
    assert_eq!(risks(json!({}), json!({})), Ok(vec![]), "the gate was off, the factor is left out: nothing");
    let spelled = json!({ "memoryThrottlingFactor": 0.9 });
    assert_eq!(risks(spelled.clone(), spelled), Ok(vec![Risk::Throttle]), "an explicit 0.9 starts to throttle");
    let off = json!({ "memoryThrottlingFactor": 0.8, "featureGates": { "MemoryQoS": false } });
    let refused = "invalid configuration: memoryThrottlingFactor must not be set when MemoryQoS feature gate is disabled";
    assert_eq!(risks(off.clone(), off), Err(refused.to_owned()));
    let on = json!({ "featureGates": { "MemoryQoS": true } });
    assert_eq!(risks(on.clone(), on), Ok(vec![]), "memory.high is not written any more: stale, but no new danger");
}

fn quantity() -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(0.7, prop_oneof!["[1-9][0-9]{0,3}Mi", "[1-9]Gi", "[1-9][0-9]{3,9}", "[1-9][0-9]{0,5}m", "0"])
}

fn resources() -> impl Strategy<Value = serde_json::Value> {
    (quantity(), quantity(), any::<bool>()).prop_map(|(request, limit, cpu)| {
        let mut out = json!({ "requests": {}, "limits": {} });
        if let Some(request) = request {
            out["requests"]["memory"] = json!(request);
        }
        if let Some(limit) = limit {
            out["limits"]["memory"] = json!(limit);
        }
        if cpu {
            out["limits"]["cpu"] = json!("100m");
        }
        out
    })
}

fn any_pod() -> impl Strategy<Value = Pod> {
    let containers = prop::collection::vec(resources(), 1..4);
    let sidecars = prop::collection::vec((resources(), any::<bool>()), 0..3);
    (containers, sidecars, prop::option::weighted(0.3, resources()), "[a-z]{8}").prop_map(|(containers, init, level, name)| {
        let one = |kind: &str, index: usize, resources: &serde_json::Value| json!({ "name": format!("{kind}{index}"), "resources": resources });
        let containers: Vec<_> = containers.iter().enumerate().map(|(i, r)| one("c", i, r)).collect();
        let init: Vec<_> = init
            .iter()
            .enumerate()
            .map(|(i, (r, sidecar))| {
                let mut container = one("i", i, r);
                if *sidecar {
                    container["restartPolicy"] = json!("Always");
                }
                container
            })
            .collect();
        let mut spec = json!({ "containers": containers, "initContainers": init });
        if let Some(level) = level {
            spec["resources"] = level;
        }
        serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).expect("a pod")
    })
}

fn any_config() -> impl Strategy<Value = KubeletConfiguration> {
    (any::<bool>(), 1u32..=100, any::<bool>(), any::<bool>()).prop_map(|(qos, percent, tiered, swap)| {
        let mut out = json!({ "failSwapOn": false, "featureGates": { "MemoryQoS": qos, "NodeSwap": true } });
        if qos {
            out["memoryThrottlingFactor"] = json!(f64::from(percent) / 100.0);
        }
        if qos && tiered {
            out["memoryReservationPolicy"] = json!("TieredReservation");
        }
        if swap {
            out["memorySwap"] = json!({ "swapBehavior": "LimitedSwap" });
        }
        config(out)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_plan_keeps_to_its_bounds(pods in prop::collection::vec(any_pod(), 0..4), config in any_config(),
                                      gib in 1u64..64, swap in 0u64..8, version in 0usize..7) {
        let facts = NodeFacts::new(gib << 30, swap << 30);
        // Pods that the API server would refuse are refused here too, with a reason.
        let Ok(planning) = Planning::new(Version::ALL[version], &config, &facts, &pods) else { return Ok(()) };
        let plan = planning.plan();
        prop_assert!(diff(&plan, &plan).is_empty());
        let json = serde_json::to_string(&plan).expect("a plan is JSON");
        prop_assert_eq!(serde_json::from_str::<Plan>(&json).expect("and back"), plan.clone());
        // Until 1.36 memory.high of a container without a limit of its own comes from the node, while memory.max is the pod-level limit.
        let unrelated = Version::ALL[version] < Version::V1_37 && pods.iter().any(|pod| pod.spec.resources.is_some());
        for cgroup in &plan.cgroups {
            let role = cgroup.role.to_string();
            let number = |file: &str| value(&plan, &role, file).and_then(|text| text.parse::<u64>().ok());
            if let (Some(high), Some(max)) = (number("memory.high"), number("memory.max")) {
                prop_assert!((high <= max || unrelated) && high % 4096 == 0, "{role}: high {high}, max {max}");
            }
            for protection in ["memory.min", "memory.low"] {
                if let (Some(bytes), Some(high)) = (number(protection).filter(|bytes| *bytes > 0), number("memory.high")) {
                    prop_assert!(bytes < high, "{role}: {protection} {bytes}, high {high}");
                }
            }
            prop_assert!(number("memory.swap.max").is_none_or(|bytes| bytes <= swap << 30), "{role}");
            for file in &cgroup.files {
                let why = planning.explain(&role, &file.file).expect("every value has a rule");
                prop_assert_eq!(why.value.as_deref(), Some(file.value.as_str()));
                prop_assert!(!why.rule.formula.is_empty() && !why.rule.source.is_empty());
            }
        }
        prop_assert!(planning.files().stale(planning.node(), planning.pods()).is_empty(), "a fresh node holds nothing stale");
    }

    #[test]
    fn defaults_are_set_once(mut pod in any_pod()) {
        for version in Version::ALL {
            let gates = highwater::kubelet::Gates::resolve(version, &Default::default()).expect("the defaults");
            pod.set_defaults(&gates);
            let once = pod.clone();
            pod.set_defaults(&gates);
            prop_assert_eq!(&pod, &once);
            let text = serde_json::to_string(&pod).expect("a pod is JSON");
            prop_assert_eq!(serde_json::from_str::<Pod>(&text).expect("and back"), once);
        }
    }
}
