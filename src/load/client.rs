//! The client: one thread executes one open-loop schedule over non-blocking sockets and sleeps until something is due.

use super::response::{Progress, Response};
use crate::record::{Arrival, LoadOrder, Outcome, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Reads CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// When a schedule runs. Times are CLOCK_MONOTONIC nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Span<'a> {
    /// The phase's name, for the records.
    pub phase: &'a str,
    /// What records count from.
    pub epoch_ns: u64,
    /// What arrivals count from.
    pub start_ns: u64,
    /// Readable when the phase has ended.
    pub stop: BorrowedFd<'a>,
}

/// A server could not even be tried.
#[derive(Debug, thiserror::Error)]
#[error("load {load}: cannot {what}: {source}")]
pub struct ClientError {
    load: String,
    what: &'static str,
    source: std::io::Error,
}

/// Executes an order's schedule against the server on this network namespace's loopback and reports every request that became due. Returns
/// when all are answered, or when the phase has ended.
///
/// # Errors
/// The system has no socket or cannot poll.
pub fn execute(order: &LoadOrder, span: Span<'_>, report: &mut dyn FnMut(Request)) -> Result<(), ClientError> {
    let mut client = Client { order, span, waiting: VecDeque::new(), flights: Vec::new(), next: 0, report };
    client.run().map_err(|(what, source)| ClientError { load: order.name.clone(), what, source: source.into() })
}

type Failed = (&'static str, Errno);

struct Client<'a> {
    order: &'a LoadOrder,
    span: Span<'a>,
    waiting: VecDeque<usize>,
    flights: Vec<Flight>,
    next: usize,
    report: &'a mut dyn FnMut(Request),
}

struct Flight {
    seq: usize,
    sent_ns: u64,
    socket: OwnedFd,
    request: Vec<u8>,
    written: usize,
    response: Response,
    first_ns: Option<u64>,
    last_ns: u64,
    gaps_ns: Vec<u64>,
}

