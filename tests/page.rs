//! What people look at, made from a record that was never run: 40 containers, 10 minutes, 10 readings a second, and names that mean harm.

mod support;

use camino::Utf8Path;
use highwater::kubelet::NodeFacts;
use highwater::lab::{Lab, LabFiles};
use highwater::ledger::CONTROLS;
use highwater::record::{
    Change, Event, EventKind, FileValue, Frame, LedgerEntry, LedgerSnapshot, Metric, NodeRecord, Plan, Role, RunDir, SCHEMA,
    Tick, Watch, encode_frame,
};
use std::fmt::Write as _;
use std::process::Output;
use support::{expect, highwater};

const SECOND: u64 = 1_000_000_000;
/// HTML, an escape sequence, a direction override, and a right-to-left name that is meant.
const HOSTILE: &str = "</script><script>alert(1)</script>\u{1b}[31m\u{202e}'\"&שלום";

/// A lab of so many pods with a container each, in two arms.
fn lab(pods: usize, says: &str) -> Lab {
    let quoted = serde_json::to_string(says).expect("a string");
    let mut text = format!(
        "apiVersion: highwater/v1alpha1\nkind: Lab\ntitle: {quoted}\nquestion: {quoted}\nsource: {{name: {quoted}}}\n\
         scale: {{factor: 1, how: {quoted}}}\nnode:\n  kubernetes: \"1.37\"\n  memory: 1Gi\n  swap: [{{name: swap0, size: 256Mi, profile: nvme}}]\n\
         vary: [kubelet.memorySwap]\nbaseline: a\narms:\n  - {{name: a, about: {quoted}}}\n\
         \x20 - {{name: b, about: b, patch: {{kubelet: {{memorySwap: {{swapBehavior: NoSwap}}}}}}}}\nphases:\n\
         \x20 - {{name: first, start: [p0], ends: {{after: 300s}}}}\n  - {{name: second, ends: {{after: 300s}}}}\n\
         expectations:\n  - {{id: x, say: {quoted}, precondition: true, metric: {{arm: a, name: swapPeak}}, is: {{atLeast: 1Mi}}, falseIn: b}}\n\
         budget: {{busy: 1s}}\n---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailSwapOn: false\n\
         memorySwap: {{swapBehavior: LimitedSwap}}\n"
    );
    for pod in 0..pods {
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p{pod}}}\nspec:\n  containers:\n    - name: c\n      image: highwater-node\n\
             \x20     args: [anon, --size=1Mi]\n      resources: {{requests: {{memory: 8Mi, cpu: 10m}}, limits: {{memory: 16Mi}}}}\n"
        );
    }
    highwater::lab::load(&LabFiles { name: "synthetic".into(), files: vec![("lab.yaml".into(), text)], lesson: None })
        .unwrap_or_else(|e| panic!("{e}"))
}

/// A run directory with so many seconds of readings.
fn record(dir: &Utf8Path, lab: &Lab, seconds: u64, container: &str) -> RunDir {
    let run = RunDir::create(dir).expect("an empty folder");
    run.write("lab.yaml", lab.text.as_bytes()).expect("writable");
    run.write_json(
        "node.json",
        &NodeRecord { schema: SCHEMA, substrate: vec![], identity: "none".into(), acceptance: None, nodes: vec![] },
    )
    .expect("writable");
    for arm in &lab.arms {
        let facts = NodeFacts { cpu_millis: Some(1000), ..NodeFacts::new(arm.node.memory.0, arm.node.swap_bytes()) };
        let version = arm.node.kubernetes.parse().expect("a version");
        let plan = highwater::plan::plan(version, &arm.kubelet, &facts, &arm.pods).expect("a plan");
        run.write_json(&format!("plan/{}.json", arm.name), &plan).expect("writable");
        let mut stream = Vec::new();
        stream_of(&plan, seconds, container, &mut |frame| encode_frame(&frame, &mut stream));
        run.record(&arm.name, &stream[..]).expect("a stream");
    }
    run
}

