//! A container of a Pod: arguments, environment, resources, probes.

use super::resources::Resources;
use serde::{Deserialize, Serialize};

/// A container, init container or ephemeral container.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name in the pod.
    pub name: String,
    /// The image.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// The image's entry point, replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Arguments of the entry point.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// Ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ContainerPort>,
    /// Requests and limits.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub resources: Resources,
    /// What an in-place resize of a resource does to the container.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resize_policy: Vec<ResizePolicy>,
    /// "Always" makes an init container a sidecar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    /// Restarts the container when it fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liveness_probe: Option<Probe>,
    /// Decides about readiness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
    /// Holds the others back until it succeeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup_probe: Option<Probe>,
    /// Mounts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<VolumeMount>,
}

impl Container {
    /// Whether, as an init container, it stays while the pod lives (KEP-753).
    pub fn is_restartable(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// An environment variable with a literal value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvVar {
    /// Its name.
    pub name: String,
    /// Its value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
}

/// A port of a container.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The port.
    pub container_port: u16,
    /// TCP when absent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol: String,
}

/// What an in-place resize does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResizePolicy {
    /// cpu or memory.
    pub resource_name: String,
    /// NotRequired or RestartContainer.
    pub restart_policy: String,
}

/// A mount of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeMount {
    /// The volume's name.
    pub name: String,
    /// Where.
    pub mount_path: String,
    /// Whether writing is refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// A probe as written; absent numbers take the API's defaults (`SetDefaults_Probe`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Probe {
    /// Ask by HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_get: Option<HttpGet>,
    /// Ask by opening a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_socket: Option<TcpSocket>,
    /// Seconds after the start; 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_delay_seconds: Option<u32>,
    /// Seconds between two; 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_seconds: Option<u32>,
    /// Seconds to answer; 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
    /// Successes in a row; 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success_threshold: Option<u32>,
    /// Failures in a row; 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<u32>,
}

/// httpGet of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpGet {
    /// The path; "/" when absent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// A number or the name of a port.
    pub port: Port,
}

/// tcpSocket of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TcpSocket {
    /// A number or the name of a port.
    pub port: Port,
}

/// A port by number or by the name a container gives it (`intstr.IntOrString`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Port {
    /// By number.
    Number(u16),
    /// By name.
    Name(String),
}

impl Default for Port {
    fn default() -> Self {
        Port::Number(0)
    }
}
