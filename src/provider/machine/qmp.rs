//! QEMU's monitor protocol: JSON lines over the child's pipes, answers and events told apart.

use super::error::LastWords;
use super::process::Process;
use super::{MachineError, Stage};
use crate::provider::{FileError, interrupt};
use crate::record::port;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

/// A machine with its monitor. Dropping it kills it.
#[derive(Debug)]
pub struct Monitor {
    process: Process,
    stdin: ChildStdin,
    lines: Receiver<Value>,
    events: Vec<String>,
    dir: PathBuf,
    guard: Duration,
    deadline: Instant,
    stage: Stage,
}

impl Monitor {
    /// Starts QEMU and its monitor. The guard counts from now and covers all that follows.
    pub fn start(
        command: Command,
        dir: &Path,
        lease: &crate::provider::lease::Lease,
        inherit: &[std::os::fd::RawFd],
        stage: Stage,
        guard: Duration,
    ) -> Result<Monitor, MachineError> {
        let program = command.get_program().to_owned();
        let mut process = Process::start(command, lease, inherit).map_err(|error| match error {
            super::process::StartError::Lease(error) => MachineError::File(error),
            super::process::StartError::Spawn(error) => {
                MachineError::BadQemu { program: program.display().to_string(), reason: error.to_string() }
            }
        })?;
        let stdin = process.child().stdin.take().expect("piped");
        let stdout = process.child().stdout.take().expect("piped");
        let (send, lines) = channel();
        // Ends with the pipe, that is with QEMU.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Some(message) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else { break };
                if send.send(message).is_err() {
                    break;
                }
            }
        });
        let deadline = Instant::now() + guard;
        let mut monitor = Monitor { process, stdin, lines, events: Vec::new(), dir: dir.to_owned(), guard, deadline, stage };
        monitor.next()?;
        monitor.execute("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    /// QEMU's process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Names the stage for errors from here on.
    pub fn enter(&mut self, stage: Stage) {
        self.stage = stage;
    }

    /// Executes a command and returns its answer.
    pub fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, MachineError> {
        let line = json!({ "execute": command, "arguments": arguments });
        if writeln!(self.stdin, "{line}").is_err() {
            return Err(self.ended());
        }
        loop {
            let message = self.next()?;
            if let Some(answer) = message.get("return") {
                return Ok(answer.clone());
            }
            if let Some(error) = message.get("error") {
                let reason = error["desc"].as_str().unwrap_or_default().to_owned();
                return Err(MachineError::Refused { command: command.to_owned(), reason });
            }
            self.note(&message);
        }
    }

    /// Saves (`migrate`) or restores (`migrate-incoming`) the state of a machine and waits until that is complete.
    pub fn migrate(&mut self, command: &str, uri: &str) -> Result<(), MachineError> {
        let events = json!({ "capabilities": [{ "capability": "events", "state": true }] });
        self.execute("migrate-set-capabilities", events)?;
        self.execute(command, json!({ "uri": uri }))?;
        loop {
            self.event("MIGRATION")?;
            let answer = self.execute("query-migrate", json!({}))?;
            match answer["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed" | "cancelled") => {
                    let reason = answer["error-desc"].as_str().unwrap_or("no reason given").to_owned();
                    return Err(MachineError::Refused { command: command.to_owned(), reason });
                }
                _ => {}
            }
        }
    }

    /// Waits for an event that has not been waited for before.
    pub fn event(&mut self, name: &str) -> Result<(), MachineError> {
        loop {
            if let Some(at) = self.events.iter().position(|event| event == name) {
                self.events.remove(at);
                return Ok(());
            }
            let message = self.next()?;
            self.note(&message);
        }
    }

    /// Waits until QEMU ends; calls `watch` about every `every` meanwhile and once at the end.
    pub fn wait_end(mut self, every: Duration, watch: &mut dyn FnMut()) -> Result<(), MachineError> {
        let status = loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left.min(every)) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) if left > every => watch(),
                Err(RecvTimeoutError::Timeout) => return Err(self.hung()),
                Err(RecvTimeoutError::Disconnected) => break self.process.wait(),
            }
        };
        watch();
        let status = status.map_err(FileError::at(&self.dir))?;
        if status.code() == Some(port::END_STATUS) { Ok(()) } else { Err(self.unexpected(status)) }
    }

    /// Ends QEMU by its own command.
    pub fn quit(mut self) -> Result<(), MachineError> {
        // QEMU may end before it has answered, and how it ends no longer matters.
        _ = writeln!(self.stdin, "{}", json!({ "execute": "quit" }));
        while self.lines.recv_timeout(self.deadline.saturating_duration_since(Instant::now())).is_ok() {}
        self.process.kill();
        self.process.wait().map_err(FileError::at(&self.dir))?;
        Ok(())
    }

    fn next(&mut self) -> Result<Value, MachineError> {
        match self.lines.recv_timeout(self.deadline.saturating_duration_since(Instant::now())) {
            Ok(message) => Ok(message),
            Err(RecvTimeoutError::Timeout) => Err(self.hung()),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
        }
    }

    fn note(&mut self, message: &Value) {
        if let Some(event) = message["event"].as_str() {
            self.events.push(event.to_owned());
        }
    }

    /// Fails when QEMU has ended.
    pub fn check(&mut self) -> Result<(), MachineError> {
        loop {
            match self.lines.try_recv() {
                Ok(message) => self.note(&message),
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err(self.ended()),
            }
        }
    }

    /// What the console and QEMU said last.
    pub fn last_words(&self) -> LastWords {
        LastWords::read(&self.dir)
    }

    /// Ends QEMU, which did not do what it should in time.
    pub fn hung(&mut self) -> MachineError {
        self.process.kill();
        _ = self.process.wait();
        MachineError::Hung { stage: self.stage, guard: self.guard, last: LastWords::read(&self.dir) }
    }

    /// QEMU has ended or is about to: its pipes are closed.
    pub fn ended(&mut self) -> MachineError {
        match self.process.wait() {
            Ok(status) => self.unexpected(status),
            Err(source) => FileError::at(&self.dir)(source).into(),
        }
    }

    fn unexpected(&self, status: ExitStatus) -> MachineError {
        if interrupt::requested() {
            return MachineError::Interrupted;
        }
        let (stage, last) = (self.stage, LastWords::read(&self.dir));
        match (status.signal(), status.code()) {
            (Some(signal), _) => MachineError::Killed { stage, signal, last },
            // With -no-reboot a panic (panic=-1) and a power-off both end QEMU with success; the console tells.
            (_, Some(0)) if last.panicked => MachineError::Panicked { stage, last },
            (_, Some(0)) => MachineError::SwitchedOff { stage, last },
            (_, code) => MachineError::Failed { stage, status: code.unwrap_or(-1), last },
        }
    }
}
