//! `highwater capture --host --root` and `verify` on trees of nodes: real values under every naming, odd trees, mutations, and that
//! nothing is written and no secret read.

mod support;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use support::{expect, highwater};

const SECRET: &str = "hunter2-do-not-keep";

/// How the cgroups of a derived tree are named.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Naming {
    /// As they were on the real node.
    ContainerdSystemd,
    ContainerdCgroupfs,
    CrioSystemd,
    /// From outside of kind's node container.
    Kind,
}

const NAMINGS: [Naming; 4] = [Naming::ContainerdSystemd, Naming::ContainerdCgroupfs, Naming::CrioSystemd, Naming::Kind];

struct Tree {
    folder: tempfile::TempDir,
    /// Control files of planned cgroups, with the role and file that a finding names.
    controls: Vec<(PathBuf, Value, String)>,
}

fn life(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/ledger-real").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).expect("it is there")).expect("JSON")
}

fn named(path: &str, naming: Naming) -> String {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let part = |part: &str| match naming {
        Naming::ContainerdSystemd => part.to_owned(),
        Naming::ContainerdCgroupfs => {
            let stem = part.trim_end_matches(".slice").trim_end_matches(".scope");
            stem.rsplit_once("-pod")
                .map_or(stem.rsplit('-').next().unwrap_or(stem).to_owned(), |(_, uid)| format!("pod{}", uid.replace('_', "-")))
        }
        Naming::CrioSystemd => part.replace("cri-containerd-", "crio-"),
        Naming::Kind => part.replace("kubepods", "kubelet-kubepods"),
    };
    let path: String = parts.iter().map(|p| format!("/{}", part(p))).collect();
    if naming == Naming::Kind { format!("/docker/{}/kubelet.slice{path}", "ab".repeat(32)) } else { path }
}