impl Client<'_> {
    fn run(&mut self) -> Result<(), Failed> {
        loop {
            let now = monotonic_ns();
            self.expire(now);
            self.launch(now)?;
            let wake = self.next_wake();
            if wake.is_none() && self.flights.is_empty() {
                return Ok(());
            }
            let (stopped, ready) = self.wait(wake)?;
            if stopped {
                self.abandon();
                return Ok(());
            }
            self.progress(&ready);
        }
    }

    fn due_ns(&self, seq: usize) -> u64 {
        self.span.start_ns + self.order.arrivals[seq].at_ns
    }

    fn next_wake(&self) -> Option<u64> {
        let arrival = (self.next < self.order.arrivals.len()).then(|| self.due_ns(self.next));
        self.flights.iter().map(|flight| flight.sent_ns + self.order.timeout_ns).chain(arrival).min()
    }

    fn launch(&mut self, now: u64) -> Result<(), Failed> {
        while self.next < self.order.arrivals.len() && self.due_ns(self.next) <= now {
            self.waiting.push_back(self.next);
            self.next += 1;
        }
        let cap = self.order.concurrency.map_or(usize::MAX, |cap| cap as usize);
        while self.flights.len() < cap
            && let Some(seq) = self.waiting.pop_front()
        {
            let sent_ns = monotonic_ns();
            let socket = rustix::net::socket_with(
                AddressFamily::INET,
                SocketType::STREAM,
                SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
                None,
            )
            .map_err(|e| ("open a socket", e))?;
            sockopt::set_tcp_nodelay(&socket, true).map_err(|e| ("set up a socket", e))?;
            let request = request_text(self.order.port, self.order.arrivals[seq]);
            let flight = Flight {
                seq,
                sent_ns,
                socket,
                request,
                written: 0,
                response: Response::default(),
                first_ns: None,
                last_ns: 0,
                gaps_ns: Vec::new(),
            };
            match rustix::net::connect(&flight.socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.order.port)) {
                Ok(()) | Err(Errno::INPROGRESS) => self.flights.push(flight),
                Err(errno) => self.end(flight, broken(errno)),
            }
        }
        Ok(())
    }

    fn wait(&self, wake: Option<u64>) -> Result<(bool, Vec<bool>), Failed> {
        let mut polled = Vec::with_capacity(self.flights.len() + 1);
        polled.push(PollFd::from_borrowed_fd(self.span.stop, PollFlags::IN));
        for flight in &self.flights {
            let events = if flight.written < flight.request.len() { PollFlags::OUT } else { PollFlags::IN };
            polled.push(PollFd::from_borrowed_fd(flight.socket.as_fd(), events));
        }
        let timeout = wake.map(|wake| {
            let left = wake.saturating_sub(monotonic_ns());
            Timespec { tv_sec: (left / 1_000_000_000).cast_signed(), tv_nsec: (left % 1_000_000_000).cast_signed() }
        });
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(("wait for the server", errno)),
        }
        let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
        Ok((ready.next().unwrap_or(false), ready.collect()))
    }

    fn progress(&mut self, ready: &[bool]) {
        // From the back, so that removal does not move what is still to be seen; reported in order of sending all the same.
        let mut ended = Vec::new();
        for index in (0..ready.len()).rev().filter(|index| ready[*index]) {
            if let Some(outcome) = self.flights[index].advance() {
                ended.push((self.flights.remove(index), outcome));
            }
        }
        for (flight, outcome) in ended.into_iter().rev() {
            self.end(flight, outcome);
        }
    }

    fn expire(&mut self, now: u64) {
        let timeout_ns = self.order.timeout_ns;
        while let Some(index) = self.flights.iter().position(|flight| flight.sent_ns + timeout_ns <= now) {
            let flight = self.flights.remove(index);
            self.end(flight, Outcome::Timeout);
        }
    }

    fn abandon(&mut self) {
        for flight in std::mem::take(&mut self.flights) {
            self.end(flight, Outcome::Unfinished);
        }
        let now = monotonic_ns();
        while self.next < self.order.arrivals.len() && self.due_ns(self.next) <= now {
            self.waiting.push_back(self.next);
            self.next += 1;
        }
        for seq in std::mem::take(&mut self.waiting) {
            let request = self.record(seq, now, Outcome::Unfinished);
            (self.report)(request);
        }
    }

    fn record(&self, seq: usize, done_ns: u64, outcome: Outcome) -> Request {
        Request {
            load: self.order.name.clone(),
            phase: self.span.phase.to_owned(),
            seq: u32::try_from(seq).unwrap_or(u32::MAX),
            scheduled_ns: self.due_ns(seq) - self.span.epoch_ns,
            sent_ns: None,
            first_token_ns: None,
            done_ns: done_ns - self.span.epoch_ns,
            outcome,
            tokens: 0,
            gaps_ns: Vec::new(),
        }
    }

    fn end(&mut self, flight: Flight, outcome: Outcome) {
        let epoch_ns = self.span.epoch_ns;
        let request = Request {
            sent_ns: Some(flight.sent_ns - epoch_ns),
            first_token_ns: flight.first_ns.map(|at| at - epoch_ns),
            tokens: flight.response.tokens(),
            gaps_ns: flight.gaps_ns,
            ..self.record(flight.seq, monotonic_ns(), outcome)
        };
        (self.report)(request);
    }
}

impl Flight {
    // Some when it ended.
    fn advance(&mut self) -> Option<Outcome> {
        if self.written < self.request.len() {
            match sockopt::socket_error(&self.socket) {
                Ok(Ok(())) => {}
                Ok(Err(errno)) | Err(errno) => return Some(broken(errno)),
            }
            match rustix::net::send(&self.socket, &self.request[self.written..], SendFlags::NOSIGNAL) {
                Ok(n) => self.written += n,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Some(broken(errno)),
            }
            return None;
        }
        let mut piece = [0; 16 << 10];
        match rustix::io::read(&self.socket, &mut piece[..]) {
            Ok(0) => Some(Outcome::Reset),
            Ok(n) => self.take(&piece[..n]),
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(errno) => Some(broken(errno)),
        }
    }

    fn take(&mut self, piece: &[u8]) -> Option<Outcome> {
        let before = self.response.tokens();
        let progress = self.response.feed(piece);
        let now = monotonic_ns();
        for _ in before..self.response.tokens() {
            match self.first_ns {
                None => self.first_ns = Some(now),
                Some(_) => self.gaps_ns.push(now - self.last_ns),
            }
            self.last_ns = now;
        }
        match progress {
            Progress::More => None,
            Progress::Done => Some(Outcome::Ok),
            Progress::Refused(status) => Some(Outcome::Status(status)),
            Progress::Malformed => Some(Outcome::Reset),
        }
    }
}

fn broken(errno: Errno) -> Outcome {
    if errno == Errno::CONNREFUSED { Outcome::Refused } else { Outcome::Reset }
}

