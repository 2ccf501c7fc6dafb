//! `highwater inventory` through the binary: a fleet with each kind of question, scrapes, every mistake at once, the exit codes.

mod support;

use std::process::Output;
use support::{expect, highwater};

fn inventory(code: i32, arguments: &[&str]) -> Output {
    let mut command = highwater(&["inventory"]);
    // Relative to the package's root, where tests run, so that messages are the same in every checkout.
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("RUST_BACKTRACE");
    expect(code, &mut command)
}

#[test]
fn a_fleet_shows_two_problems_and_what_each_signal_would_have_done() {
    let output = inventory(1, &["fixtures/inventory/fleet.json"]);
    insta::assert_snapshot!("inventory", String::from_utf8_lossy(&output.stdout).into_owned());
}

#[test]
fn json_has_the_question_of_every_device() {
    let output = inventory(1, &["fixtures/inventory/fleet.json", "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let gpus = found["gpus"].as_array().expect("a list");
    let asked = |pod: &str| {
        let gpu = gpus.iter().find(|gpu| gpu["gpu"]["pod"].as_str().unwrap_or_default() == pod).expect("it is there");
        gpu["question"]["id"].as_str().expect("a text").to_owned()
    };
    let expected = [
        ("shop/chat-0", "capacity"),
        ("shop/embed-0", "little-use"),
        ("batch/nightly-0", "bursts"),
        ("research/notebook-7", "little-use"),
        ("shop/rank-0", "in-use"),
        ("shop/starved-0", "not-the-device"),
        ("", "unheld"),
    ];
    for (pod, id) in expected {
        assert_eq!(asked(pod), id, "{pod}");
    }
    assert_eq!(gpus.len(), expected.len());
}

#[test]
fn scrapes_of_a_server_and_of_its_device_are_one_device() {
    let output = inventory(1, &["fixtures/inventory/scrapes.txt", "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let [gpu] = &found["gpus"].as_array().expect("a list")[..] else { panic!("{found}") };
    assert_eq!(gpu["question"]["id"], "capacity");
    assert_eq!(gpu["queue"]["most"], 24.0);
    let ttft: Vec<f64> = gpu["ttftMs"].as_array().expect("a list").iter().filter_map(|ms| ms.as_f64()).collect();
    assert!(ttft[2] > 10.0 * ttft[0], "{ttft:?}");
}

#[test]
fn mistakes_are_told_at_once_and_too_little_is_no_answer() {
    let output = inventory(2, &["fixtures/inventory/bad.json", "fixtures/inventory/bad.txt"]);
    insta::assert_snapshot!("inventory_mistakes", String::from_utf8_lossy(&output.stderr).into_owned());
    inventory(2, &["fixtures/inventory/nowhere.json"]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let short = folder.path().join("short.txt");
    std::fs::write(&short, "# scraped 1764540000 p\nvllm:num_requests_waiting 1\n").expect("it can be written");
    let text = String::from_utf8_lossy(&inventory(4, &[short.to_str().expect("UTF-8")]).stdout).into_owned();
    assert!(text.contains("too few samples"), "{text}");
}

#[test]
fn names_that_steer_a_terminal_do_not_reach_it() {
    let fleet =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/inventory/fleet.json")).expect("it is there");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let hostile = folder.path().join("hostile.json");
    assert!(fleet.contains("chat-0"));
    std::fs::write(&hostile, fleet.replace("chat-0", "chat\\u001b[31m\\u202e-0\\u0007")).expect("it can be written");
    let output = inventory(1, &[hostile.to_str().expect("UTF-8")]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("chat\u{fffd}[31m\u{fffd}-0\u{fffd}"), "{text}");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}'), "{text:?}");
}
