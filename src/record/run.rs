//! The run directory: what one run of a lab left behind, as files that later code reads without the lab or the machine.
//!
//! | file | content |
//! |---|---|
//! | `lab.yaml` | all documents of the lab |
//! | `plan/ARM.json` | [`Plan`]: what the kubelet writes |
//! | `order/ARM.json` | [`Order`]: what the guest was told |
//! | `lease.json` | what was created for the run |
//! | `node.json` | [`NodeRecord`]: substrate, measured devices and the hash of the acceptance rules |
//! | `events/ARM.jsonl` | one [`Event`] a line |
//! | `samples/ARM.bin` | frames: Hello, Watch, Tick, Done |
//! | `load/ARM.jsonl` | one [`Request`] a line |
//! | `log/ARM.log` | `pod/container: line` |
//! | `report/ARM.jsonl` | one [`Report`] a line: what workloads report of themselves |
//! | `ledger/ARM/PHASE.json` | [`LedgerSnapshot`] at the phase's end |
//! | `result.json`, `report.html` | what was derived, and can be derived again |
//! | `alerts/ARM/rules.yaml`, `test.yaml` | Prometheus rules of a lab's alerts, and the arm's samples as their unit test; derived as well |
//! | `live/` | what guests have said so far, only while the run is written: [`RunDir::writing`] |
//! | `timing.json` | wall times: the only file that differs between equal runs |
//!
//! A run with several seeds holds `lab.yaml`, `seeds.json` ([`super::Seeds`]), what was derived of all seeds together, and for each seed
//! one such directory, `seed-N`.
//!
//! Every file is written beside its place and then moved there, so a reader never sees half of one.

use super::{Event, Frame, LedgerSnapshot, NodeFacts, Order, Plan, ReadError, Report, Request};
use camino::{Utf8Path, Utf8PathBuf};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::PermissionsExt;
use tempfile::NamedTempFile;

/// Why a run directory cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The directory holds something already.
    #[error("{0} is not empty: name another directory with --out, or remove it")]
    NotEmpty(Utf8PathBuf),
    /// A directory that is no run.
    #[error("{0} is not a run directory: it has no lab.yaml")]
    NotARun(Utf8PathBuf),
    /// The file system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: Utf8PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A record that this version cannot read.
    #[error("{path}, line {line}: {source}: the run was recorded by another version of highwater")]
    Json {
        /// The file.
        path: Utf8PathBuf,
        /// The line, from 1.
        line: usize,
        /// The decoder's reason.
        source: serde_json::Error,
    },
    /// A stream that this version cannot read.
    #[error("{path}: {source}")]
    Frames {
        /// The file.
        path: Utf8PathBuf,
        /// The reader's reason.
        source: ReadError,
    },
}

/// The substrate and the nodes of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRecord {
    /// Record schema, [`super::SCHEMA`].
    pub schema: u32,
    /// What may move an outcome, by name: QEMU, kernel, guest program, lab, seed. Runs with equal ones are equal to the byte.
    pub substrate: Vec<(String, String)>,
    /// Hash of the substrate.
    pub identity: String,
    /// Hash of the lab's acceptance rules before the run; none without rules.
    #[serde(default)]
    pub acceptance: Option<String>,
    /// The booted nodes, and which arms were forked from each.
    pub nodes: Vec<BootedNode>,
}

/// A checkpoint and the arms that were forked from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootedNode {
    /// The arms.
    pub arms: Vec<String>,
    /// What the init program measured.
    pub facts: NodeFacts,
}

/// A run directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    path: Utf8PathBuf,
}

/// How a guest's stream ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ending {
    /// The guest's own report of a fault; the run has no result then.
    pub fault: Option<String>,
    /// End of the script and busy time, in virtual nanoseconds; absent when the stream stopped before.
    pub done: Option<(u64, u64)>,
}