fn stream_of(plan: &Plan, seconds: u64, container: &str, put: &mut dyn FnMut(Frame)) {
    use Metric::{MemoryCurrent, MemorySwapCurrent, PressureFullUs, StatAnon, StatFile, StatPgmajfault};
    let pods: Vec<&Role> = plan.cgroups.iter().map(|c| &c.role).filter(|r| matches!(r, Role::Pod { .. })).collect();
    put(Frame::Watch(Watch { id: 0, role: Role::Node, cgroup: "/".into(), attempt: 0, unsupported: vec![] }));
    for (id, role) in pods.iter().enumerate() {
        let id = u16::try_from(id + 1).expect("few pods");
        put(Frame::Watch(Watch { id, role: (*role).clone(), cgroup: "/x".into(), attempt: 0, unsupported: vec![] }));
    }
    let at = |at_ns, kind| Frame::Event(Event { at_ns, kind });
    let half = seconds / 2 * SECOND;
    let boundary = |name: &str, ends_ns: u64, put: &mut dyn FnMut(Frame)| {
        let entry = |c: &highwater::record::PlannedCgroup| {
            let default = CONTROLS.iter().map(|(file, value)| ((*file).to_owned(), FileValue::Text((*value).to_owned())));
            let planned = c.files.iter().map(|f| (f.file.clone(), FileValue::Text(f.value.clone())));
            LedgerEntry { role: c.role.clone(), path: c.path.clone(), files: default.chain(planned).collect() }
        };
        let entries = plan.cgroups.iter().map(entry).collect();
        put(Frame::Ledger(LedgerSnapshot { at_ns: ends_ns, phase: name.to_owned(), entries }));
        put(at(ends_ns, EventKind::PhaseEnded { phase: name.to_owned(), deadline: false }));
    };
    put(at(0, EventKind::PhaseStarted { phase: "first".into() }));
    let mut noise = 1u64;
    for tick in 0..seconds * 10 {
        let at_ns = tick * SECOND / 10;
        if at_ns == half {
            boundary("first", half, put);
            put(at(half, EventKind::PhaseStarted { phase: "second".into() }));
        }
        // Restarts, so that marks and lists have something to hold.
        if tick % 20 == 0 {
            let (pod, container) = (format!("p{}", tick % 7), container.to_owned());
            put(at(at_ns, EventKind::ContainerStarted { pod, container, attempt: 1, cgroup: "/x/c".into() }));
        }
        let mut changes = Vec::new();
        for (id, _) in pods.iter().enumerate() {
            let watch = u16::try_from(id + 1).expect("few pods");
            // A congruential walk: nothing repeats, so nothing is left out of the drawings.
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let level = |metric, base: i64, shift: u32| {
                let (low, high) = (base * (1 << 16), ((noise >> shift) & 0xffff) as i64 * 16);
                // Readings are differences: up on even ticks, down on odd ones by what the walk said before.
                let delta = if tick == 0 {
                    low
                } else if tick % 2 == 1 {
                    high
                } else {
                    -(high / 2)
                };
                Change { watch, metric, delta }
            };
            changes.extend([level(MemoryCurrent, 90, 8), level(StatAnon, 50, 16), level(StatFile, 20, 24)]);
            changes.push(level(MemorySwapCurrent, 10, 32));
            changes.push(Change { watch, metric: StatPgmajfault, delta: (noise >> 40 & 0xff) as i64 });
            changes.push(Change { watch, metric: PressureFullUs, delta: (noise >> 50 & 0xff) as i64 });
        }
        put(Frame::Tick(Tick { at_ns, changes }));
    }
    boundary("second", seconds * SECOND, put);
    put(Frame::Done { at_ns: seconds * SECOND, busy_ns: SECOND });
}

fn report(run: &RunDir) -> (String, Output) {
    // Nothing was pressed, so the run is inconclusive.
    let output = highwater(&["report", run.path().as_str()]).output().expect("the binary starts");
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{output:?}");
    (run.read_text("report.html").expect("a page"), output)
}

fn folder() -> (tempfile::TempDir, camino::Utf8PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = Utf8Path::from_path(dir.path()).expect("UTF-8").join("run");
    (dir, path)
}

#[test]
fn ten_minutes_of_forty_containers_fit_into_three_megabytes() {
    let (_dir, path) = folder();
    let run = record(&path, &lab(40, "s"), 600, "c");
    let (page, _) = report(&run);
    assert!(page.len() <= 3_000_000, "{} bytes", page.len());
    // It is all there: both arms, the pods that are drawn one by one, the tree down to the last container.
    assert!(
        page.contains("pod/p39/c") && page.contains("28 more are not drawn") && page.matches("<svg class=\"time\"").count() > 24
    );
}

/// Byte for byte but for style and script, which are files of their own and the same on every page.
#[test]
fn pages_of_two_labs_are_their_goldens() {
    for (name, pods, seconds) in [("one_pod", 1, 20), ("two_pods", 2, 8)] {
        let (_dir, path) = folder();
        let run = record(&path, &lab(pods, "What it says."), seconds, "c");
        let (page, _) = report(&run);
        let again = report(&run).0;
        assert_eq!(page, again, "the same record gives the same page");
        let without = |page: &str, tag: &str| {
            let (before, rest) = page.split_once(&format!("<{tag}>")).expect("the page has one");
            let (_, after) = rest.split_once(&format!("</{tag}>")).expect("it ends");
            format!("{before}<{tag}/>{after}")
        };
        insta::assert_snapshot!(name, without(&without(&page, "style"), "script"));
    }
}

