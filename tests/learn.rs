//! `highwater learn`, end to end: the prediction before the run, what happened after it, and what is remembered.

mod support;

use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use support::{Place, expect};

const LAB: &str = "memory-qos/rollback";

fn answered(mut command: Command, input: &str) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    child.stdin.take().expect("it is piped").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_prediction_is_asked_for_held_against_the_run_and_remembered() {
    let place = Place::new();
    let out = place.out();
    let out = out.to_str().expect("UTF-8");
    // The first two lines are no answers and are asked for again.
    let output = answered(place.command(&["learn", LAB, "--out", out]), "a while\n9\n2\n");
    let (told, asked) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{asked}");
    let question = told.find("Before it runs").expect("the question");
    let verdict = told.find("You predicted it: What they had before.").unwrap_or_else(|| panic!("{told}"));
    assert!(question < told.find("AS EXPECTED").expect("the result") && told.find("AS EXPECTED") < Some(verdict), "{told}");
    assert!(told.contains("memory.low of the server stayed 33554432 until a resize"), "figures of the run are filled in: {told}");
    assert!(asked.contains("\"a while\" is not the number of an answer") && asked.contains("\"9\" is not"), "{asked}");

    let page = std::fs::read_to_string(place.out().join("report.html")).expect("a page");
    assert!(page.contains("What to make of it") && page.contains("stayed 33554432 until a resize"), "the page tells the lesson");

    // The same run again, with another prediction and without running anything.
    let again = json(&expect(0, &mut place.command(&["learn", LAB, "--run", out, "--predict", "1", "--json"])));
    assert_eq!((&again["right"], &again["predicted"]), (&Value::Bool(false), &1.into()), "{again}");
    assert_eq!(again["lesson"]["choices"][1]["right"], true, "{again}");

    let listed = json(&expect(0, &mut place.command(&["learn", "--list", "--course", "memory-qos", "--json"])));
    let learned = listed.as_array().expect("a list").iter().find(|lab| lab["lab"] == LAB).expect("the lab is in its course");
    assert_eq!(learned["learned"]["right"], false, "{listed}");

    let other = expect(2, &mut place.command(&["learn", "swap/etcd", "--run", out, "--predict", "1"]));
    assert!(String::from_utf8_lossy(&other.stderr).contains("is a run of memory-qos/rollback"));
    let beyond = expect(2, &mut place.command(&["learn", LAB, "--run", out, "--predict", "4"]));
    assert!(String::from_utf8_lossy(&beyond.stderr).contains("answers 1 to 3"));
}
