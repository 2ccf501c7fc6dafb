//! The server: a few threads accept and parse; completions go to the engine, the rest is answered at once.

use super::engine::{Engine, Job};
use crate::workload::http::{self, Asked};
use crate::workload::{WorkloadError, system};
use serde_json::Value;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

// Several, so that a client which sends nothing does not hold back a probe.
const ACCEPTORS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(30);

/// Serves for ever; this thread becomes the engine.
pub fn serve(listener: &TcpListener, engine: &Arc<Engine>) -> Result<(), WorkloadError> {
    for _ in 0..ACCEPTORS {
        let listener = listener.try_clone().map_err(system("share the listening socket"))?;
        let engine = Arc::clone(engine);
        // Little stack is used, and untouched stack costs nothing.
        let accept = move || {
            loop {
                if let Ok((stream, _)) = listener.accept() {
                    // A client that breaks its connection harms only itself.
                    _ = answer(stream, &engine);
                }
            }
        };
        std::thread::Builder::new().stack_size(128 << 10).spawn(accept).map_err(system("start a thread"))?;
    }
    engine.run();
    Ok(())
}

fn answer(mut stream: TcpStream, engine: &Engine) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let Some(asked) = http::read_request(&mut stream)? else {
        return http::respond(&mut stream, "400 Bad Request", "application/json", &error("this is not an HTTP/1.1 request"));
    };
    match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", "/health") => http::respond(&mut stream, "200 OK", "text/plain", ""),
        ("GET", "/v1/models") => {
            let model = &engine.settings.model;
            let body =
                format!(r#"{{"object":"list","data":[{{"id":"{model}","object":"model","created":0,"owned_by":"highwater"}}]}}"#);
            http::respond(&mut stream, "200 OK", "application/json", &body)
        }
        ("POST", "/v1/completions") => match completion(&asked) {
            Ok((prompt_tokens, max_tokens, events, usage)) => {
                engine.submit(Job { stream, prompt_tokens, max_tokens, events, usage });
                Ok(())
            }
            Err(problem) => http::respond(&mut stream, "400 Bad Request", "application/json", &error(problem)),
        },
        (_, "/health" | "/v1/models" | "/v1/completions") => {
            http::respond(&mut stream, "405 Method Not Allowed", "application/json", &error("another method is needed here"))
        }
        _ => http::respond(&mut stream, "404 Not Found", "application/json", &error("there is nothing at this path")),
    }
}

fn completion(asked: &Asked) -> Result<(u32, u32, bool, bool), &'static str> {
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
    Ok((clip(prompt_tokens as u64)?, clip(max_tokens)?, flag(&body["stream"]), flag(&body["stream_options"]["include_usage"])))
}

fn error(message: &str) -> String {
    format!(r#"{{"error":{{"message":"{message}","type":"BadRequestError","param":null,"code":400}}}}"#)
}
