//! The little of HTTP/1.1 that a server here needs: one request per connection, answered whole or as a stream of events.

use std::io::{self, Read, Write};

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// GET, POST, …
    pub method: String,
    /// The path without its query.
    pub path: String,
    /// The body, as long as Content-Length says.
    pub body: Vec<u8>,
}

const LARGEST_HEAD: usize = 16 << 10;
const LARGEST_BODY: usize = 16 << 20;

/// What the first bytes of a connection are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// More is needed.
    Partial,
    /// Not HTTP, or too large.
    Bad,
    /// A request.
    Whole(Asked),
}

/// Looks for a whole request in what has been received.
pub fn parse_request(received: &[u8]) -> Parsed {
    let Some(end) = received.windows(4).position(|w| w == b"\r\n\r\n") else {
        return if received.len() > LARGEST_HEAD { Parsed::Bad } else { Parsed::Partial };
    };
    let Ok(head) = std::str::from_utf8(&received[..end]) else { return Parsed::Bad };
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next()) else { return Parsed::Bad };
    if !version.starts_with("HTTP/1.") || words.next().is_some() {
        return Parsed::Bad;
    }
    let mut length = 0;
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { return Parsed::Bad };
        if name.eq_ignore_ascii_case("content-length") {
            let Ok(number) = value.trim().parse::<usize>() else { return Parsed::Bad };
            length = number;
        }
    }
    if length > LARGEST_BODY {
        return Parsed::Bad;
    }
    match received.get(end + 4..end + 4 + length) {
        None => Parsed::Partial,
        Some(body) => Parsed::Whole(Asked {
            method: method.to_owned(),
            path: target.split('?').next().unwrap_or_default().to_owned(),
            body: body.to_vec(),
        }),
    }
}

/// Reads a request; None when the peer went away or sent something else.
pub fn read_request(from: &mut impl Read) -> io::Result<Option<Asked>> {
    let mut received = Vec::new();
    let mut part = [0; 4096];
    loop {
        let n = from.read(&mut part)?;
        received.extend_from_slice(&part[..n]);
        match parse_request(&received) {
            Parsed::Whole(asked) => return Ok(Some(asked)),
            Parsed::Bad => return Ok(None),
            Parsed::Partial if n == 0 => return Ok(None),
            Parsed::Partial => {}
        }
    }
}

/// Answers with a whole body and ends the connection.
pub fn respond(to: &mut impl Write, status: &str, content_type: &str, body: &str) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    to.write_all(&[head.as_bytes(), body.as_bytes()].concat())
}

/// Begins a stream of server-sent events.
pub fn begin_events(to: &mut impl Write) -> io::Result<()> {
    to.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n")
}

/// Sends one event as one chunk.
pub fn event(to: &mut impl Write, data: &str) -> io::Result<()> {
    to.write_all(format!("{:x}\r\ndata: {data}\n\n\r\n", data.len() + 8).as_bytes())
}

/// Ends a stream of events.
pub fn end_events(to: &mut impl Write) -> io::Result<()> {
    to.write_all(b"0\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests() {
        let text = b"POST /v1/completions?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}rest";
        let asked = Asked { method: "POST".into(), path: "/v1/completions".into(), body: b"{}".to_vec() };
        assert_eq!(parse_request(text), Parsed::Whole(asked));
        assert_eq!(parse_request(&text[..text.len() - 5]), Parsed::Partial);
        assert_eq!(parse_request(b"GET / HTTP/2\r\n\r\n"), Parsed::Bad);
        assert_eq!(parse_request(b"GET / HTTP/1.1\r\ncontent-length: -1\r\n\r\n"), Parsed::Bad);
        assert_eq!(parse_request(&[b'a'; LARGEST_HEAD + 1]), Parsed::Bad);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..80) {
            parse_request(&bytes);
            let whole = b"GET /health HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc";
            let parsed = parse_request(&whole[..cut.min(whole.len())]);
            prop_assert_eq!(matches!(parsed, Parsed::Whole(_)), cut >= whole.len());
        }

        #[test]
        fn bodies_come_back(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut text = format!("POST /a HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
            text.extend_from_slice(&body);
            let read = read_request(&mut &text[..]).unwrap();
            prop_assert_eq!(read.map(|asked| asked.body), Some(body));
        }
    }
}