impl Tree {
    fn empty() -> Tree {
        Tree { folder: tempfile::tempdir().expect("a folder"), controls: Vec::new() }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn put(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("made");
        std::fs::write(&path, text).expect("written");
        path
    }

    /// A step of a real node's life as a tree.
    fn of(life: &Value, step: usize, naming: Naming) -> Tree {
        let mut tree = Tree::empty();
        let facts = &life["facts"];
        let kib = |name: &str| facts[name].as_u64().expect("bytes") / 1024;
        tree.put("/proc/meminfo", format!("MemTotal: {} kB\nMemFree: 1 kB\nSwapTotal: {} kB\n", kib("memory"), kib("swap")));
        tree.put("/proc/sys/kernel/osrelease", format!("{}\n", life["node"]["kernel"].as_str().expect("text")));
        tree.put("/proc/1/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n");
        tree.put("/sys/devices/system/cpu/online", "0-1\n");
        tree.put("/etc/hostname", "somewhere\n");
        let mut configs = life["steps"].as_array().expect("steps")[..=step].iter().filter_map(|step| step.get("config"));
        let mut config = configs.next_back().expect("one").clone();
        if naming == Naming::ContainerdCgroupfs {
            config["cgroupDriver"] = json!("cgroupfs");
        }
        if naming == Naming::Kind {
            config["cgroupRoot"] = json!("/kubelet");
        }
        config["staticPodURLHeader"] = json!({"Authorization": [SECRET]});
        tree.put("/var/lib/kubelet/config.yaml", config.to_string());
        let mut ids: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for (number, entry) in life["steps"][step]["ledger"].as_array().expect("a list").iter().enumerate() {
            tree.cgroup(number, entry, naming, &mut ids);
        }
        let mut pods = life["steps"][0]["pods"].clone();
        for pod in pods.as_array_mut().expect("a list") {
            pod["spec"]["nodeName"] = json!("node-a");
            pod["metadata"]["labels"] = json!({"token": SECRET});
            pod["spec"]["containers"][0]["env"] = json!([{"name": "PASSWORD", "value": SECRET}]);
            pod["spec"]["containers"][0]["args"] = json!([SECRET]);
            pod["status"]["containerStatuses"] = json!(ids.remove(pod["metadata"]["name"].as_str().expect("a name")));
        }
        let node = json!({"kind": "Node", "metadata": {"name": "node-a"}, "status": {"nodeInfo": {"kubeletVersion": "v1.37.2"}}});
        let mut items = pods.as_array().expect("a list").clone();
        items.push(node);
        std::fs::write(tree.folder.path().join("pods.json"), json!({"kind": "List", "items": items}).to_string())
            .expect("written");
        tree
    }

    fn cgroup(&mut self, number: usize, entry: &Value, naming: Naming, ids: &mut BTreeMap<String, Vec<Value>>) {
        let sandbox = entry["role"].get("sandbox").is_some();
        if sandbox && naming == Naming::CrioSystemd {
            return;
        }
        let path = named(entry["path"].as_str().expect("a path"), naming);
        let mut score = None;
        for (file, value) in entry["files"].as_object().expect("files") {
            let text = format!("{}\n", value["text"].as_str().expect("a text"));
            if file == "oom_score_adj" {
                score = Some(text);
                continue;
            }
            let at = self.put(&format!("/sys/fs/cgroup{path}/{file}"), text);
            self.controls.push((at, entry["role"].clone(), file.clone()));
        }
        let usage = [
            ("memory.current", "8192\n"),
            ("memory.stat", "anon 4096\nfile 4096\ninactive_file 0\n"),
            ("memory.swap.current", "0\n"),
        ];
        for (file, text) in usage {
            self.put(&format!("/sys/fs/cgroup{path}/{file}"), text);
        }
        let Some(score) = score else { return };
        let proc = format!("/proc/{}", 100 + number);
        self.put(&format!("{proc}/cgroup"), format!("0::{path}\n"));
        let at = self.put(&format!("{proc}/oom_score_adj"), score);
        self.controls.push((at, entry["role"].clone(), "oom_score_adj".to_owned()));
        self.put(&format!("{proc}/environ"), format!("PASSWORD={SECRET}\0"));
        self.put(&format!("{proc}/cmdline"), format!("serve\0--password={SECRET}\0"));
        if let Some(container) = entry["role"].get("container") {
            let last = path.rsplit('/').next().expect("a name").trim_end_matches(".scope");
            let id = last.rsplit('-').next().expect("an id");
            let status = json!({"name": container["container"], "containerID": format!("x://{id}"), "state": {"running": {}}});
            ids.entry(container["pod"].as_str().expect("a name").to_owned()).or_default().push(status);
        }
    }

    /// A tree written by hand, as fixtures/captured/README.md says.
    fn read(name: &str) -> Tree {
        let tree = Tree::empty();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/captured").join(name);
        let text = std::fs::read_to_string(path).expect("it is there");
        let mut at: Option<(String, String)> = None;
        for line in text.lines() {
            if let Some(path) = line.strip_prefix("== ") {
                at.replace((path.to_owned(), String::new())).map(|(path, text)| tree.put(&path, text));
            } else if let Some((path, target)) = line.strip_prefix("=> ").and_then(|rest| rest.split_once(' ')) {
                at.take().map(|(path, text)| tree.put(&path, text));
                let path = tree.root().join(path.trim_start_matches('/'));
                std::fs::create_dir_all(path.parent().expect("it has one")).expect("made");
                std::os::unix::fs::symlink(target, path).expect("linked");
            } else if let Some((_, text)) = &mut at {
                *text += line;
                *text += "\n";
            }
        }
        at.map(|(path, text)| tree.put(&path, text));
        tree
    }

    fn out(&self) -> String {
        self.folder.path().join("out").to_str().expect("UTF-8").to_owned()
    }

    fn capture(&self, code: i32) -> Output {
        _ = std::fs::remove_dir_all(self.out());
        let (root, pods, out) = (self.root(), self.folder.path().join("pods.json"), self.out());
        let mut command = highwater(&["capture", "--host", "--duration", "0", "--out", &out, "--root"]);
        command.arg(root);
        if pods.exists() {
            command.arg("--pods").arg(pods);
        }
        expect(code, &mut command)
    }

    /// Findings that are not fulfilled, as JSON, and the doubts.
    fn verify(&self, code: i32) -> (Vec<Value>, String) {
        let output = expect(code, &mut highwater(&["verify", &self.out(), "--json"]));
        let verified: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let wrong = |f: &&Value| f["verdict"] != "FULFILLED";
        let findings = verified[0]["findings"].as_array().expect("a list").iter().filter(wrong).cloned().collect();
        (findings, verified[0]["doubts"].to_string())
    }
}

#[test]
fn real_values_are_fulfilled_under_every_naming() {
    for name in ["1.37.2-levels-both.json", "1.37.2-limited-entitlement.json", "1.37.2-memory-qos-file-reader-tiered.json"] {
        let life = life(name);
        for naming in NAMINGS {
            let tree = Tree::of(&life, 0, naming);
            tree.capture(0);
            let (wrong, doubts) = tree.verify(0);
            assert!(wrong.is_empty() && doubts == "[]", "{name} {naming:?}: {wrong:?} {doubts}");
        }
    }
}

#[test]
fn what_a_policy_change_left_behind_is_a_drift_with_a_name() {
    let tree = Tree::of(&life("1.37.2-memory-qos-file-reader-tiered.json"), 1, Naming::ContainerdSystemd);
    tree.capture(0);
    let (wrong, _) = tree.verify(1);
    let stale = |f: &&Value| f["defect"] == "stale-but-neutral" && f["protection"]["effective"] == 0;
    assert_eq!(wrong.iter().filter(stale).count(), 4, "two pods and their containers: {wrong:?}");
}

/// A generator of numbers that is the same everywhere.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

#[test]
fn forty_mutated_bytes_are_each_found_and_named() {
    let tree = Tree::of(&life("1.37.2-levels-both.json"), 0, Naming::ContainerdSystemd);
    let mut state = 40;
    for round in 0..40 {
        let (path, role, file) = &tree.controls[next(&mut state) % tree.controls.len()];
        let good = std::fs::read(path).expect("it is there");
        let mut bad = good.clone();
        let at = next(&mut state) % bad.len();
        bad[at] = bad[at].wrapping_add(1 + (next(&mut state) % 255) as u8);
        std::fs::write(path, &bad).expect("written");
        tree.capture(0);
        let output = highwater(&["verify", &tree.out(), "--json"]).output().expect("it runs");
        assert!(matches!(output.status.code(), Some(1 | 4)), "round {round}: {} byte {at} went unseen", path.display());
        let verified: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let findings = verified[0]["findings"].as_array().expect("a list");
        let wrong: Vec<_> = findings.iter().filter(|f| f["verdict"] != "FULFILLED").collect();
        let named = |f: &&&Value| f["role"] == *role && f["file"] == **file;
        assert!(wrong.iter().any(|f| named(&f)) && wrong.len() == 1, "round {round}: {} byte {at}: {wrong:?}", path.display());
        std::fs::write(path, good).expect("written");
    }
}

#[test]
fn what_is_missing_is_never_fulfilled() {
    let life = life("1.37.2-limited-entitlement.json");
    let tree = || Tree::of(&life, 0, Naming::CrioSystemd);
    let of = |tree: &Tree, file: &str, kind: &str| {
        let fits = |(_, role, name): &&(PathBuf, Value, String)| name == file && role.get(kind).is_some();
        tree.controls.iter().find(fits).expect("there is one").0.clone()
    };
    for (file, kind) in
        [("memory.high", "container"), ("memory.max", "pod"), ("memory.swap.max", "container"), ("cpu.weight", "pod")]
    {
        let tree = tree();
        std::fs::remove_file(of(&tree, file, kind)).expect("it was there");
        tree.capture(0);
        assert_eq!(tree.verify(4).0.len(), 1, "{file} of a {kind}");
    }
    let gone = tree();
    std::fs::remove_dir_all(of(&gone, "oom_score_adj", "container").parent().expect("a process")).expect("it was there");
    gone.capture(0);
    let (wrong, _) = gone.verify(4);
    assert!(wrong.iter().any(|f| f["reason"].as_str().is_some_and(|r| r.contains("not in the snapshot"))), "{wrong:?}");
    for (path, word) in
        [("proc/meminfo", "MemTotal"), ("var/lib/kubelet/config.yaml", "KubeletConfiguration"), ("../pods.json", "--pods")]
    {
        let tree = tree();
        std::fs::remove_file(tree.root().join(path)).expect("it was there");
        tree.capture(4);
        let (_, doubts) = tree.verify(4);
        assert!(doubts.contains(word), "{path}: {doubts}");
    }
    let pods = tree();
    let path = pods.folder.path().join("pods.json");
    let text = std::fs::read_to_string(&path).expect("it is there");
    std::fs::write(&path, text.replace("v1.37.2", "v1.99.0")).expect("written");
    pods.capture(0);
    assert!(pods.verify(4).1.contains("1.99"));
}

#[test]
fn other_hierarchies_and_odd_names_are_said_and_prove_nothing() {
    for (name, words) in [("v1.tree", "cgroup v1"), ("hybrid.tree", "hybrid arrangement")] {
        let tree = Tree::read(name);
        let text = String::from_utf8(tree.capture(4).stdout).expect("UTF-8");
        assert!(text.contains(words), "{name}: {text}");
        let ledger = std::fs::read_to_string(Path::new(&tree.out()).join("ledger.json")).expect("it is there");
        assert!(ledger.contains("33554432"), "what cgroup v1 limits is kept: {ledger}");
        let usage = std::fs::read_to_string(Path::new(&tree.out()).join("usage.json")).expect("it is there");
        assert!(usage.contains("3145728") && usage.contains("1048576"), "{usage}");
        assert!(tree.verify(4).1.contains(words));
    }
    let tree = Tree::read("odd.tree");
    let text = String::from_utf8(tree.capture(4).stdout).expect("UTF-8");
    for words in [
        "outside of this cgroup namespace",
        "/docker/77/kubelet.slice/kubelet-kubepods.slice",
        "kubepods-podempty.slice is named like a pod and has no process",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let ledger = std::fs::read_to_string(Path::new(&tree.out()).join("ledger.json")).expect("it is there");
    assert!(!ledger.contains("podman") && !ledger.contains("libpod") && !ledger.contains("podempty"), "{ledger}");
    tree.verify(4);
}

#[test]
fn nothing_is_written_on_the_node_and_no_secret_is_opened() {
    use rustix::fs::inotify;
    let tree = Tree::of(&life("1.37.2-limited-entitlement.json"), 0, Naming::ContainerdSystemd);
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).expect("inotify");
    let writes = inotify::WatchFlags::MODIFY
        | inotify::WatchFlags::ATTRIB
        | inotify::WatchFlags::CLOSE_WRITE
        | inotify::WatchFlags::CREATE
        | inotify::WatchFlags::DELETE
        | inotify::WatchFlags::MOVE;
    let mut folders = vec![tree.root()];
    let mut secrets = 0;
    while let Some(folder) = folders.pop() {
        inotify::add_watch(&watch, &folder, writes).expect("watched");
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name == "environ" || name == "cmdline" {
                secrets += 1;
                inotify::add_watch(&watch, &path, inotify::WatchFlags::OPEN | inotify::WatchFlags::ACCESS).expect("watched");
            }
        }
    }
    assert!(secrets > 10);
    tree.capture(0);
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&watch, &mut buffer);
    let event = reader.next();
    assert!(matches!(event, Err(rustix::io::Errno::AGAIN)), "the node was touched: {event:?}");
    for entry in std::fs::read_dir(tree.out()).expect("the capture") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a text");
        assert!(!text.contains(SECRET), "{} holds a secret", path.display());
    }
    // The watch sees what it is there for.
    std::fs::read(tree.root().join("proc/110/environ")).expect("it is there");
    assert!(reader.next().is_ok());
}

