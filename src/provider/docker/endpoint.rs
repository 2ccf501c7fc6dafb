//! Where Docker is to be looked for: as the user said it, and as an address.

use serde::Serialize;
use std::path::PathBuf;
use std::str::FromStr;

/// Docker's own socket.
const LOCAL: &str = "unix:///var/run/docker.sock";

/// What the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// `DOCKER_HOST` when it is set, else the local socket: what the docker command does.
    Default,
    /// The local socket, whatever `DOCKER_HOST` says.
    Local,
    /// This address.
    At(String),
    /// A daemon in a VM of its own.
    Throwaway,
}

/// An address that can be connected to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// `unix://PATH` or `tcp://HOST:PORT`.
    pub address: String,
    /// A folder with `ca.pem`, `cert.pem` and `key.pem`, where both sides show a certificate.
    pub certificates: Option<PathBuf>,
}

/// Why an address cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Its scheme is none of those spoken.
    #[error(
        "{0} is no Docker endpoint: give local, throwaway, unix://SOCKET or tcp://HOST:PORT \
         (for ssh: ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST, then unix:///tmp/docker.sock)"
    )]
    Scheme(String),
    /// TLS was asked for and the folder is unknown.
    #[error("DOCKER_TLS_VERIFY is set: set DOCKER_CERT_PATH to the folder with ca.pem, cert.pem and key.pem")]
    Certificates,
}

impl FromStr for Wanted {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Wanted, EndpointError> {
        match text {
            "local" => Ok(Wanted::Local),
            "throwaway" => Ok(Wanted::Throwaway),
            address => scheme(address).map(|()| Wanted::At(address.to_owned())),
        }
    }
}

impl Wanted {
    /// The address; none for [`Wanted::Throwaway`], whose address is known when it runs. `variable` reads the environment.
    ///
    /// # Errors
    /// `DOCKER_HOST` cannot be used, or TLS is wanted without certificates.
    pub fn endpoint(&self, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Endpoint>, EndpointError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let address = match self {
            Wanted::Throwaway => return Ok(None),
            Wanted::Local => LOCAL.to_owned(),
            Wanted::At(address) => address.clone(),
            Wanted::Default => set("DOCKER_HOST").unwrap_or_else(|| LOCAL.to_owned()),
        };
        scheme(&address)?;
        let tls = address.starts_with("tcp://") && set("DOCKER_TLS_VERIFY").is_some();
        let certificates = tls.then(|| set("DOCKER_CERT_PATH").map(PathBuf::from).ok_or(EndpointError::Certificates));
        Ok(Some(Endpoint { address, certificates: certificates.transpose()? }))
    }
}

fn scheme(address: &str) -> Result<(), EndpointError> {
    let spoken = ["unix://", "tcp://"].iter().any(|s| address.strip_prefix(s).is_some_and(|rest| !rest.is_empty()));
    if spoken { Ok(()) } else { Err(EndpointError::Scheme(address.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(wanted: &Wanted, set: &[(&str, &str)]) -> Result<Option<Endpoint>, EndpointError> {
        wanted.endpoint(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn docker_host_is_honoured_unless_another_place_is_named() {
        let address = |wanted: &str, set: &[(&str, &str)]| {
            let wanted = if wanted.is_empty() { Wanted::Default } else { wanted.parse().unwrap() };
            resolve(&wanted, set).unwrap().map(|endpoint| endpoint.address)
        };
        let host = [("DOCKER_HOST", "tcp://10.0.0.1:2375")];
        assert_eq!(address("", &[]).as_deref(), Some(LOCAL));
        assert_eq!(address("", &[("DOCKER_HOST", "")]).as_deref(), Some(LOCAL), "an empty variable is none");
        assert_eq!(address("", &host).as_deref(), Some("tcp://10.0.0.1:2375"));
        assert_eq!(address("local", &host).as_deref(), Some(LOCAL));
        assert_eq!(address("unix:///x", &host).as_deref(), Some("unix:///x"));
        assert_eq!(address("throwaway", &host), None);
    }

    #[test]
    fn certificates_go_with_tcp_only_and_must_be_named() {
        let tls = [("DOCKER_TLS_VERIFY", "1"), ("DOCKER_CERT_PATH", "/c")];
        let at = |address: &str, set: &[(&str, &str)]| resolve(&address.parse().unwrap(), set).map(|e| e.unwrap().certificates);
        assert_eq!(at("tcp://h:2376", &tls), Ok(Some("/c".into())));
        assert_eq!(at("unix:///x", &tls), Ok(None));
        assert_eq!(at("tcp://h:2375", &tls[1..]), Ok(None));
        assert_eq!(at("tcp://h:2376", &tls[..1]), Err(EndpointError::Certificates));
    }

    #[test]
    fn what_cannot_be_spoken_is_refused_with_what_can() {
        for address in ["ssh://h", "h:2375", "unix://", ""] {
            let error = address.parse::<Wanted>().unwrap_err().to_string();
            assert!(error.contains("tcp://HOST:PORT"), "{error}");
        }
        assert!(resolve(&Wanted::Default, &[("DOCKER_HOST", "ssh://h")]).is_err());
    }
}
