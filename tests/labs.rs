//! Every lab of the catalogue, end to end through the binary: it ends as expected, keeps within its stated cost, its controls are
//! the golden ones, and it gives the bytes it gave before: on the machine that recorded them, or in a second run beside other labs.

#![allow(clippy::print_stdout, reason = "a test says what it compared and measured")]

mod support;

use highwater::lab::{Lab, LabFiles, catalogue, load};
use highwater::ledger;
use highwater::provider::cache::hex;
use highwater::record::LedgerSnapshot;
use highwater::study::LabResult;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use support::{expect, highwater};

/// Rewrites the control goldens and the recorded bytes instead of comparing them.
const UPDATE: &str = "HIGHWATER_UPDATE";

/// By lab: the hash of everything that went into a run, and that of everything the node sent back.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/lab-bytes.tsv");

type Hashes = (String, String);

/// As many labs at once as there are cores, each with several arms: every core is busy, every run is disturbed by others, and no core
/// waits for the slowest arm of one lab.
#[test]
fn every_lab_ends_as_expected_and_gives_the_same_bytes_again() {
    let update = std::env::var_os(UPDATE).is_some();
    let recorded = if update { BTreeMap::new() } else { recorded() };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let queue = Mutex::new(catalogue());
    let next = || queue.lock().expect("no thread panics with it").next();
    let checked: Vec<Checked> = std::thread::scope(|scope| {
        let work = || std::iter::from_fn(&next).map(|lab| check(&lab, &recorded)).collect::<Vec<_>>();
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a lab's problem is a failure")).collect()
    });
    if update {
        let lines: BTreeMap<_, _> = checked.iter().filter_map(|lab| Some((&lab.name, lab.hashes.as_ref()?))).collect();
        let text = lines.iter().fold(String::new(), |mut text, (name, (input, output))| {
            writeln!(text, "{name}\t{input}\t{output}").expect("a string grows");
            text
        });
        std::fs::write(RECORDED, text).expect("a writable checkout");
    }
    let failures: Vec<_> = checked.into_iter().flat_map(|lab| lab.failures).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn recorded() -> BTreeMap<String, Hashes> {
    let text = std::fs::read_to_string(RECORDED).expect("the recorded bytes are checked in");
    let line = |line: &str| {
        let [name, input, output] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{RECORDED}: {line:?}") };
        (name.to_owned(), (input.to_owned(), output.to_owned()))
    };
    text.lines().map(line).collect()
}

struct Checked {
    name: String,
    hashes: Option<Hashes>,
    failures: Vec<String>,
}

/// Runs a lab. Where the same programs and the same orders were recorded, perhaps on another machine, its bytes are those; else it
/// runs a second time, with more arms at once.
fn check(files: &LabFiles, recorded: &BTreeMap<String, Hashes>) -> Checked {
    let lab = load(files).unwrap_or_else(|problems| panic!("{problems}"));
    let name = &lab.name;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    if let Err(told) = run(name, &first, "2") {
        return Checked { name: name.clone(), hashes: None, failures: vec![told] };
    }
    let mut failures: Vec<_> = over_budget(&lab, &result(&first)).into_iter().collect();
    failures.extend(goldens(name, &first));
    failures.extend(rendered_again(name, &first));
    let hashes = (input(&first), output(&first));
    match recorded.get(name) {
        Some((input, output)) if *input == hashes.0 => {
            println!("{name}: as recorded: {}", output == &hashes.1);
            if *output != hashes.1 {
                failures.push(format!(
                    "{name}: the same programs and orders gave other bytes than recorded; {UPDATE}=1 rewrites them"
                ));
            }
        }
        _ => failures.extend(again(name, &first, &second)),
    }
    Checked { name: name.clone(), hashes: Some(hashes), failures }
}

/// Runs a lab once more and compares all that the two runs left.
fn again(name: &str, first: &Path, second: &Path) -> Vec<String> {
    if let Err(told) = run(name, second, "3") {
        return vec![told];
    }
    let (bytes, differing) = compare(first, second);
    println!("{name}: {bytes} bytes equal in a second run, {} files differ", differing.len());
    let nothing = (bytes == 0).then(|| format!("{name}: nothing was compared"));
    nothing.into_iter().chain(differing.into_iter().map(|file| format!("{name}: {file} differs in a second run"))).collect()
}

/// The study and the report of a run, made again from its records, are the same bytes.
fn rendered_again(name: &str, run: &Path) -> Vec<String> {
    let kept = ["result.json", "report.html"].map(|file| (file, std::fs::read(run.join(file)).expect("a run has it")));
    expect(0, &mut highwater(&["report", run.to_str().expect("UTF-8")]));
    let differs = |(file, before): (&str, Vec<u8>)| {
        (std::fs::read(run.join(file)).expect("it is there") != before)
            .then(|| format!("{name}: {file} differs when rendered again"))
    };
    kept.into_iter().filter_map(differs).collect()
}

/// The hash of the emulator, the kernel, the programs, the booted memory, the lab, and what the node was told to do.
fn input(run: &Path) -> String {
    let node: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.join("node.json")).expect("a run has it")).expect("it is JSON");
    let identity = node["identity"].as_str().expect("a run has an identity");
    hash(run, &["order"], identity)
}

