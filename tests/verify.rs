//! `highwater verify` on what real kubelets wrote: the verdicts, the known defects by name, exit codes and JUnit.

mod support;

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Output;
use support::{expect, highwater};

fn life(name: &str) -> (PathBuf, Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/ledger-real").join(name);
    let value = serde_json::from_str(&std::fs::read_to_string(&path).expect("it is there")).expect("JSON");
    (path, value)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The files of a plan, and a step's ledger, in a folder.
struct Case {
    folder: tempfile::TempDir,
    facts: Value,
}

impl Case {
    fn new(life: &Value, config: &Value, step: usize) -> Case {
        let case = Case { folder: tempfile::tempdir().expect("a folder"), facts: life["facts"].clone() };
        case.write("pods.json", &json!({"apiVersion": "v1", "kind": "List", "items": life["steps"][0]["pods"]}));
        case.write("kubelet.json", config);
        case.write("ledger.json", &json!({"atNs": 0, "phase": "now", "entries": life["steps"][step]["ledger"]}));
        case
    }

    fn write(&self, name: &str, value: &Value) {
        std::fs::write(self.path(name), value.to_string()).expect("written");
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    fn verify(&self, code: i32, further: &[&str]) -> Output {
        let (ledger, pods, kubelet) = (self.path("ledger.json"), self.path("pods.json"), self.path("kubelet.json"));
        let (memory, swap) = (self.facts["memory"].to_string(), self.facts["swap"].to_string());
        let mut arguments =
            vec!["verify", &ledger, &pods, "--kubelet", &kubelet, "--memory", &memory, "--swap", &swap, "--cpus", "2"];
        arguments.extend(further);
        expect(code, &mut highwater(&arguments))
    }
}

#[test]
fn a_real_node_s_life_is_fulfilled_and_what_stayed_behind_has_a_name() {
    let (path, _) = life("1.37.2-levels-both.json");
    let text = stdout(&expect(0, &mut highwater(&["verify", path.to_str().expect("UTF-8")])));
    assert_eq!(text.matches("FULFILLED  step").count(), 6, "{text}");
    assert!(text.contains("stale-but-neutral (pod/burstable/memory.low"), "{text}");
}

/// The policy went back to None and the gate stayed on: the leaves keep what Tiered and the factor wrote.
#[test]
fn stale_leaves_are_drifts_that_are_neutral_and_a_stale_high_is_one_that_throttles() {
    let (_, life) = life("1.37.2-memory-qos-file-reader-tiered.json");
    let case = Case::new(&life, &json!({"kind": "KubeletConfiguration", "cgroupDriver": "systemd"}), 1);
    let junit = case.path("junit.xml");
    let text = stdout(&case.verify(1, &["--junit", &junit]));
    assert!(text.contains("stale-but-neutral (pod/reader/memory.low") && text.contains("at most 0 by kubepods"), "{text}");
    let xml = std::fs::read_to_string(junit).expect("written");
    assert!(xml.contains("<testcase classname=\"pod/reader\" name=\"memory.low\"><failure message="), "{xml}");
    let fulfilled = "<testcase classname=\"kubepods\" name=\"memory.low\"/>";
    assert!(xml.contains(fulfilled), "{xml}");
}

#[test]
fn a_high_that_nobody_clears_is_named() {
    let (_, life) = life("1.37.2-levels-both.json");
    let before = Case::new(&life, &life["steps"][0]["config"], 0);
    before.verify(0, &[]);
    // Taken for a node whose factor was taken away, its memory.high is what nobody clears.
    let mut config = life["steps"][0]["config"].clone();
    config.as_object_mut().expect("an object").remove("memoryThrottlingFactor");
    let text = stdout(&Case::new(&life, &config, 0).verify(1, &["--json"]));
    let verified: Value = serde_json::from_str(&text).expect("JSON");
    let findings = verified[0]["findings"].as_array().expect("a list");
    let high = |f: &&Value| f["file"] == "memory.high" && f["verdict"] == "DRIFTED";
    assert!(findings.iter().filter(high).count() > 0);
    assert!(findings.iter().filter(high).all(|f| f["defect"] == "high-never-cleared"), "{text}");
}

#[test]
fn what_is_missing_is_no_proof_and_what_is_not_planned_neither() {
    let (_, life) = life("1.37.2-limited-entitlement.json");
    let config = life["steps"][0]["config"].clone();
    let mut gone = life.clone();
    gone["steps"][0]["ledger"].as_array_mut().expect("a list").pop();
    let text = stdout(&Case::new(&gone, &config, 0).verify(4, &[]));
    assert!(text.contains("INSUFFICIENT EVIDENCE") && text.contains("is not in the snapshot"), "{text}");
    let mut absent = life.clone();
    absent["steps"][0]["ledger"][3]["files"]["memory.low"] = json!("absent");
    let text = stdout(&Case::new(&absent, &config, 0).verify(4, &[]));
    assert!(text.contains("not there or could not be read"), "{text}");
    let mut fewer = life.clone();
    fewer["steps"][0]["pods"].as_array_mut().expect("a list").retain(|pod| pod["metadata"]["name"] != "besteffort");
    let text = stdout(&Case::new(&fewer, &config, 0).verify(4, &[]));
    assert!(text.contains("pod/besteffort") && text.contains("exists and is not planned"), "{text}");
}

#[test]
fn a_ledger_without_a_plan_is_bad_input() {
    let (_, life) = life("1.37.2-limited-entitlement.json");
    let case = Case::new(&life, &json!({}), 0);
    let output = expect(2, &mut highwater(&["verify", &case.path("ledger.json")]));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("ledger without a plan") && text.contains("--plan"), "{text}");
    expect(2, &mut highwater(&["verify", "/nowhere"]));
}
