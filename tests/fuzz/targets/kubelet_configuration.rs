//! Any text is a KubeletConfiguration or refused; it survives printing, and every version accepts it or says why not.

#![no_main]

use highwater::kubelet::{Effective, KubeletConfiguration, Node, NodeFacts, QosSums, Version, periodic_writes, startup_writes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(config) = serde_json::from_str::<KubeletConfiguration>(text) else { return };
    let printed = serde_json::to_string(&config).expect("a configuration can be printed");
    let again: KubeletConfiguration = serde_json::from_str(&printed).expect("what is printed is a configuration");
    assert_eq!(again, config, "{printed}");
    for version in Version::ALL {
        match Effective::resolve(version, &config) {
            Err(reasons) => assert!(!reasons.is_empty() && reasons.iter().all(|reason| !reason.message.is_empty())),
            Ok(effective) => {
                let node = Node::new(effective, NodeFacts::new(16 << 30, 4 << 30));
                assert!(node.status_allocatable <= node.allocatable_absolute || node.config.eviction_hard_memory.is_none());
                let _ = (node.check_start(), node.check_swap(), startup_writes(&node));
                assert_eq!(periodic_writes(&node, &QosSums::default()).len(), 3);
            }
        }
    }
});