#[test]
fn a_captured_node_is_planned_under_another_version_and_configuration() {
    let tree = Tree::of(&life("1.37.2-memory-qos-file-reader-tiered.json"), 0, Naming::Kind);
    tree.capture(0);
    let out = tree.out();
    let same = expect(2, &mut highwater(&["plan", "--against", &out]));
    assert!(String::from_utf8_lossy(&same.stderr).contains("--kubernetes VERSION"));
    let back = expect(1, &mut highwater(&["plan", "--against", &out, "--kubernetes", "1.36"]));
    assert!(String::from_utf8_lossy(&back.stdout).contains("does not start"), "1.36 refuses the policy while its gate is off");
    let kubelet = tree.folder.path().join("new.json");
    let text = r#"{"kind": "KubeletConfiguration", "memoryThrottlingFactor": 0.5, "cgroupRoot": "/kubelet"}"#;
    std::fs::write(&kubelet, text).expect("written");
    let output = expect(0, &mut highwater(&["plan", "--against", &out, "--kubelet", kubelet.to_str().expect("UTF-8")]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let place = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
    assert!(place("throttle") < place("unprotect"), "the more dangerous first: {text}");
    assert!(text.contains("keep these values"), "{text}");
}

#[test]
fn a_capture_becomes_a_lab_that_show_accepts_and_names_go_for_good() {
    let life = life("1.37.2-limited-entitlement.json");
    for naming in NAMINGS {
        let tree = Tree::of(&life, 0, naming);
        tree.capture(0);
        let lab = |name: &str, further: &[&str]| {
            let out = tree.folder.path().join(name).to_str().expect("UTF-8").to_owned();
            let capture = tree.out();
            let mut arguments = vec!["lab", "from-capture", &capture, "--out", &out];
            arguments.extend(further);
            expect(0, &mut highwater(&arguments));
            expect(0, &mut highwater(&["show", &out]));
            let read = |file: &str| std::fs::read_to_string(Path::new(&out).join(file)).expect("it is there");
            ["lab.yaml", "kubelet.yaml", "pods/pods.yaml"].map(read).join("\n")
        };
        let plain = lab("plain", &[]);
        for text in ["node-a", "burstable", "companions", "517513216", "--make=4096", "factor: 4.0"] {
            assert!(plain.contains(text), "{naming:?}: {text}: {plain}");
        }
        let (one, other) = (lab("one", &["--anonymise", "--scale", "2"]), lab("other", &["--anonymise", "--scale", "2"]));
        for text in ["node-a", "name: burstable", "companions", "sidecar"] {
            assert!(!one.contains(text), "{naming:?}: {text}: {one}");
        }
        assert_eq!(one.lines().count(), other.lines().count());
        assert_ne!(one, other, "the salt is not kept");
    }
}

/// The rehearsal's plan is the captured node's, each amount divided by the scale, as long as everything is a multiple of it.
#[test]
fn the_control_ledger_of_the_rehearsal_is_the_captured_one_scaled() {
    let tree = Tree::of(&life("1.37.2-memory-qos-file-reader-tiered.json"), 0, Naming::ContainerdSystemd);
    tree.capture(0);
    let (out, capture) = (tree.folder.path().join("lab"), tree.out());
    let out = out.to_str().expect("UTF-8");
    expect(0, &mut highwater(&["lab", "from-capture", &capture, "--out", out, "--scale", "2"]));
    let (pods, kubelet) = (format!("{out}/pods"), format!("{out}/kubelet.yaml"));
    let memory = (1_014_665_216 / 2).to_string();
    let arguments = ["plan", &pods, "--kubelet", &kubelet, "--memory", &memory, "--cpus", "2", "--json"];
    let plan: Value = serde_json::from_slice(&expect(0, &mut highwater(&arguments)).stdout).expect("JSON");
    let ledger: Value =
        serde_json::from_str(&std::fs::read_to_string(Path::new(&capture).join("ledger.json")).expect("it is there"))
            .expect("JSON");
    let mut compared = 0;
    for entry in ledger["entries"].as_array().expect("a list") {
        let planned = plan["cgroups"].as_array().expect("a list").iter().find(|c| c["role"] == entry["role"]).expect("planned");
        for file in ["memory.min", "memory.low", "memory.max"] {
            let bytes = |text: &str| text.parse::<u64>().ok();
            let captured = entry["files"][file]["text"].as_str().and_then(bytes).filter(|bytes| *bytes > 0);
            let value = planned["files"].as_array().expect("a list").iter().rfind(|f| f["file"] == file);
            let value = value.and_then(|f| bytes(f["value"].as_str()?)).filter(|bytes| *bytes > 0);
            // The kubelet's numbers are floored to pages by the kernel; the plan's are not yet.
            assert_eq!(value.map(|v| v / 4096 * 4096), captured.map(|b| b / 2 / 4096 * 4096), "{} {file}", entry["role"]);
            compared += usize::from(captured.is_some());
        }
    }
    assert!(compared >= 8, "{compared} values are not the kernel's default");
}