impl RunDir {
    /// Makes a new run directory; an empty one is taken as it is.
    ///
    /// # Errors
    /// [`RunError::NotEmpty`] rather than mixing two runs.
    pub fn create(path: &Utf8Path) -> Result<RunDir, RunError> {
        fs_err::create_dir_all(path).map_err(|source| RunError::Io { path: path.to_owned(), source })?;
        let mut entries = path.read_dir_utf8().map_err(|source| RunError::Io { path: path.to_owned(), source })?;
        if entries.next().is_some() {
            return Err(RunError::NotEmpty(path.to_owned()));
        }
        Ok(RunDir { path: path.to_owned() })
    }

    /// Opens a run directory.
    ///
    /// # Errors
    /// [`RunError::NotARun`].
    pub fn open(path: &Utf8Path) -> Result<RunDir, RunError> {
        let run = RunDir { path: path.to_owned() };
        if run.file("lab.yaml").is_file() { Ok(run) } else { Err(RunError::NotARun(path.to_owned())) }
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// The path of a file in it.
    #[must_use]
    pub fn file(&self, name: &str) -> Utf8PathBuf {
        self.path.join(name)
    }

    /// Writes a file at once.
    ///
    /// # Errors
    /// What the file system says, for example that the disk is full.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), RunError> {
        let mut pending = self.begin(name)?;
        pending.put(bytes)?;
        pending.finish()
    }

    /// Writes a record as JSON, one field a line.
    ///
    /// # Errors
    /// As [`RunDir::write`].
    pub fn write_json(&self, name: &str, record: &impl Serialize) -> Result<(), RunError> {
        let mut text = serde_json::to_vec_pretty(record).map_err(|source| self.json(name, 1, source))?;
        text.push(b'\n');
        self.write(name, &text)
    }

    /// Reads a whole text.
    ///
    /// # Errors
    /// As the file system says.
    pub fn read_text(&self, name: &str) -> Result<String, RunError> {
        fs_err::read_to_string(self.file(name)).map_err(|source| RunError::Io { path: self.file(name), source })
    }

    /// Reads a JSON record.
    ///
    /// # Errors
    /// A file that is not there or not this version's.
    pub fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<T, RunError> {
        serde_json::from_str(&self.read_text(name)?).map_err(|source| self.json(name, source.line(), source))
    }

    /// The plan of an arm.
    ///
    /// # Errors
    /// As [`RunDir::read_json`].
    pub fn plan(&self, arm: &str) -> Result<Plan, RunError> {
        self.read_json(&format!("plan/{arm}.json"))
    }

    /// The order of an arm.
    ///
    /// # Errors
    /// As [`RunDir::read_json`].
    pub fn order(&self, arm: &str) -> Result<Order, RunError> {
        self.read_json(&format!("order/{arm}.json"))
    }

    /// The snapshot at the end of a phase; none if the run stopped before.
    ///
    /// # Errors
    /// As [`RunDir::read_json`].
    pub fn ledger(&self, arm: &str, phase: &str) -> Result<Option<LedgerSnapshot>, RunError> {
        let name = format!("ledger/{arm}/{phase}.json");
        if self.file(&name).is_file() { self.read_json(&name).map(Some) } else { Ok(None) }
    }

    /// The events of an arm, one by one.
    ///
    /// # Errors
    /// When the file cannot be opened; the iterator gives what is wrong with a line.
    pub fn events(&self, arm: &str) -> Result<impl Iterator<Item = Result<Event, RunError>> + use<>, RunError> {
        self.lines(&format!("events/{arm}.jsonl"))
    }

    /// The requests of an arm, one by one.
    ///
    /// # Errors
    /// As [`RunDir::events`].
    pub fn requests(&self, arm: &str) -> Result<impl Iterator<Item = Result<Request, RunError>> + use<>, RunError> {
        self.lines(&format!("load/{arm}.jsonl"))
    }

    /// What the workloads of an arm reported of themselves, one by one; nothing in a run that did not keep it.
    ///
    /// # Errors
    /// As [`RunDir::events`].
    pub fn reports(&self, arm: &str) -> Result<Vec<Report>, RunError> {
        let name = format!("report/{arm}.jsonl");
        if self.file(&name).is_file() { self.lines(&name)?.collect() } else { Ok(Vec::new()) }
    }