/// The hash of all that the node sent back.
fn output(run: &Path) -> String {
    hash(run, &["samples", "events", "load", "log", "ledger"], "")
}

fn hash(run: &Path, folders: &[&str], before: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(before);
    for folder in folders {
        let found = files(&run.join(folder));
        assert!(!found.is_empty(), "{}: no {folder}", run.display());
        for file in found {
            let bytes = std::fs::read(run.join(folder).join(&file)).expect("a readable file");
            hasher.update(format!("{folder}/{} {}\n", file.display(), bytes.len()));
            hasher.update(&bytes);
        }
    }
    hex(&hasher.finalize())
}

/// The default sweep of mis-sized, and two of its arms again in a sweep of their own.
#[test]
fn the_request_at_which_swap_begins_to_help_is_found_and_said() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sweep = |out: &Path, further: &[&str]| {
        let arguments = ["sweep", "swap/mis-sized", "--out", out.to_str().expect("UTF-8")];
        let output = expect(0, highwater(&arguments).args(further));
        (String::from_utf8_lossy(&output.stdout).into_owned(), result(out))
    };
    let (whole, part) = (dir.path().join("whole"), dir.path().join("part"));
    let (text, found) = sweep(&whole, &[]);
    let found = found.sweep.expect("a swept lab has a sweep");
    assert!(found.crossed && text.contains(&found.sentence), "{text}");
    let at = found
        .points
        .windows(2)
        .find(|pair| found.sentence.ends_with(&format!("between {} and {}", pair[0].value, pair[1].value)));
    let [before, after] = at.expect("the crossing lies between two neighbours") else { unreachable!("windows of two") };
    assert!(before.figure > after.figure, "{}", found.sentence);
    // The same two values alone: the same crossing, and arms that are equal to the byte.
    let path = "pods.server.spec.containers[server].resources.requests.memory";
    let (_, alone) = sweep(&part, &["--set", &format!("{path}={},{}", before.value, after.value)]);
    assert_eq!(alone.sweep.expect("it is swept").sentence, found.sentence);
    let arms: Vec<_> = files(&part).into_iter().filter(|file| file.components().count() > 1).collect();
    assert!(arms.len() > 12, "{arms:?}");
    for file in arms {
        let read = |run: &Path| std::fs::read(run.join(&file)).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        assert!(read(&whole) == read(&part), "{} differs", file.display());
    }
}

