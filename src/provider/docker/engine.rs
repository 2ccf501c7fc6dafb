//! A Docker daemon, spoken to by blocking calls through bollard.

use super::{DockerError, Endpoint};
use bollard::errors::Error;
use bollard::{API_DEFAULT_VERSION, Docker};
use serde::Serialize;
use std::future::Future;
use std::time::Duration;
use tokio::runtime::Runtime;

/// An emulated daemon on a busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connected daemon.
pub struct Engine {
    runtime: Runtime,
    docker: Docker,
    endpoint: Endpoint,
}

/// What a daemon says of itself and of the machine it runs on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineFacts {
    /// Where it answers.
    pub endpoint: String,
    /// Engine version.
    pub version: String,
    /// The newest API it speaks.
    pub api: String,
    /// "1" or "2"; "1" as well where v1 and v2 are both mounted.
    pub cgroup_version: String,
    /// Kernel of the machine it runs on.
    pub kernel: String,
    /// Bytes of memory of that machine.
    pub memory: u64,
    /// Containers can be limited in memory.
    pub memory_limit: bool,
    /// Containers can be limited in swap.
    pub swap_limit: bool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Engine {
    /// Connects and settles on an API version.
    ///
    /// # Errors
    /// Nobody is there, the socket is closed to this user, no answer, no Docker.
    pub fn connect(endpoint: &Endpoint) -> Result<Engine, DockerError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (address, seconds) = (endpoint.address.as_str(), PATIENCE.as_secs());
        let docker = match (&endpoint.certificates, address.starts_with("unix://")) {
            (_, true) => Docker::connect_with_unix(address, seconds, API_DEFAULT_VERSION),
            (None, _) => Docker::connect_with_http(address, seconds, API_DEFAULT_VERSION),
            (Some(dir), _) => {
                let file = |name| dir.join(name);
                let (key, certificate, authority) = (file("key.pem"), file("cert.pem"), file("ca.pem"));
                Docker::connect_with_ssl(address, &key, &certificate, &authority, seconds, API_DEFAULT_VERSION)
            }
        };
        let docker = docker.map_err(|error| explain(endpoint, &error))?;
        let docker = within(&runtime, endpoint, docker.negotiate_version())?;
        Ok(Engine { runtime, docker, endpoint: endpoint.clone() })
    }

    /// Where it answers.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// What it says of itself.
    ///
    /// # Errors
    /// No answer, or one that is not Docker's.
    pub fn facts(&self) -> Result<EngineFacts, DockerError> {
        let version = within(&self.runtime, &self.endpoint, self.docker.version())?;
        let info = within(&self.runtime, &self.endpoint, self.docker.info())?;
        let text = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
        Ok(EngineFacts {
            endpoint: self.endpoint.address.clone(),
            version: text(version.version),
            api: text(version.api_version),
            cgroup_version: info.cgroup_version.map_or_else(|| "unknown".to_owned(), |v| v.to_string()),
            kernel: text(info.kernel_version),
            memory: info.mem_total.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0),
            memory_limit: info.memory_limit.unwrap_or(false),
            swap_limit: info.swap_limit.unwrap_or(false),
        })
    }
}

/// Waits for an answer, and for no longer than [`PATIENCE`].
fn within<T>(runtime: &Runtime, endpoint: &Endpoint, call: impl Future<Output = Result<T, Error>>) -> Result<T, DockerError> {
    runtime.block_on(async {
        match tokio::time::timeout(PATIENCE, call).await {
            Ok(answer) => answer.map_err(|error| explain(endpoint, &error)),
            Err(_) => Err(silent(endpoint)),
        }
    })
}

fn silent(endpoint: &Endpoint) -> DockerError {
    DockerError::Silent { address: endpoint.address.clone(), seconds: PATIENCE.as_secs() }
}

/// What an error of bollard means for the user: the system's own reason is at the end of its chain.
fn explain(endpoint: &Endpoint, error: &Error) -> DockerError {
    use std::io::ErrorKind;
    let address = endpoint.address.clone();
    let chain = std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| error.source());
    let (mut kind, mut reason) = (None, error.to_string());
    for cause in chain {
        reason = cause.to_string();
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            kind = Some(io.kind());
        }
    }
    match (error, kind) {
        (Error::RequestTimeoutError, _) => silent(endpoint),
        (Error::SocketNotFoundError(_), _) => DockerError::Nobody { address, reason: "there is no such socket".to_owned() },
        (_, Some(ErrorKind::PermissionDenied)) => DockerError::Permission { address },
        (_, Some(ErrorKind::ConnectionRefused | ErrorKind::NotFound | ErrorKind::HostUnreachable)) => {
            DockerError::Nobody { address, reason }
        }
        _ => DockerError::Refused { address, reason },
    }
}
