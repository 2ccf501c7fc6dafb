//! The page of the decision framework: its verdicts are those of the runs given, and the page needs nothing from outside.

mod support;

use std::path::Path;
use support::{expect, highwater};

fn page(code: i32, runs: &Path, out: &Path) -> (serde_json::Value, String) {
    let [runs, file] = [runs, out].map(|path| path.to_str().expect("UTF-8"));
    let output = expect(code, &mut highwater(&["report", "--framework", runs, "--out", file, "--json"]));
    let json = serde_json::from_slice(&output.stdout).expect("JSON");
    (json, std::fs::read_to_string(out).expect("the page is written"))
}

fn says<'a>(json: &'a serde_json::Value, id: &str) -> &'a str {
    let lines = json["lines"].as_array().expect("a list");
    lines.iter().find(|line| line["id"] == id).expect("the line is there")["says"].as_str().expect("a word")
}

#[test]
fn verdicts_come_from_the_runs_and_nowhere_else() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (runs, out) = (dir.path().join("runs"), dir.path().join("framework.html"));
    std::fs::create_dir(&runs).expect("writable");
    expect(2, &mut highwater(&["report", "--framework", runs.to_str().expect("UTF-8")]));
    let none = expect(4, highwater(&["report", "--framework", "--out"]).arg(&out));
    assert!(String::from_utf8_lossy(&none.stdout).contains("not run"));

    let run = runs.join("some/where");
    expect(0, highwater(&["run", "swap/limited-entitlement", "--out"]).arg(&run));
    let (json, html) = page(0, &runs, &out);
    assert_eq!(
        [says(&json, "requests"), says(&json, "databases"), says(&json, "non-production")],
        ["backed", "not-run", "no-lab"]
    );
    assert!(html.contains(r#"id="requests""#) && html.contains(r#"href="runs/some/where/report.html""#), "{html}");
    assert!(dir.path().join("runs/some/where/report.html").is_file());
    for outside in ["http://", "https://", "<script", "src=", "@import", "url("] {
        assert!(!html.contains(outside), "the page needs {outside}");
    }
    let opened = |tag: &str| html.matches(&format!("<{tag}")).count();
    for tag in ["article", "section", "tbody", "ul", "li", "main"] {
        assert_eq!(opened(tag), html.matches(&format!("</{tag}>")).count(), "<{tag}> is closed");
    }

    // The same run with another outcome gives another verdict.
    let file = run.join("result.json");
    let mut result: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).expect("a result")).expect("JSON");
    for expectation in result["expectations"].as_array_mut().expect("a list") {
        expectation["standing"] = "notMet".into();
    }
    std::fs::write(&file, result.to_string()).expect("writable");
    let (json, html) = page(0, &runs, &out);
    assert_eq!(says(&json, "requests"), "refuted");
    assert!(html.contains("not so: no request, no entitlement"), "{html}");
}