    /// The samples of an arm, frame by frame.
    ///
    /// # Errors
    /// As [`RunDir::events`].
    pub fn samples(&self, arm: &str) -> Result<impl Iterator<Item = Result<Frame, RunError>> + use<>, RunError> {
        let path = self.file(&format!("samples/{arm}.bin"));
        let reader = BufReader::new(open(&path)?);
        Ok(frames(reader).map(move |frame| frame.map_err(|source| RunError::Frames { path: path.clone(), source })))
    }

    /// Sorts a guest's stream into the files of an arm.
    ///
    /// # Errors
    /// A stream that cannot be read, or a file that cannot be written.
    pub fn record(&self, arm: &str, stream: impl Read) -> Result<Ending, RunError> {
        let mut ending = Ending::default();
        let mut events = self.begin(&format!("events/{arm}.jsonl"))?;
        let mut samples = self.begin(&format!("samples/{arm}.bin"))?;
        let mut load = self.begin(&format!("load/{arm}.jsonl"))?;
        let mut log = self.begin(&format!("log/{arm}.log"))?;
        let mut reports = self.begin(&format!("report/{arm}.jsonl"))?;
        let mut buffer = Vec::new();
        for frame in frames(stream) {
            let frame = frame.map_err(|source| RunError::Frames { path: self.file(&format!("samples/{arm}.bin")), source })?;
            match &frame {
                Frame::Event(event) => events.put_line(event)?,
                Frame::Request(request) => load.put_line(request)?,
                Frame::Ledger(ledger) => self.write_json(&format!("ledger/{arm}/{}.json", ledger.phase), ledger)?,
                Frame::Log { pod, container, line } => log.put(format!("{pod}/{container}: {line}\n").as_bytes())?,
                Frame::Report(report) => {
                    log.put(format!("{}/{}: {}\n", report.pod, report.container, report.line).as_bytes())?;
                    reports.put_line(report)?;
                }
                Frame::Fault { message } => ending.fault = Some(message.clone()),
                Frame::Hello { .. } | Frame::Watch(_) | Frame::Tick(_) | Frame::Done { .. } => {
                    buffer.clear();
                    super::encode_frame(&frame, &mut buffer);
                    samples.put(&buffer)?;
                }
            }
            if let Frame::Done { at_ns, busy_ns } = frame {
                ending.done = Some((at_ns, busy_ns));
            }
        }
        for file in [events, samples, load, log, reports] {
            file.finish()?;
        }
        Ok(ending)
    }

    fn lines<T: DeserializeOwned>(&self, name: &str) -> Result<impl Iterator<Item = Result<T, RunError>> + use<T>, RunError> {
        let path = self.file(name);
        let reader = BufReader::new(open(&path)?);
        Ok(reader.lines().enumerate().map(move |(i, line)| {
            let line = line.map_err(|source| RunError::Io { path: path.clone(), source })?;
            serde_json::from_str(&line).map_err(|source| RunError::Json { path: path.clone(), line: i + 1, source })
        }))
    }

    fn begin(&self, name: &str) -> Result<Pending, RunError> {
        let path = self.file(name);
        let parent = path.parent().unwrap_or(&self.path);
        let file = fs_err::create_dir_all(parent).and_then(|()| NamedTempFile::with_prefix_in(".writing-", parent));
        let file = file.map_err(|source| RunError::Io { path: path.clone(), source })?;
        Ok(Pending { path, file: BufWriter::new(file) })
    }

    fn json(&self, name: &str, line: usize, source: serde_json::Error) -> RunError {
        RunError::Json { path: self.file(name), line, source }
    }
}

fn open(path: &Utf8Path) -> Result<File, RunError> {
    File::open(path).map_err(|source| RunError::Io { path: path.to_owned(), source })
}

/// A file that is being written; dropped unfinished it leaves nothing.
#[derive(Debug)]
struct Pending {
    path: Utf8PathBuf,
    file: BufWriter<NamedTempFile>,
}

impl Pending {
    fn put(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        self.file.write_all(bytes).map_err(|source| RunError::Io { path: self.path.clone(), source })
    }

    fn put_line(&mut self, record: &impl Serialize) -> Result<(), RunError> {
        let json = serde_json::to_vec(record).map_err(|source| RunError::Json { path: self.path.clone(), line: 0, source })?;
        self.put(&json)?;
        self.put(b"\n")
    }

