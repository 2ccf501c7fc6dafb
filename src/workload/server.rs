//! The front of a server: a few threads accept, read one request each and hand it to a handler.

use super::http::{self, Asked};
use super::openai::{self, Answer, Completion};
use super::{WorkloadError, system};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

// Several, so that a client which sends nothing does not hold back a probe.
const ACCEPTORS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(30);

/// What a server answers besides `/health` and `/v1/models`.
pub trait Service: Send + Sync + 'static {
    /// The model's name.
    fn model(&self) -> &str;

    /// Takes over a completion and its connection. It is called on an accepting thread.
    ///
    /// # Errors
    /// The client is gone.
    fn complete(&self, answer: Answer) -> io::Result<()>;

    /// The body of `GET /metrics`, if there is one.
    fn metrics(&self) -> Option<String> {
        None
    }
}

/// Opens the port.
///
/// # Errors
/// It is taken.
pub fn listen(port: u16) -> Result<TcpListener, WorkloadError> {
    TcpListener::bind(("0.0.0.0", port)).map_err(system(format!("listen on port {port}")))
}

/// Starts the accepting threads.
///
/// # Errors
/// A thread could not be started.
pub fn start(listener: &TcpListener, service: &Arc<impl Service>) -> Result<(), WorkloadError> {
    for _ in 0..ACCEPTORS {
        let listener = listener.try_clone().map_err(system("share the listening socket"))?;
        let service = Arc::clone(service);
        let accept = move || {
            loop {
                if let Ok((stream, _)) = listener.accept() {
                    // A client that breaks its connection harms only itself.
                    _ = answer(stream, &*service);
                }
            }
        };
        // Little stack is used, and untouched stack costs nothing.
        std::thread::Builder::new().stack_size(128 << 10).spawn(accept).map_err(system("start a thread"))?;
    }
    Ok(())
}

fn answer(mut stream: TcpStream, service: &impl Service) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let Some(asked) = http::read_request(&mut stream)? else {
        return refuse(&mut stream, "400 Bad Request", "this is not an HTTP/1.1 request");
    };
    let Asked { method, path, .. } = &asked;
    match (method.as_str(), path.as_str()) {
        ("GET", "/health") => http::respond(&mut stream, "200 OK", "text/plain", ""),
        ("GET", "/v1/models") => http::respond(&mut stream, "200 OK", "application/json", &openai::models(service.model())),
        ("GET", "/metrics") if let Some(body) = service.metrics() => {
            http::respond(&mut stream, "200 OK", "text/plain; version=0.0.4; charset=utf-8", &body)
        }
        ("POST", "/v1/completions") => match Completion::parse(&asked) {
            Ok(completion) => service.complete(Answer { completion, stream }),
            Err(problem) => refuse(&mut stream, "400 Bad Request", problem),
        },
        (_, "/health" | "/v1/models" | "/v1/completions") => {
            refuse(&mut stream, "405 Method Not Allowed", "another method is needed here")
        }
        _ => refuse(&mut stream, "404 Not Found", "there is nothing at this path"),
    }
}

/// Answers with an error.
///
/// # Errors
/// The client is gone.
pub fn refuse(stream: &mut TcpStream, status: &str, problem: &str) -> io::Result<()> {
    http::respond(stream, status, "application/json", &openai::bad_request(problem))
}
