//! The control plane beside the node: etcd and the API server as host processes on loopback, with throwaway certificates.
//!
//! Pods that name their node need no scheduler, and pods that nobody else owns need no controller.

use super::VmError;
use super::pki::{Authority, Pair, TokenKey, kubeconfig};
use super::process::Daemon;
use crate::provider::image::Image;
use crate::provider::lease::Lease;
use fs_err as fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The host as the node sees it through QEMU's user network.
const HOST_SEEN_FROM_NODE: &str = "10.0.2.2";

/// A running control plane. Dropping it ends its processes.
#[derive(Debug)]
pub struct ControlPlane {
    authority: Authority,
    port: u16,
    admin: Pair,
    api_server: Daemon,
    etcd: Daemon,
}

impl ControlPlane {
    /// Starts etcd and the API server; neither is waited for. Everything they write goes below `dir`.
    ///
    /// # Errors
    /// A program cannot be started, a file cannot be written.
    pub fn start(image: &Image, dir: &Path, lease: &Lease) -> Result<ControlPlane, VmError> {
        fs::create_dir_all(dir)?;
        fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))?;
        let [client_port, peer_port, port] = free_ports()?;
        let files = Files { dir: dir.to_owned() };
        let etcd_authority = Authority::new("highwater-etcd")?;
        files.write("etcd-ca.crt", etcd_authority.pem())?;
        files.pair("etcd", &etcd_authority.server("etcd", &["127.0.0.1"])?)?;
        let authority = Authority::new("highwater")?;
        files.write("ca.crt", authority.pem())?;
        files.pair(
            "apiserver",
            &authority.server("kube-apiserver", &["127.0.0.1", HOST_SEEN_FROM_NODE, "kubernetes.default.svc"])?,
        )?;
        let tokens = TokenKey::new()?;
        files.write("tokens.key", &tokens.private)?;
        files.write("tokens.pub", &tokens.public)?;
        let etcd = Daemon::spawn("etcd", etcd(image, &files, client_port, peer_port), dir, lease)?;
        let api_server = Daemon::spawn("kube-apiserver", api_server(image, &files, client_port, port), dir, lease)?;
        let admin = authority.client("highwater", "system:masters")?;
        Ok(ControlPlane { authority, port, admin, api_server, etcd })
    }

    /// A kubeconfig of the administrator, for this host.
    #[must_use]
    pub fn admin(&self) -> serde_json::Value {
        kubeconfig(&format!("https://127.0.0.1:{}", self.port), &self.authority, &self.admin)
    }

    /// A kubeconfig of a node's kubelet, as seen from inside the node, and the authority it must trust for its own clients.
    ///
    /// # Errors
    /// A name that a certificate cannot carry.
    pub fn node(&self, name: &str) -> Result<(serde_json::Value, &str), VmError> {
        let user = self.authority.client(&format!("system:node:{name}"), "system:nodes")?;
        let server = format!("https://{HOST_SEEN_FROM_NODE}:{}", self.port);
        Ok((kubeconfig(&server, &self.authority, &user), self.authority.pem()))
    }

    /// Fails with the last words of a process that ended.
    ///
    /// # Errors
    /// Etcd or the API server is not running any more.
    pub fn check(&mut self) -> Result<(), VmError> {
        self.etcd.check()?;
        self.api_server.check()
    }
}

fn etcd(image: &Image, files: &Files, client: u16, peer: u16) -> Command {
    let mut etcd = Command::new(image.host_program("etcd"));
    let url = format!("https://127.0.0.1:{client}");
    etcd.arg("--data-dir").arg(files.path("etcd"));
    etcd.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
    let peer = format!("https://127.0.0.1:{peer}");
    etcd.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    etcd.args(["--initial-cluster", &format!("default={peer}")]);
    for role in ["", "peer-"] {
        etcd.arg(format!("--{role}cert-file")).arg(files.path("etcd.crt"));
        etcd.arg(format!("--{role}key-file")).arg(files.path("etcd.key"));
        etcd.arg(format!("--{role}trusted-ca-file")).arg(files.path("etcd-ca.crt"));
        etcd.arg(format!("--{role}client-cert-auth"));
    }
    // The data lives as long as the run: it need not survive a power failure.
    etcd.args(["--unsafe-no-fsync", "--log-level=warn"]);
    etcd
}

fn api_server(image: &Image, files: &Files, etcd: u16, port: u16) -> Command {
    let mut api = Command::new(image.host_program("kube-apiserver"));
    api.arg(format!("--etcd-servers=https://127.0.0.1:{etcd}"));
    for (flag, file) in [
        ("etcd-cafile", "etcd-ca.crt"),
        ("etcd-certfile", "etcd.crt"),
        ("etcd-keyfile", "etcd.key"),
        ("client-ca-file", "ca.crt"),
        ("tls-cert-file", "apiserver.crt"),
        ("tls-private-key-file", "apiserver.key"),
        ("service-account-signing-key-file", "tokens.key"),
        ("service-account-key-file", "tokens.pub"),
    ] {
        let mut argument = std::ffi::OsString::from(format!("--{flag}="));
        argument.push(files.path(file));
        api.arg(argument);
    }
    api.args([
        "--bind-address=127.0.0.1",
        &format!("--secure-port={port}"),
        // Both must be said on a host without a default route: they are looked up otherwise.
        &format!("--advertise-address={HOST_SEEN_FROM_NODE}"),
        "--endpoint-reconciler-type=none",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--anonymous-auth=false",
    ]);
    api
}

/// Free ports of loopback. Another process may take one before it is used; then the program says so and ends.
fn free_ports<const N: usize>() -> Result<[u16; N], VmError> {
    let listeners: Vec<_> = (0..N).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

struct Files {
    dir: PathBuf,
}

impl Files {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn write(&self, name: &str, text: &str) -> std::io::Result<()> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        fs::OpenOptions::from_options(options).open(self.path(name))?.write_all(text.as_bytes())
    }

    fn pair(&self, name: &str, pair: &Pair) -> std::io::Result<()> {
        self.write(&format!("{name}.crt"), &pair.cert)?;
        self.write(&format!("{name}.key"), &pair.key)
    }
}
