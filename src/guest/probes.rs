//! Probes under way: HTTP and TCP over non-blocking sockets in the pod's network.

use super::namespaces::Network;
use crate::agent::ProbeRole;
use crate::record::{Probe, ProbeKind};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Whose probe it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// The pod's position.
    pub pod: usize,
    /// The container's.
    pub container: usize,
    /// Its attempt.
    pub attempt: u32,
    /// Which probe.
    pub role: ProbeRole,
}

/// A probe that waits for an answer.
#[derive(Debug)]
pub struct InFlight {
    /// Whose it is.
    pub asker: Asker,
    /// When it counts as failed, on the recorder's clock.
    pub deadline_ns: u64,
    /// Its socket was seen to be ready.
    pub ready: bool,
    socket: OwnedFd,
    request: Option<String>,
    sent: bool,
    answer: Vec<u8>,
}

impl InFlight {
    /// Sends a probe; the answer may be there at once, for example a refused connection.
    ///
    /// # Errors
    /// The system has no socket: the guest's failure, not the container's.
    pub fn launch(asker: Asker, probe: &Probe, network: &Network, now_ns: u64) -> io::Result<Result<InFlight, bool>> {
        let (port, request) = match &probe.kind {
            ProbeKind::Tcp { port } => (*port, None),
            ProbeKind::Http { path, port } => {
                let agent = "kube-probe/1.37";
                let head = format!(
                    "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: {agent}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
                );
                (*port, Some(head))
            }
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = network.within(|| Ok(rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?))?;
        let deadline_ns = now_ns + u64::from(probe.timeout_s.max(1)) * crate::agent::SECOND;
        match rustix::net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(_) => return Ok(Err(false)),
        }
        Ok(Ok(InFlight { asker, deadline_ns, ready: false, socket, request, sent: false, answer: Vec::new() }))
    }

    /// The socket, and whether it waits to write rather than to read.
    pub fn interest(&self) -> (BorrowedFd<'_>, bool) {
        (self.socket.as_fd(), !self.sent)
    }

    /// Goes on when the socket is ready; Some when the probe has a result.
    pub fn advance(&mut self) -> Option<bool> {
        if !self.sent {
            if !matches!(sockopt::socket_error(&self.socket), Ok(Ok(()))) {
                return Some(false);
            }
            let Some(request) = &self.request else { return Some(true) };
            // A request is far smaller than an empty socket's buffer, so it goes out whole.
            self.sent =
                rustix::net::send(&self.socket, request.as_bytes(), SendFlags::NOSIGNAL).is_ok_and(|n| n == request.len());
            return if self.sent { None } else { Some(false) };
        }
        let mut piece = [0; 1024];
        match rustix::io::read(&self.socket, &mut piece[..]) {
            Ok(0) => Some(false),
            Ok(n) => {
                self.answer.extend_from_slice(&piece[..n]);
                status(&self.answer)
            }
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(_) => Some(false),
        }
    }
}

// 200 to 399 is a success (`probe/http.DoHTTPProbe`); None until the status line is whole.
fn status(answer: &[u8]) -> Option<bool> {
    let end = answer.windows(2).position(|w| w == b"\r\n")?;
    let line = std::str::from_utf8(&answer[..end]).unwrap_or_default();
    let code = line.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)).and_then(|code| code.parse::<u16>().ok());
    Some(code.is_some_and(|code| (200..400).contains(&code)))
}

#[cfg(test)]
mod tests {
    use super::status;

    #[test]
    fn statuses() {
        assert_eq!(status(b"HTTP/1.1 200 O"), None);
        for (line, success) in
            [("HTTP/1.1 200 OK", true), ("HTTP/1.0 399 x", true), ("HTTP/1.1 503 x", false), ("SMTP 200", false), ("", false)]
        {
            assert_eq!(status(format!("{line}\r\n").as_bytes()), Some(success), "{line}");
        }
    }
}