/// Busy virtual time is exact on every machine, so it is held to a figure where wall time could not be.
fn over_budget(lab: &Lab, found: &LabResult) -> Option<String> {
    let busy: u64 = found.arms.iter().map(|arm| arm.busy_ns).sum();
    let budget = lab.budget.busy.0;
    println!("{}: {:.2} of {:.2} busy virtual seconds", lab.name, busy as f64 / 1e9, budget as f64 / 1e9);
    (busy > budget).then(|| format!("{}: {busy} busy virtual ns, its budget is {budget}", lab.name))
}

/// Compares the ledger of every arm and phase with the lab's goldens, where it keeps any.
fn goldens(name: &str, run: &Path) -> Vec<String> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("labs").join(name).join("golden");
    if !golden.is_dir() {
        return Vec::new();
    }
    let update = std::env::var_os(UPDATE).is_some();
    let mut wrong = Vec::new();
    for file in files(&run.join("ledger")) {
        let text = std::fs::read_to_string(run.join("ledger").join(&file)).expect("a readable ledger");
        let snapshot: LedgerSnapshot = serde_json::from_str(&text).expect("a ledger of this version");
        let (actual, kept) = (ledger::render(&snapshot), golden.join(&file).with_extension("txt"));
        if update {
            std::fs::create_dir_all(kept.parent().expect("it has one")).expect("a writable checkout");
            std::fs::write(&kept, &actual).expect("a writable checkout");
        }
        let expected = std::fs::read_to_string(&kept).unwrap_or_default();
        wrong.extend(first_difference(&expected, &actual).map(|at| format!("{}: {at}; {UPDATE}=1 rewrites it", kept.display())));
    }
    wrong
}

/// Names the first byte that moved.
fn first_difference(expected: &str, actual: &str) -> Option<String> {
    let mut lines = expected.lines().zip(actual.lines()).enumerate();
    match lines.find(|(_, (old, new))| old != new) {
        Some((number, (old, new))) => {
            let column = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
            Some(format!("line {}, byte {}: expected {old:?}, found {new:?}", number + 1, column + 1))
        }
        None if expected.len() != actual.len() => {
            Some(format!("expected {} lines, found {}", expected.lines().count(), actual.lines().count()))
        }
        None => None,
    }
}

/// Compares all files of two runs but wall times; returns the bytes that are equal and the names of files that are not.
fn compare(first: &Path, second: &Path) -> (usize, Vec<String>) {
    let names = |run: &Path| -> Vec<_> { files(run).into_iter().filter(|f| f != Path::new("timing.json")).collect() };
    let mut differing = Vec::new();
    let mut bytes = 0;
    let (left, right) = (names(first), names(second));
    if left != right {
        differing.push(format!("the list of files ({left:?} and {right:?})"));
    }
    for name in left.iter().filter(|name| right.contains(name)) {
        let read = |run: &Path| std::fs::read(run.join(name)).expect("a readable file");
        match (read(first), read(second)) {
            (a, b) if a == b => bytes += a.len(),
            _ => differing.push(name.display().to_string()),
        }
    }
    (bytes, differing)
}

/// Runs a lab into a directory, with so many arms at once; an end that is not expected comes back with all that the run said.
fn run(lab: &str, out: &Path, jobs: &str) -> Result<(), String> {
    let output =
        highwater(&["run", lab, "--jobs", jobs, "--out", out.to_str().expect("UTF-8")]).output().expect("the binary starts");
    let said = || format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(()) } else { Err(format!("{lab} ended with {}:\n{}", output.status, said())) }
}

/// What the study of a run found.
fn result(run: &Path) -> LabResult {
    let text = std::fs::read_to_string(run.join("result.json")).expect("a run has a result");
    serde_json::from_str(&text).expect("the result is of this version")
}

/// The files below a directory, as paths relative to it, sorted.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a readable directory").flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path => found.push(path.strip_prefix(root).expect("it is below").to_owned()),
            }
        }
    }
    found.sort();
    found
}
