//! `highwater rollback`: the runbook of a lab, golden; and that every runbook ends with nothing left, whatever the version.

mod support;

use highwater::kubelet::{KubeletConfiguration, NodeFacts, Pod, Version};
use highwater::ledger::{Replay, Runbook, runbook};
use support::{expect, highwater};

fn rollback(code: i32, arguments: &[&str]) -> std::process::Output {
    let mut command = highwater(&["rollback"]);
    command.args(arguments).env_remove("RUST_BACKTRACE");
    expect(code, &mut command)
}

fn stdout(arguments: &[&str]) -> String {
    String::from_utf8(rollback(0, arguments).stdout).expect("UTF-8")
}

#[test]
fn the_runbook_of_the_file_reader_lab() {
    insta::assert_snapshot!("rollback_1.37", stdout(&["memory-qos/file-reader", "--gate-off"]));
    insta::assert_snapshot!("rollback_1.36", stdout(&["memory-qos/file-reader", "--kubernetes", "1.36", "--gate-off"]));
}

#[test]
fn json_says_the_same_as_the_text() {
    let text = stdout(&["memory-qos/file-reader", "--arm", "tiered"]);
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&["memory-qos/file-reader", "--arm", "tiered", "--json"])).expect("JSON");
    assert_eq!(json["from"], "tiered");
    let steps = json["steps"].as_array().expect("steps");
    assert!(steps.len() > 2);
    for step in steps {
        assert!(text.contains(step["what"].as_str().expect("words")), "{step}");
        let values = ["changes", "stale"].into_iter().flat_map(|list| step[list].as_array().expect("a list"));
        values.for_each(|value| assert!(text.contains(value["cgroup"].as_str().expect("a role")), "{value}"));
    }
}

#[test]
fn limited_swap_refuses_the_resize_of_a_request() {
    let text = stdout(&["swap/limited-entitlement", "--gate-off"]);
    assert!(text.contains("refused: In-place resize of containers with swap is not supported."), "{text}");
}

#[test]
fn a_lab_without_a_policy_is_told_so() {
    let output = rollback(2, &["swap/limited-entitlement"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("nothing to roll back") && text.contains("--gate-off"), "{text}");
}

fn of(version: Version, from: &str, to: &str) -> Runbook {
    let config = |text: &str| serde_json::from_str::<KubeletConfiguration>(text).expect("a configuration");
    let pods: Vec<Pod> = serde_json::from_str(
        r#"[{"metadata":{"name":"burstable"},"spec":{"containers":[{"name":"c","resources":
              {"requests":{"memory":"64Mi"},"limits":{"memory":"128Mi"}}}]}},
            {"metadata":{"name":"guaranteed"},"spec":{"containers":[{"name":"c","resources":
              {"requests":{"cpu":"100m","memory":"64Mi"},"limits":{"cpu":"100m","memory":"64Mi"}}}]}},
            {"metadata":{"name":"job"},"spec":{"restartPolicy":"Never","containers":[{"name":"c","resources":
              {"requests":{"memory":"32Mi"}}}]}}]"#,
    )
    .expect("pods");
    let node = Replay::create(version, &config(from), &NodeFacts::new(4 << 30, 0), &pods).expect("the kubelet starts");
    runbook(&node, &config(to)).expect("a way back")
}

#[test]
fn every_version_ends_with_nothing_left_and_differs_in_what_a_start_clears() {
    let off = r#"{"featureGates":{"MemoryQoS":false}}"#;
    let on = r#"{"featureGates":{"MemoryQoS":true}}"#;
    let both =
        r#"{"featureGates":{"MemoryQoS":true},"memoryReservationPolicy":"TieredReservation","memoryThrottlingFactor":0.8}"#;
    for (version, from) in [(Version::V1_34, on), (Version::V1_35, on), (Version::V1_36, both), (Version::V1_37, both)] {
        let book = of(version, from, off);
        let last = book.steps.last().expect("a step");
        assert_eq!(last.stale, [], "{version}");
        assert!(book.steps.iter().any(|step| !step.stale.is_empty()), "{version}: pods that run keep something");
        let by_hand = book.steps.iter().find(|step| step.what.contains("by hand"));
        // Before 1.36 no start of the kubelet clears the cgroups above the pods.
        assert_eq!(by_hand.is_some(), version < Version::V1_36, "{version}");
    }
}

#[test]
fn a_factor_taken_out_with_the_gate_on_stays_until_containers_restart() {
    let book = of(Version::V1_37, r#"{"memoryThrottlingFactor":0.9}"#, "{}");
    // A pod that is never restarted has to be made anew.
    let [factor, restart, anew] = &book.steps[..] else { panic!("{:?}", book.steps) };
    assert_eq!(factor.changes, []);
    assert!(factor.stale.iter().all(|left| left.file == "memory.high"), "{:?}", factor.stale);
    assert!(restart.commands.iter().all(|command| command.starts_with("crictl stop")), "{:?}", restart.commands);
    let left: Vec<_> = restart.stale.iter().map(|left| left.cgroup.as_str()).collect();
    assert_eq!((left, anew.commands.as_slice()), (vec!["pod/job/c"], &["kubectl delete pod job".to_owned()][..]));
    assert_eq!(anew.stale, []);
}
