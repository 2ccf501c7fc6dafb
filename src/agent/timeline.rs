//! Timelines as tables: each file of `fixtures/agent` is a pod, a script and the decisions it must lead to.
//!
//! Lines that begin with `>` are inputs (seconds, what happened); the lines between are the decisions, at the second they are made.
//! `HIGHWATER_UPDATE=1 cargo test agent::` rewrites the decisions; the reviewer reads the difference.

use super::{Decision, Pod, ProbeRole, SECOND};
use crate::record::{CgroupOrder, ContainerKind, ContainerOrder, PodOrder, Probe, ProbeKind, RestartPolicy, Role};
use proptest::prelude::*;
use std::fmt::Write;

pub(super) fn pod_order(policy: RestartPolicy, grace_s: u64, containers: Vec<ContainerOrder>) -> PodOrder {
    PodOrder {
        name: "p".into(),
        uid: "u".into(),
        cgroup: CgroupOrder { role: Role::Pod { pod: "p".into() }, path: "/p".into(), writes: vec![] },
        sandbox_writes: vec![],
        sandbox_oom_score_adj: -998,
        restart_policy: policy,
        grace_s,
        volumes: vec![],
        containers,
    }
}

// KIND NAME [ROLE=INITIAL_DELAY/PERIOD/SUCCESSES/FAILURES]…
fn container(line: &str) -> ContainerOrder {
    let mut words = line.split_whitespace();
    let kind = match words.next().unwrap() {
        "init" => ContainerKind::Init,
        "sidecar" => ContainerKind::Sidecar,
        "main" => ContainerKind::Main,
        other => panic!("unknown kind {other}"),
    };
    let mut order = ContainerOrder {
        name: words.next().unwrap().into(),
        kind,
        args: vec![],
        env: vec![],
        mounts: vec![],
        writes: vec![],
        oom_score_adj: 0,
        readiness: None,
        liveness: None,
        startup: None,
    };
    for word in words {
        let (role, numbers) = word.split_once('=').unwrap();
        let n: Vec<u32> = numbers.split('/').map(|n| n.parse().unwrap()).collect();
        let probe = Probe {
            kind: ProbeKind::Tcp { port: 1 },
            initial_delay_s: n[0],
            period_s: n[1],
            timeout_s: 1,
            success_threshold: n[2],
            failure_threshold: n[3],
        };
        match role {
            "readiness" => order.readiness = Some(probe),
            "liveness" => order.liveness = Some(probe),
            "startup" => order.startup = Some(probe),
            other => panic!("unknown probe {other}"),
        }
    }
    order
}

fn policy(text: &str) -> RestartPolicy {
    match text {
        "Always" => RestartPolicy::Always,
        "OnFailure" => RestartPolicy::OnFailure,
        "Never" => RestartPolicy::Never,
        other => panic!("unknown policy {other}"),
    }
}

fn role(text: &str) -> ProbeRole {
    match text {
        "readiness" => ProbeRole::Readiness,
        "liveness" => ProbeRole::Liveness,
        "startup" => ProbeRole::Startup,
        other => panic!("unknown probe {other}"),
    }
}

fn play(script: &str) -> String {
    let mut out = String::new();
    let mut lines = script.lines().filter(|l| !l.trim().is_empty());
    let mut containers = Vec::new();
    let mut head = None;
    let mut inputs = Vec::new();
    for line in lines.by_ref() {
        match line.split_once(' ').unwrap() {
            ("#", _) => {}
            ("pod", rest) => head = Some(rest.split_once(' ').unwrap()),
            ("init" | "sidecar" | "main", _) => containers.push(container(line)),
            (">", rest) => {
                inputs.push(rest);
                break;
            }
            other => panic!("{other:?}"),
        }
        writeln!(out, "{line}").unwrap();
    }
    inputs.extend(lines.filter_map(|l| l.strip_prefix("> ")));
    let (policy_name, grace) = head.unwrap();
    let order = pod_order(policy(policy_name), grace.parse().unwrap(), containers);
    let name = |i: usize| order.containers[i].name.as_str();
    let mut pod = Pod::new(&order);
    let log = |out: &mut String, at: u64, decisions: Vec<Decision>| {
        for decision in decisions {
            let what = match decision {
                Decision::StartSandbox => "sandbox".to_owned(),
                Decision::Start { container, attempt } => format!("start {}#{attempt}", name(container)),
                Decision::BackOff { container, delay_ns } => format!("back-off {} {}s", name(container), delay_ns / SECOND),
                Decision::Terminate { container } => format!("terminate {}", name(container)),
                Decision::Kill { container } => format!("kill {}", name(container)),
                Decision::Probe { container, attempt, role } => format!("probe {}#{attempt} {role:?}", name(container)),
                Decision::Ready { container, ready: true } => format!("ready {}", name(container)),
                Decision::Ready { container, ready: false } => format!("not ready {}", name(container)),
                Decision::StopSandbox => "sandbox gone".to_owned(),
            };
            writeln!(out, "{} {what}", at / SECOND).unwrap();
        }
    };
    for input in inputs {
        let mut words = input.split_whitespace();
        let at = words.next().unwrap().parse::<u64>().unwrap() * SECOND;
        while let Some(due) = pod.deadline().filter(|due| *due < at) {
            let decisions = pod.tick(due);
            log(&mut out, due, decisions);
        }
        writeln!(out, "> {input}").unwrap();
        let index = |name: &str| order.containers.iter().position(|c| c.name == name).unwrap();
        let decisions = match words.next().unwrap() {
            "start" => pod.start(at),
            "stop" => pod.stop(at),
            "tick" => pod.tick(at),
            "exit" => {
                let which = index(words.next().unwrap());
                pod.exited(at, which, words.next().unwrap().parse().ok())
            }
            "probe" => {
                let (which, attempt) = words.next().unwrap().split_once('#').unwrap();
                let role = role(words.next().unwrap());
                pod.probed(at, index(which), attempt.parse().unwrap(), role, words.next().unwrap() == "ok")
            }
            other => panic!("unknown input {other}"),
        };
        log(&mut out, at, decisions);
    }
    let end = pod.outcome().map_or("active".to_owned(), |o| format!("{o:?}"));
    writeln!(out, "= {end}, ready: {}", pod.is_ready()).unwrap();
    out
}

