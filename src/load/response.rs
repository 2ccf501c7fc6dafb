//! A streamed completion as it arrives: status, chunked coding, server-sent events, tokens.

/// What a piece of the response brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More must come.
    More,
    /// The server answered with a status other than 200.
    Refused(u16),
    /// The stream ended as it should.
    Done,
    /// This is no such response.
    Malformed,
}

/// The parser's state. Feed it what the socket gives, in any pieces.
#[derive(Debug, Default)]
pub struct Response {
    pending: Vec<u8>,
    events: Vec<u8>,
    stage: Stage,
    chunked: bool,
    tokens: u32,
    ended: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Head,
    Size,
    Chunk(usize),
    Plain,
    End,
}

impl Response {
    /// Tokens received so far: events with a non-empty `choices`.
    pub fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Takes a piece.
    pub fn feed(&mut self, piece: &[u8]) -> Progress {
        self.pending.extend_from_slice(piece);
        loop {
            match self.stage {
                Stage::Head => {
                    let Some(end) = find(&self.pending, b"\r\n\r\n") else {
                        return if self.pending.len() > 64 << 10 { Progress::Malformed } else { Progress::More };
                    };
                    let Some((status, chunked)) = parse_head(&self.pending[..end]) else { return Progress::Malformed };
                    if status != 200 {
                        return Progress::Refused(status);
                    }
                    self.pending.drain(..end + 4);
                    self.chunked = chunked;
                    self.stage = if chunked { Stage::Size } else { Stage::Plain };
                }
                Stage::Size => {
                    let Some(end) = find(&self.pending, b"\r\n") else {
                        return if self.pending.len() > 64 { Progress::Malformed } else { Progress::More };
                    };
                    let digits = self.pending[..end].split(|&b| b == b';').next().unwrap_or_default();
                    let size = std::str::from_utf8(digits).ok().and_then(|text| usize::from_str_radix(text.trim(), 16).ok());
                    let Some(size) = size.filter(|size| *size <= 64 << 20) else { return Progress::Malformed };
                    self.pending.drain(..end + 2);
                    self.stage = if size == 0 { Stage::End } else { Stage::Chunk(size) };
                }
                Stage::Chunk(size) => {
                    if self.pending.len() < size + 2 {
                        return Progress::More;
                    }
                    self.events.extend_from_slice(&self.pending[..size]);
                    self.pending.drain(..size + 2);
                    self.stage = Stage::Size;
                    self.take_events();
                }
                Stage::Plain => {
                    self.events.append(&mut self.pending);
                    self.take_events();
                    return if self.ended { Progress::Done } else { Progress::More };
                }
                Stage::End => return if self.ended { Progress::Done } else { Progress::Malformed },
            }
        }
    }

    fn take_events(&mut self) {
        while let Some(end) = find(&self.events, b"\n\n") {
            for line in self.events[..end].split(|&b| b == b'\n') {
                let Some(data) = line.strip_prefix(b"data:") else { continue };
                match data.trim_ascii() {
                    b"[DONE]" => self.ended = true,
                    data => self.tokens += u32::from(has_choices(data)),
                }
            }
            self.events.drain(..end + 2);
        }
    }
}

// An event is a token when its choices are not empty; with the usage asked for, a last event has none.
fn has_choices(data: &[u8]) -> bool {
    let Some(at) = find(data, b"\"choices\"") else { return false };
    let rest = data[at + 9..].trim_ascii_start();
    let Some(rest) = rest.strip_prefix(b":") else { return false };
    let Some(rest) = rest.trim_ascii_start().strip_prefix(b"[") else { return false };
    !rest.trim_ascii_start().starts_with(b"]")
}

fn parse_head(head: &[u8]) -> Option<(u16, bool)> {
    let head = std::str::from_utf8(head).ok()?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    if !words.next()?.starts_with("HTTP/1.") {
        return None;
    }
    let status = words.next()?.parse().ok()?;
    let chunked = lines
        .filter_map(|line| line.split_once(':'))
        .any(|(name, value)| name.eq_ignore_ascii_case("transfer-encoding") && value.trim().eq_ignore_ascii_case("chunked"));
    Some((status, chunked))
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::http;
    use proptest::prelude::*;

    fn stream(tokens: u32) -> Vec<u8> {
        let mut out = Vec::new();
        http::begin_events(&mut out).unwrap();
        for _ in 0..tokens {
            http::event(&mut out, r#"{"id":"cmpl-1","choices":[{"index":0,"text":" w"}]}"#).unwrap();
        }
        http::event(&mut out, r#"{"id":"cmpl-1","choices":[],"usage":{}}"#).unwrap();
        http::event(&mut out, "[DONE]").unwrap();
        http::end_events(&mut out).unwrap();
        out
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(tokens in 1u32..6, cuts in proptest::collection::vec(1usize..40, 1..80)) {
            let bytes = stream(tokens);
            let mut response = Response::default();
            let mut at = 0;
            let mut cuts = cuts.into_iter().cycle();
            let mut last = Progress::More;
            while at < bytes.len() {
                if last != Progress::More {
                    // The empty line after the last chunk carries nothing.
                    prop_assert!(last == Progress::Done && bytes.len() - at <= 2);
                    break;
                }
                let end = (at + cuts.next().unwrap()).min(bytes.len());
                last = response.feed(&bytes[at..end]);
                at = end;
            }
            prop_assert_eq!(last, Progress::Done);
            prop_assert_eq!(response.tokens(), tokens);
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300), flip in any::<usize>(), to in any::<u8>()) {
            Response::default().feed(&bytes);
            let mut damaged = stream(2);
            let at = flip % damaged.len();
            damaged[at] = to;
            Response::default().feed(&damaged);
        }
    }

    #[test]
    fn other_answers() {
        assert_eq!(
            Response::default().feed(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"),
            Progress::Refused(503)
        );
        assert_eq!(Response::default().feed(b"SMTP ready\r\n\r\n"), Progress::Malformed);
        let plain = b"HTTP/1.1 200 OK\r\n\r\ndata: {\"choices\": [ {} ]}\n\ndata: [DONE]\n\n";
        let mut response = Response::default();
        assert_eq!((response.feed(plain), response.tokens()), (Progress::Done, 1));
        let cut = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
        assert_eq!(Response::default().feed(cut), Progress::Malformed, "it ended without [DONE]");
    }
}
