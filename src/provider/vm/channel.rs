//! Commands on the node over a virtio-serial port: a shell script goes in, its status and output come back.
//!
//! The node's end is the script `node-images/rootfs/usr/lib/highwater/channel`, which also describes the lines of the protocol.

use base64::{Engine, engine::general_purpose::STANDARD};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Why a command on the node gave no answer, or a bad one.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The socket of the port cannot be used.
    #[error("{}: {source}", .path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No answer in time.
    #[error("the node did not answer within {} s: {what}", .deadline.as_secs())]
    Deadline {
        /// The first line of the script.
        what: String,
        /// How long it had.
        deadline: Duration,
    },
    /// The VM closed the port.
    #[error("the VM ended while it ran: {what}")]
    Closed {
        /// The first line of the script.
        what: String,
    },
    /// An answer that is none of ours.
    #[error("the node answered something else than the protocol: {0:?}")]
    Malformed(String),
    /// The script ended with a status.
    #[error("on the node, {what} ended with status {status}: {stderr}")]
    Status {
        /// The first line of the script.
        what: String,
        /// Its exit status.
        status: i32,
        /// What it said.
        stderr: String,
    },
}

impl ChannelError {
    /// Whether it means that QEMU is gone, which closes the port: seen when reading, or already when writing.
    #[must_use]
    pub fn is_end(&self) -> bool {
        use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
        match self {
            ChannelError::Closed { .. } => true,
            ChannelError::Socket { source, .. } => matches!(source.kind(), BrokenPipe | ConnectionReset),
            _ => false,
        }
    }
}

/// The host's end of the port.
#[derive(Debug)]
pub struct Channel {
    path: PathBuf,
    reader: BufReader<UnixStream>,
    line: Vec<u8>,
    next: u64,
}

impl Channel {
    /// Connects to the socket that QEMU listens on.
    ///
    /// # Errors
    /// The socket cannot be connected.
    fn connect(path: &Path) -> Result<Channel, ChannelError> {
        let socket = |source| ChannelError::Socket { path: path.to_owned(), source };
        // A socket's path may have 108 bytes, and a cache folder may lie deep: go through a descriptor of its folder.
        let folder = std::fs::File::open(path.parent().unwrap_or(Path::new("."))).map_err(socket)?;
        let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(path.file_name().unwrap_or_default());
        let stream = UnixStream::connect(short).map_err(socket)?;
        // Ids differ between connections, so an answer meant for an earlier one is never taken for ours.
        static CONNECTIONS: AtomicU32 = AtomicU32::new(0);
        let connection = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let next = u64::from(std::process::id()) << 32 | u64::from(connection) << 16;
        Ok(Channel { path: path.to_owned(), reader: BufReader::new(stream), line: Vec::new(), next })
    }

    /// Connects and waits until the node's end answers: QEMU keeps what is sent before the guest has opened the port.
    ///
    /// # Errors
    /// No answer before the deadline; the VM ended.
    pub fn open(path: &Path, deadline: Duration) -> Result<Channel, ChannelError> {
        let mut channel = Channel::connect(path)?;
        channel.run("true", deadline)?;
        Ok(channel)
    }

    /// Runs a script and returns what it printed.
    ///
    /// # Errors
    /// A status other than 0, no answer before the deadline, a VM that ended.
    pub fn run(&mut self, script: &str, deadline: Duration) -> Result<String, ChannelError> {
        self.next += 1;
        let (id, ends, what) = (format!("{:x}", self.next), Instant::now() + deadline, first_line(script));
        let request = format!("{id} {}\n", base64(script.as_bytes()));
        let sent = self.reader.get_mut().write_all(request.as_bytes());
        sent.map_err(|source| self.socket(source))?;
        loop {
            let answer = self.answer(ends, deadline, &what)?;
            let malformed = || ChannelError::Malformed(answer.chars().take(120).collect());
            let mut fields = answer.split(' ');
            if fields.next() != Some(&id) {
                continue;
            }
            let status: i32 = fields.next().and_then(|s| s.parse().ok()).ok_or_else(malformed)?;
            let mut text = || fields.next().and_then(decode).map(|b| String::from_utf8_lossy(&b).into_owned());
            let (stdout, stderr) = (text().ok_or_else(malformed)?, text().ok_or_else(malformed)?);
            return if status == 0 {
                Ok(stdout)
            } else {
                Err(ChannelError::Status { what, status, stderr: stderr.trim().to_owned() })
            };
        }
    }

