//! Any text is a Pod or refused; a Pod survives printing, and its policy can be computed on every version.

#![no_main]

use highwater::kubelet::{ContainerPolicy, Effective, KubeletConfiguration, Node, NodeFacts, Pod, PodPolicy, Version};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static NODES: LazyLock<Vec<Node>> = LazyLock::new(|| {
    let mut config = KubeletConfiguration::default();
    config.memory_throttling_factor = Some(0.9);
    config.feature_gates.insert("MemoryQoS".to_owned(), true);
    config.feature_gates.insert("NodeSwap".to_owned(), true);
    config.memory_swap.swap_behavior = "LimitedSwap".to_owned();
    Version::ALL
        .into_iter()
        .map(|version| {
            let effective = Effective::resolve(version, &config).expect("every version takes it");
            Node::new(effective, NodeFacts::new(16 << 30, 4 << 30))
        })
        .collect()
});

fuzz_target!(|text: &str| {
    let Ok(pod) = serde_json::from_str::<Pod>(text) else { return };
    let printed = serde_json::to_string(&pod).expect("a pod can be printed");
    let again: Pod = serde_json::from_str(&printed).expect("what is printed is a pod");
    assert_eq!(again, pod, "{printed}");
    let _ = pod.check();
    for node in NODES.iter() {
        let mut pod = pod.clone();
        pod.set_defaults(&node.config.gates);
        let once = pod.clone();
        pod.set_defaults(&node.config.gates);
        assert_eq!(once, pod, "defaulting twice changes something");
        let policy = PodPolicy::of(node, &pod);
        for container in pod.containers() {
            let values = ContainerPolicy::of(node, &pod, &policy, container);
            assert!((-997..=1000).contains(&values.oom_score_adj.value));
        }
    }
});