#[test]
fn timelines() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/agent");
    let mut files: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 8, "the fixtures are there");
    for file in files {
        let expected = std::fs::read_to_string(&file).unwrap();
        let played = play(&expected);
        if std::env::var_os("HIGHWATER_UPDATE").is_some() {
            std::fs::write(&file, played).unwrap();
        } else {
            assert_eq!(played, expected, "{}", file.display());
        }
    }
}

proptest! {
    // Whatever happens in whatever order: a container is started only when it does not run, attempts count up by one, readiness only
    // changes, the sandbox comes first and goes last, and deadlines are never in the past.
    #[test]
    fn invariants(
        kinds in proptest::collection::vec(0..3usize, 1..5), policy in 0..3usize,
        steps in proptest::collection::vec((0..4u8, 0..5usize, 0..3u8, 0..90u64), 0..60)
    ) {
        let kinds_by = ["init", "sidecar", "main"];
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.push(2);
        kinds.sort_by_key(|k| *k == 2);
        let containers: Vec<_> = kinds.iter().enumerate()
            .map(|(i, k)| container(&format!("{} c{i} startup=0/5/1/2 liveness=0/7/1/2 readiness=1/3/2/2", kinds_by[*k]))).collect();
        let policies = [RestartPolicy::Always, RestartPolicy::OnFailure, RestartPolicy::Never];
        let count = containers.len();
        let mut pod = Pod::new(&pod_order(policies[policy], 5, containers));
        let mut now = 0;
        let (mut running, mut attempts, mut ready) = (vec![false; count], vec![0u32; count], vec![false; count]);
        let mut sandbox = 0;
        let mut pending = pod.start(now);
        for (what, which, value, wait) in steps {
            for decision in std::mem::take(&mut pending) {
                match decision {
                    Decision::StartSandbox => { prop_assert_eq!(sandbox, 0); sandbox = 1; }
                    Decision::StopSandbox => { prop_assert!(running.iter().all(|r| !r)); prop_assert_eq!(sandbox, 1); sandbox = 2; }
                    Decision::Start { container, attempt } => {
                        prop_assert!(!running[container] && sandbox == 1);
                        prop_assert_eq!(attempt, attempts[container]);
                        running[container] = true;
                        attempts[container] += 1;
                    }
                    Decision::Ready { container, ready: new } => { prop_assert_ne!(ready[container], new); ready[container] = new; }
                    Decision::Terminate { container } | Decision::Kill { container } | Decision::Probe { container, .. } =>
                        prop_assert!(running[container]),
                    Decision::BackOff { container, .. } => prop_assert!(!running[container]),
                }
            }
            if let Some(due) = pod.deadline() { prop_assert!(due > now, "deadline {} at {}", due, now); }
            now += wait * SECOND / 2;
            if let Some(due) = pod.deadline().filter(|due| *due < now) {
                now = due;
            }
            let which = which % count;
            pending = match what {
                0 if running[which] => { running[which] = false; pod.exited(now, which, (value > 0).then(|| i32::from(value) - 1)) }
                1 => pod.probed(now, which, attempts[which].saturating_sub(1), [ProbeRole::Startup, ProbeRole::Liveness, ProbeRole::Readiness][usize::from(value)], wait % 3 > 0),
                2 if wait == 0 => pod.stop(now),
                _ => pod.tick(now),
            };
        }
    }
}