#[test]
fn names_that_mean_harm_break_neither_page_nor_terminal() {
    let (_dir, path) = folder();
    let long = "x".repeat(5000);
    let run = record(&path, &lab(3, &format!("{HOSTILE} {long}")), 20, &format!("{HOSTILE}{long}"));
    let (page, output) = report(&run);
    assert_eq!(page.matches("<script").count(), 1, "only the page's own script");
    assert!(page.contains("&lt;/script&gt;") || page.contains("&#60;/script&#62;"), "the name is there, as text");
    assert!(page == report(&run).0, "the same record gives the same bytes");
    let steers = |c: char| c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let found: Vec<char> = page.chars().filter(|c| steers(*c)).collect();
    assert!(found.is_empty(), "{found:?}");
    assert!(page.contains("שלום"), "letters of any script stay");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains("alert(1)") && !text.chars().any(steers), "{text:?}");
    // Elements are closed as they were opened, so no name opened or closed one.
    for element in ["details", "table", "section", "div", "svg", "figure", "summary"] {
        let count = |what: String| page.matches(&what).count();
        let opened = count(format!("<{element}>")) + count(format!("<{element} "));
        assert_eq!(opened, count(format!("</{element}>")), "{element}");
    }
    // Followed to its end, it is as harmless, plain and as a last picture.
    let watched = expect(0, &mut highwater(&["watch", run.path().as_str()]));
    let text = String::from_utf8(watched.stdout).expect("UTF-8");
    assert!(text.contains("alert(1)") && !text.chars().any(steers), "{text:?}");
    let (picture, _conclusion) = text.rsplit_once("\n\n").expect("a conclusion");
    assert!(picture.lines().all(|line| line.chars().count() < 300), "a long name is cut");
    // The same text comes out of show, and data stays what it was.
    let shown = expect(0, &mut highwater(&["show", run.file("lab.yaml").as_str()]));
    assert!(!String::from_utf8_lossy(&shown.stdout).chars().any(steers));
    let json = highwater(&["report", run.path().as_str(), "--json"]).output().expect("the binary starts");
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert!(value.to_string().contains('\u{202e}'), "JSON is data and keeps every character");
}

/// By the variable PROMTOOL, on the PATH, or where `cargo xtask test` unpacks it.
fn promtool() -> std::process::Command {
    let unpacked = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/prometheus/usr/bin/promtool");
    let named = std::env::var_os("PROMTOOL").map(std::path::PathBuf::from);
    let found = named
        .into_iter()
        .chain(["promtool".into(), unpacked])
        .find(|p| std::process::Command::new(p).arg("--version").output().is_ok());
    std::process::Command::new(found.expect("promtool is missing: `cargo xtask test` unpacks it"))
}

#[test]
fn prometheus_takes_the_samples_and_gives_them_back() {
    let (dir, path) = folder();
    // Label values may hold anything that a record may hold.
    let run = record(&path, &lab(2, "s"), 20, "c");
    let (file, blocks) = (dir.path().join("samples.txt"), dir.path().join("blocks"));
    let file = file.to_str().expect("UTF-8");
    expect(0, &mut highwater(&["export", run.path().as_str(), "--format", "openmetrics", "--out", file]));
    expect(0, promtool().args(["tsdb", "create-blocks-from", "openmetrics", file]).arg(&blocks));
    // promtool reads a server's folder, which has a log beside the blocks.
    std::fs::create_dir(blocks.join("wal")).expect("writable");
    let dumped = expect(0, promtool().args(["tsdb", "dump", "--match={__name__=\"container_memory_swap\"}"]).arg(&blocks));
    let dumped = String::from_utf8(dumped.stdout).expect("UTF-8");
    let text = std::fs::read_to_string(file).expect("written");
    let written = text.lines().filter(|line| line.starts_with("container_memory_swap{")).count();
    assert!(written > 80 && dumped.lines().count() == written, "{written} written, {} read", dumped.lines().count());
    for name in ["container_memory_working_set_bytes", "container_memory_failures_total", "node_memory_SwapTotal_bytes"] {
        assert!(text.contains(&format!("\n{name}{{")), "{name} is missing");
    }
    // A text that was cut is refused, so acceptance means something.
    std::fs::write(file, text.trim_end().trim_end_matches("# EOF")).expect("writable");
    expect(1, promtool().args(["tsdb", "create-blocks-from", "openmetrics", file]).arg(&blocks));
}

#[test]
fn a_run_is_summarised_for_a_pull_request_and_for_ci() {
    let (_dir, path) = folder();
    let run = record(&path, &lab(1, HOSTILE), 20, "c");
    let export = |format: &str| {
        let output = expect(0, &mut highwater(&["export", run.path().as_str(), "--format", format]));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let markdown = export("markdown");
    assert!(
        markdown.contains("&lt;script&gt;") && !markdown.contains("<script>") && markdown.contains("| | a | b |"),
        "{markdown}"
    );
    let junit = export("junit");
    assert!(junit.contains(r#"<testsuite name="synthetic" tests="1""#) && !junit.contains("<script>"), "{junit}");
    let csv = export("csv");
    assert!(
        csv.starts_with("arm,seconds,cgroup,start,metric,value\na,0.000000000,pod/p0,1,memoryCurrent,5898240\n"),
        "{csv:.200}"
    );
    let dashboard: serde_json::Value = serde_json::from_str(&export("grafana")).expect("JSON");
    assert_eq!(dashboard["panels"].as_array().map(Vec::len), Some(8));
}
