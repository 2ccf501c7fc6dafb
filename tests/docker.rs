//! The Docker endpoint: what a user hears when there is none that will do, and the throwaway one.
//!
//! The throwaway one boots an emulated machine. Its tests run where the cache has its disk, and where HIGHWATER_DOCKER=1 has it built (root,
//! some minutes); elsewhere they say that they are left out.

#![allow(clippy::print_stdout, reason = "a test says what it left out and measured")]

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use support::{Place, alive, children, expect, highwater, signal};

fn check(docker: &str) -> Command {
    let mut command = highwater(&["docker", "check", "--docker", docker]);
    command.env_remove("DOCKER_TLS_VERIFY").env_remove("RUST_BACKTRACE");
    command
}

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Something that answers HTTP on a socket: `/version` and `/info`, each with a status and a body.
fn answering(socket: &Path, version: (u16, Value), info: (u16, Value)) {
    let listener = UnixListener::bind(socket).expect("a socket");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let mut lines = (&mut reader).lines().map_while(Result::ok);
            let Some(request) = lines.next() else { continue };
            lines.find(String::is_empty);
            let (status, body) = if request.contains("/version") { &version } else { &info };
            let body = body.to_string();
            let head = format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nConnection: close");
            _ = write!(reader.get_mut(), "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
    });
}

#[test]
fn no_docker_is_told_with_what_to_do() {
    let dir = tempfile::tempdir().expect("a folder");
    let text = stderr(&expect(3, &mut check(&format!("unix://{}/none", dir.path().display()))));
    assert!(text.contains("no Docker at") && text.contains("--docker throwaway"), "{text}");
    // A port on which nobody listens: it was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
    let text = stderr(&expect(3, &mut check(&format!("tcp://127.0.0.1:{port}"))));
    assert!(text.contains("no Docker at") && text.contains("refused"), "{text}");
    let text = stderr(&expect(2, &mut check("ssh://somewhere")));
    assert!(text.contains("ssh -nNT -L"), "{text}");
    let text = stderr(&expect(2, check("tcp://127.0.0.1:1").env("DOCKER_TLS_VERIFY", "1").env_remove("DOCKER_CERT_PATH")));
    assert!(text.contains("DOCKER_CERT_PATH"), "{text}");
}

#[test]
fn a_socket_that_is_not_open_to_the_user_is_told_as_such() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name);
    let _listener = UnixListener::bind(path("docker.sock")).expect("a socket");
    let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("a mode");
    mode(&path("docker.sock"), 0o600);
    mode(dir.path(), 0o755);
    // To root every socket is open: the program runs as somebody else, from where that one may read it.
    std::fs::copy(env!("CARGO_BIN_EXE_highwater"), path("highwater")).expect("a copy");
    let mut command = Command::new(path("highwater"));
    command.args(["docker", "check", "--docker", &format!("unix://{}", path("docker.sock").display())]);
    command.current_dir("/").env_clear().env("HOME", "/nonexistent");
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    } else {
        mode(&path("docker.sock"), 0);
    }
    let text = stderr(&expect(3, &mut command));
    assert!(text.contains("is not open to this user") && text.contains("usermod -aG docker"), "{text}");
}