    /// Writes a file on the node, with its folder.
    ///
    /// # Errors
    /// As [`Channel::run`].
    pub fn put(&mut self, path: &str, content: &str, deadline: Duration) -> Result<(), ChannelError> {
        let encoded = base64(content.as_bytes());
        let script = format!("mkdir -p \"$(dirname {path})\" && echo {encoded} | base64 -d >{path} && chmod 600 {path}");
        self.run(&script, deadline).map(drop)
    }

    /// One line; what arrived before the deadline stays for the next call.
    fn answer(&mut self, ends: Instant, deadline: Duration, what: &str) -> Result<String, ChannelError> {
        loop {
            let left = ends.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ChannelError::Deadline { what: what.to_owned(), deadline });
            }
            let timeout = self.reader.get_ref().set_read_timeout(Some(left));
            timeout.map_err(|source| self.socket(source))?;
            match self.reader.read_until(b'\n', &mut self.line) {
                Ok(_) if self.line.ends_with(b"\n") => {
                    let line = String::from_utf8_lossy(&self.line).trim_end().to_owned();
                    self.line.clear();
                    return Ok(line);
                }
                Ok(_) => return Err(ChannelError::Closed { what: what.to_owned() }),
                Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted) => {}
                Err(source) => return Err(self.socket(source)),
            }
        }
    }

    fn socket(&self, source: std::io::Error) -> ChannelError {
        ChannelError::Socket { path: self.path.clone(), source }
    }
}

fn first_line(script: &str) -> String {
    script.trim_start().lines().next().unwrap_or_default().chars().take(80).collect()
}

/// Standard base64 with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of standard base64; "-" stands for none.
fn decode(text: &str) -> Option<Vec<u8>> {
    if text == "-" { Some(Vec::new()) } else { STANDARD.decode(text).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    const NODE_END: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/node-images/rootfs/usr/lib/highwater/channel");

    /// The real script of the node against a pair of fifos' worth of socket: what a port gives it.
    fn with_node(test: impl FnOnce(&mut Channel)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("port");
        let listener = UnixListener::bind(&path).unwrap();
        let mut channel = Channel::connect(&path).unwrap();
        let (port, _) = listener.accept().unwrap();
        let text = fs_err::read_to_string(NODE_END).unwrap();
        // A socket cannot be opened by name; everything else of the script is as on the node.
        let text = text.replace("exec 3<>\"$port\"", "exec 3<&0 4>&1").replace(">&3", ">&4");
        let text = text.replace("dir=/run/highwater", &format!("dir={}", dir.path().join("run").display()));
        let (stdin, stdout) = (port.try_clone().unwrap(), port);
        let mut shell = Command::new("sh");
        shell.args(["-c", &text]).stdin(std::os::fd::OwnedFd::from(stdin)).stdout(std::os::fd::OwnedFd::from(stdout));
        let mut node = shell.spawn().unwrap();
        test(&mut channel);
        node.kill().unwrap();
        node.wait().unwrap();
    }

    #[test]
    fn output_and_failures_come_back() {
        with_node(|channel| {
            let wait = Duration::from_secs(20);
            assert_eq!(channel.run("printf 'a b\\nc'", wait).unwrap(), "a b\nc");
            assert_eq!(channel.run("true", wait).unwrap(), "");
            let error = channel.run("echo no >&2; exit 4", wait).unwrap_err();
            assert!(matches!(&error, ChannelError::Status { status: 4, stderr, .. } if stderr == "no"), "{error}");
        });
    }

    #[test]
    fn a_late_answer_is_not_taken_for_the_next_one() {
        with_node(|channel| {
            let error = channel.run("sleep 0.5; echo late", Duration::from_millis(50)).unwrap_err();
            assert!(matches!(error, ChannelError::Deadline { .. }), "{error}");
            assert_eq!(channel.run("echo next", Duration::from_secs(20)).unwrap(), "next\n");
        });
    }

    #[test]
    fn a_port_in_a_deep_folder_is_reached() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a".repeat(120));
        std::fs::create_dir(&deep).unwrap();
        // Bound as QEMU does, by a name relative to where it runs.
        let bound = format!("/proc/self/fd/{}/port", std::fs::File::open(&deep).unwrap().into_raw_fd());
        let _listener = UnixListener::bind(bound).unwrap();
        Channel::connect(&deep.join("port")).unwrap();
    }

    #[test]
    fn files_arrive_as_they_were() {
        with_node(|channel| {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("below/file");
            channel.put(path.to_str().unwrap(), "it's \"$HOME\"\n", Duration::from_secs(20)).unwrap();
            assert_eq!(fs_err::read_to_string(path).unwrap(), "it's \"$HOME\"\n");
        });
    }
}
