//! The OpenAI completions interface as vLLM speaks it: what is asked, and how tokens are answered.

use super::http::{self, Asked};
use serde_json::Value;
use std::io;
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

/// A completion that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Tokens of the prompt: words of a text, or items of a list.
    pub prompt_tokens: u32,
    /// Tokens to generate.
    pub max_tokens: u32,
    /// Tokens as events as they come, or one answer at the end.
    pub events: bool,
    /// A last event with the usage.
    pub usage: bool,
}

impl Completion {
    /// Reads the body of `POST /v1/completions`.
    ///
    /// # Errors
    /// What is wrong with it, for a 400.
    pub fn parse(asked: &Asked) -> Result<Completion, &'static str> {
        let body: Value = serde_json::from_slice(&asked.body).map_err(|_| "the body is not JSON")?;
        let prompt_tokens = match &body["prompt"] {
            Value::String(text) => text.split_whitespace().count(),
            Value::Array(tokens) => tokens.len(),
            _ => return Err("prompt must be a text or a list of tokens"),
        };
        let max_tokens = match &body["max_tokens"] {
            Value::Null => 16,
            number => number.as_u64().filter(|n| *n > 0).ok_or("max_tokens must be a whole number of at least 1")?,
        };
        let flag = |value: &Value| value.as_bool().unwrap_or(false);
        let clip = |n: u64| u32::try_from(n).map_err(|_| "max_tokens and prompt must be below 2^32");
        Ok(Completion {
            prompt_tokens: clip(prompt_tokens as u64)?,
            max_tokens: clip(max_tokens)?,
            events: flag(&body["stream"]),
            usage: flag(&body["stream_options"]["include_usage"]),
        })
    }
}

/// A connection on which a completion is answered.
#[derive(Debug)]
pub struct Answer {
    /// What was asked for.
    pub completion: Completion,
    /// The connection.
    pub stream: TcpStream,
}

impl Answer {
    /// Sends the `number`-th token, from 1, and after the last one the end.
    ///
    /// # Errors
    /// The client is gone.
    pub fn token(&mut self, id: u64, model: &str, number: u32) -> io::Result<()> {
        let Completion { prompt_tokens, max_tokens, events, usage } = self.completion;
        let last = number >= max_tokens;
        let created = unix_seconds();
        let head = format!(r#"{{"id":"cmpl-{id}","object":"text_completion","created":{created},"model":"{model}""#);
        let counts = format!(
            r#""usage":{{"prompt_tokens":{prompt_tokens},"total_tokens":{},"completion_tokens":{number}}}"#,
            prompt_tokens.saturating_add(number)
        );
        let choice = |text: &str| {
            let reason = if last { r#""length""# } else { "null" };
            format!(r#"{{"index":0,"text":"{text}","logprobs":null,"finish_reason":{reason},"stop_reason":null}}"#)
        };
        let stream = &mut self.stream;
        if events {
            if number == 1 {
                http::begin_events(stream)?;
            }
            http::event(stream, &format!(r#"{head},"choices":[{}]}}"#, choice(" w")))?;
            if last {
                if usage {
                    http::event(stream, &format!(r#"{head},"choices":[],{counts}}}"#))?;
                }
                http::event(stream, "[DONE]")?;
                http::end_events(stream)?;
            }
        } else if last {
            let text = " w".repeat(number as usize);
            http::respond(stream, "200 OK", "application/json", &format!(r#"{head},"choices":[{}],{counts}}}"#, choice(&text)))?;
        }
        Ok(())
    }
}

/// The body of `GET /v1/models`.
pub fn models(model: &str) -> String {
    format!(r#"{{"object":"list","data":[{{"id":"{model}","object":"model","created":0,"owned_by":"highwater"}}]}}"#)
}

/// The body of a 400.
pub fn bad_request(message: &str) -> String {
    format!(r#"{{"error":{{"message":"{message}","type":"BadRequestError","param":null,"code":400}}}}"#)
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Result<Completion, &'static str> {
        Completion::parse(&Asked { method: "POST".into(), path: "/v1/completions".into(), body: body.into() })
    }

    #[test]
    fn bodies() {
        let all = parse(r#"{"prompt":" w w w","max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}"#);
        assert_eq!(all, Ok(Completion { prompt_tokens: 3, max_tokens: 2, events: true, usage: true }));
        assert_eq!(parse(r#"{"prompt":[1,2]}"#).map(|c| (c.prompt_tokens, c.max_tokens)), Ok((2, 16)));
        assert_eq!(parse(r#"{"prompt":"a","max_tokens":0}"#), Err("max_tokens must be a whole number of at least 1"));
        assert_eq!(parse(r#"{"prompt":7}"#), Err("prompt must be a text or a list of tokens"));
        assert_eq!(parse("{"), Err("the body is not JSON"));
    }
}