    fn finish(self) -> Result<(), RunError> {
        let Pending { path, file } = self;
        let done = file.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| {
            // Temporary files are private; a record is as readable as any file of the user's.
            file.as_file().set_permissions(PermissionsExt::from_mode(0o644))?;
            file.persist(&path).map_err(|e| e.error)
        });
        done.map(drop).map_err(|source| RunError::Io { path, source })
    }
}

/// Reads frames from a stream, one at a time.
pub fn frames(stream: impl Read) -> impl Iterator<Item = Result<Frame, ReadError>> {
    let mut stream = stream;
    let (mut number, mut offset, mut body, mut ended) = (0, 0, Vec::new(), false);
    std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let (frame, at) = (number, offset);
        let mut head = [0; 4];
        let result = match fill(&mut stream, &mut head) {
            0 => return None,
            4 => {
                body.resize(u32::from_le_bytes(head) as usize, 0);
                if fill(&mut stream, &mut body) == body.len() {
                    postcard::from_bytes(&body).map_err(|source| ReadError::Malformed { frame, offset: at, source })
                } else {
                    Err(ReadError::Truncated { frame, offset: at })
                }
            }
            _ => Err(ReadError::Truncated { frame, offset: at }),
        };
        ended = result.is_err();
        number += 1;
        offset += 4 + body.len();
        Some(result)
    })
}

/// Reads until the buffer is full or the stream ends; an error of the stream is its end.
fn fill(stream: &mut impl Read, buffer: &mut [u8]) -> usize {
    let mut done = 0;
    while done < buffer.len() {
        match stream.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{EventKind, Tick, encode_frame};

    fn stream() -> Vec<u8> {
        let event = Event { at_ns: 1, kind: EventKind::PhaseStarted { phase: "run".into() } };
        let ledger = LedgerSnapshot { at_ns: 2, phase: "run".into(), entries: vec![] };
        let tick = Frame::Tick(Tick { at_ns: 2, changes: vec![] });
        let log = Frame::Log { pod: "p".into(), container: "c".into(), line: "hello".into() };
        let mut bytes = Vec::new();
        for frame in [Frame::Event(event), tick, log, Frame::Ledger(ledger), Frame::Done { at_ns: 3, busy_ns: 1 }] {
            encode_frame(&frame, &mut bytes);
        }
        bytes
    }

    #[test]
    fn a_stream_becomes_files_and_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(dir.path()).unwrap().join("run");
        let run = RunDir::create(&path).unwrap();
        run.write("lab.yaml", b"kind: Lab\n").unwrap();
        let ending = run.record("a", &stream()[..]).unwrap();
        assert_eq!(ending, Ending { fault: None, done: Some((3, 1)) });
        let run = RunDir::open(&path).unwrap();
        assert_eq!(run.events("a").unwrap().count(), 1);
        assert_eq!(run.samples("a").unwrap().map(Result::unwrap).count(), 2);
        assert_eq!(run.requests("a").unwrap().count(), 0);
        assert_eq!(run.ledger("a", "run").unwrap().unwrap().at_ns, 2);
        assert_eq!(run.ledger("a", "other").unwrap(), None);
        assert_eq!(run.read_text("log/a.log").unwrap(), "p/c: hello\n");
        assert!(matches!(RunDir::create(&path), Err(RunError::NotEmpty(_))));
    }

    #[test]
    fn a_cut_stream_is_named_and_leaves_no_half_files() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(Utf8Path::from_path(dir.path()).unwrap()).unwrap();
        let bytes = stream();
        let error = run.record("a", &bytes[..bytes.len() - 1]).unwrap_err();
        assert!(matches!(error, RunError::Frames { source: ReadError::Truncated { frame: 4, .. }, .. }), "{error}");
        let left = std::fs::read_dir(dir.path().join("events")).unwrap().count();
        assert_eq!(left, 0);
    }

    #[test]
    fn a_directory_that_is_no_run_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(RunDir::open(Utf8Path::from_path(dir.path()).unwrap()), Err(RunError::NotARun(_))));
    }
}