fn request_text(port: u16, arrival: Arrival) -> Vec<u8> {
    let prompt = " w".repeat(arrival.prompt_tokens as usize);
    let body = format!(r#"{{"prompt":"{prompt}","max_tokens":{},"stream":true}}"#, arrival.output_tokens.max(1));
    let length = body.len();
    format!(
        "POST /v1/completions HTTP/1.1\r\nhost: localhost:{port}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::http;
    use rustix::event::{EventfdFlags, eventfd};
    use std::net::TcpListener;

    fn order(port: u16, at_ms: &[u64], concurrency: Option<u32>, timeout_ms: u64) -> LoadOrder {
        let arrival = |at: &u64| Arrival { at_ns: at * 1_000_000, prompt_tokens: 3, output_tokens: 2 };
        let arrivals = at_ms.iter().map(arrival).collect();
        LoadOrder { name: "l".into(), pod: "p".into(), port, arrivals, concurrency, timeout_ns: timeout_ms * 1_000_000 }
    }

    fn execute_now(order: &LoadOrder, stop: &OwnedFd) -> Vec<Request> {
        let start_ns = monotonic_ns();
        let span = Span { phase: "steady", epoch_ns: start_ns, start_ns, stop: stop.as_fd() };
        let mut requests = Vec::new();
        execute(order, span, &mut |request| requests.push(request)).unwrap();
        requests
    }

    fn never() -> OwnedFd {
        eventfd(0, EventfdFlags::empty()).unwrap()
    }

    // A server that answers the n-th connection with what `script` says.
    fn server(script: &'static [&'static str]) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            for what in script {
                let (mut stream, _) = listener.accept().unwrap();
                let asked = http::read_request(&mut stream).unwrap().unwrap();
                assert_eq!(asked.body, br#"{"prompt":" w w w","max_tokens":2,"stream":true}"#);
                match *what {
                    "silence" => silent.push(stream),
                    "status" => http::respond(&mut stream, "503 Service Unavailable", "text/plain", "").unwrap(),
                    what => {
                        http::begin_events(&mut stream).unwrap();
                        http::event(&mut stream, r#"{"choices":[{"text":" w"}]}"#).unwrap();
                        if what == "all" {
                            http::event(&mut stream, r#"{"choices":[{"text":" w"}]}"#).unwrap();
                            http::event(&mut stream, "[DONE]").unwrap();
                            http::end_events(&mut stream).unwrap();
                        }
                    }
                }
            }
            // The listener closes here; what was silent stays open until then.
            drop(listener);
            std::thread::park();
        });
        port
    }

    #[test]
    fn every_way_to_end() {
        let port = server(&["all", "status", "cut", "silence"]);
        let requests = execute_now(&order(port, &[0, 100, 200, 300, 400], Some(1), 60), &never());
        let outcomes: Vec<_> = requests.iter().map(|r| r.outcome.clone()).collect();
        use Outcome::{Ok, Refused, Reset, Status, Timeout};
        assert_eq!(outcomes, [Ok, Status(503), Reset, Timeout, Refused]);
        assert_eq!((requests[0].tokens, requests[0].gaps_ns.len(), requests[2].tokens), (2, 1, 1));
        assert!(requests[0].first_token_ns >= requests[0].sent_ns);
        assert_eq!(requests[3].scheduled_ns, 300_000_000);
        assert!(requests[3].done_ns >= requests[3].sent_ns.unwrap() + 60_000_000);
    }

    #[test]
    fn a_phase_that_ends_leaves_requests_unfinished() {
        let port = server(&["silence"]);
        let stop = never();
        let ender = stop.try_clone().unwrap();
        let order = order(port, &[0, 0, 3_600_000], Some(1), 10_000);
        let requests = std::thread::scope(|scope| {
            scope.spawn(move || {
                let _ = rustix::thread::nanosleep(&Timespec { tv_sec: 0, tv_nsec: 50_000_000 });
                rustix::io::write(&ender, &1u64.to_ne_bytes()).unwrap();
            });
            execute_now(&order, &stop)
        });
        assert_eq!(requests.len(), 2, "what was never due is not reported");
        assert!(requests.iter().all(|r| r.outcome == Outcome::Unfinished));
        assert_eq!((requests[0].sent_ns.is_some(), requests[1].sent_ns), (true, None), "the second waited for the cap");
    }
}