#[test]
fn a_docker_that_will_not_do_is_told_all_that_it_lacks() {
    let dir = tempfile::tempdir().expect("a folder");
    let socket = dir.path().join("docker.sock");
    let version = serde_json::json!({ "Version": "19.03.15", "ApiVersion": "1.40" });
    let info = serde_json::json!({ "CgroupVersion": "1", "KernelVersion": "5.4.0-26", "MemTotal": 1 << 30, "MemoryLimit": true, "SwapLimit": false });
    answering(&socket, (200, version), (200, info));
    let output = expect(3, &mut check(&format!("unix://{}", socket.display())));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("it will not do"), "{text}");
    for words in ["19.03.15 (API 1.40)", "systemd.unified_cgroup_hierarchy=1", "swapaccount=1", "kernel 5.9 or newer: 5.4.0-26"] {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn what_is_no_docker_is_told_in_its_own_words() {
    let dir = tempfile::tempdir().expect("a folder");
    let socket = dir.path().join("other.sock");
    let no = serde_json::json!({ "message": "this is a teapot" });
    answering(&socket, (418, no.clone()), (418, no));
    let text = stderr(&expect(3, &mut check(&format!("unix://{}", socket.display()))));
    assert!(text.contains("other.sock") && text.contains("this is a teapot"), "{text}");
}

/// The machine for one test at a time, with the disk of the throwaway Docker; nothing where these tests are left out.
fn with_disk() -> Option<MutexGuard<'static, ()>> {
    static MACHINE: Mutex<()> = Mutex::new(());
    let output = highwater(&["doctor", "--json"]).output().expect("the binary starts");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let built = found["tools"]["throwaway"]["Ok"] == "built";
    if !built && std::env::var_os("HIGHWATER_DOCKER").is_none() {
        println!("LEFT OUT: the cache has no disk of a throwaway Docker; HIGHWATER_DOCKER=1 builds it (root, some minutes)");
        return None;
    }
    Some(MACHINE.lock().unwrap_or_else(PoisonError::into_inner))
}

fn up(place: &Place) -> Command {
    place.command(&["docker", "up", "--memory", "2Gi", "--swap", "64Mi", "--json"])
}

/// Starts one and reads where it answers.
fn started(place: &Place) -> (Child, String, String) {
    let mut child = up(place).stdout(Stdio::piped()).spawn().expect("the binary starts");
    let mut text = String::new();
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    for line in lines.map_while(Result::ok) {
        text += &line;
        if let Ok(found) = serde_json::from_str::<Value>(&text) {
            let word = |key: &str| found[key].as_str().expect("a word").to_owned();
            return (child, word("host"), word("certificates"));
        }
    }
    panic!("it ended instead ({:?}): {text}", child.wait());
}

#[test]
fn a_throwaway_docker_answers_who_has_the_certificate_and_leaves_nothing() {
    let Some(_machine) = with_disk() else { return };
    let (place, begun) = (Place::new(), Instant::now());
    let (mut child, host, certificates) = started(&place);
    println!("throwaway Docker from command to answer: {:.1} s", begun.elapsed().as_secs_f64());
    let machines = children(child.id());
    assert!(!machines.is_empty(), "it runs in a process of its own");
    assert!(host.starts_with("tcp://127.0.0.1:"), "{host}");
    let mut with = check(&host);
    with.arg("--json").env("DOCKER_TLS_VERIFY", "1").env("DOCKER_CERT_PATH", &certificates);
    let found: Value = serde_json::from_slice(&expect(0, &mut with).stdout).expect("JSON");
    assert_eq!((&found["docker"]["cgroupVersion"], &found["docker"]["swapLimit"]), (&"2".into(), &true.into()), "{found}");
    let memory = found["docker"]["memory"].as_u64().expect("bytes");
    assert!((1800 << 20..2 << 30).contains(&memory), "it has the memory that was asked for: {memory}");
    let text = stderr(&expect(3, &mut check(&host)));
    assert!(text.contains("Docker at tcp://"), "without a certificate it does not answer: {text}");
    signal(&child, "INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "Ctrl-C is how it is ended");
    assert!(machines.iter().all(|pid| !alive(*pid)), "a machine survived");
    place.assert_empty();
}

#[test]
fn kill_9_of_a_throwaway_docker_leaves_nothing_after_clean() {
    let Some(_machine) = with_disk() else { return };
    for point in ["forking the machine", "ready; Ctrl-C ends it"] {
        let place = Place::new();
        let mut child = place.until(up(&place), point);
        let machines = children(child.id());
        signal(&child, "KILL");
        child.wait().expect("it ends");
        expect(0, &mut place.command(&["clean"]));
        assert!(machines.iter().all(|pid| !alive(*pid)), "a machine survived a kill at {point:?}");
        place.assert_empty();
    }
}
