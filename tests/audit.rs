//! `highwater audit` through the binary: a small cluster in both sample formats, every mistake at once, the exit codes.

mod support;

use std::io::Write;
use std::process::{Output, Stdio};
use support::{expect, highwater};

fn fixture(name: &str) -> String {
    // Relative to the package's root, where tests run, so that messages are the same in every checkout.
    format!("fixtures/audit/{name}")
}

fn audit(code: i32, arguments: &[&str]) -> Output {
    let mut command = highwater(&["audit"]);
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("RUST_BACKTRACE");
    expect(code, &mut command)
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

#[test]
fn a_cluster_is_audited_the_same_from_both_kinds_of_samples() {
    let (cluster, lines, matrix) = (fixture("cluster.json"), fixture("usage.txt"), fixture("usage.json"));
    let from_lines = stdout(&audit(1, &[&cluster, "--usage", &lines]));
    let from_matrix = stdout(&audit(1, &[&cluster, "--usage", &matrix]));
    assert_eq!(from_lines, from_matrix);
    insta::assert_snapshot!("audit", from_lines);
}

#[test]
fn json_has_every_figure_and_standard_input_is_read() {
    let lines = fixture("usage.txt");
    let mut command = highwater(&["audit", "-", "--usage", &lines, "--json"]);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let cluster =
        std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture("cluster.json"))).expect("a fixture");
    child.stdin.take().expect("it is piped").write_all(&cluster).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let node = &found["nodes"][0];
    assert_eq!(
        (node["name"].as_str(), node["gap"].as_u64().is_some(), node["swap"].as_u64()),
        (Some("gpu-0"), true, Some(8 << 30))
    );
    let chatbot =
        node["pods"].as_array().expect("a list").iter().find(|pod| pod["name"] == "chat/chatbot-0").expect("it is there");
    let server = &chatbot["containers"][0];
    // 392Mi of 16Gi of memory and 8Gi of swap is the talk's entitlement of 196 MB.
    assert_eq!((server["entitlement"].as_u64(), server["tooSmall"].as_bool()), (Some(196 << 20), Some(true)));
    assert_eq!(found["actions"][0]["id"], "keep-off-swap");
}

#[test]
fn every_mistake_of_every_file_is_told_at_once() {
    let output = audit(2, &[&fixture("bad-cluster.json"), "--usage", &fixture("bad-usage.txt")]);
    insta::assert_snapshot!("audit_mistakes", String::from_utf8_lossy(&output.stderr).into_owned());
    let output = audit(2, &[&fixture("bad-label.json")]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("pod x/p: label highwater/latency is \"fast\""), "{text}");
    audit(2, &[&fixture("nowhere.json")]);
}

#[test]
fn exit_codes_tell_harm_from_calm_from_not_knowing() {
    let (calm, samples) = (fixture("calm.json"), fixture("calm.txt"));
    audit(0, &[&calm, "--usage", &samples]);
    // With a sixteenth of the swap the same peak does not fit any more.
    audit(1, &[&calm, "--usage", &samples, "--swap", "512Mi"]);
    let text = stdout(&audit(4, &[&calm]));
    assert!(text.contains("nothing is known about usage"), "{text}");
}
