//! The order: everything the guest needs to run one arm, complete before the guest starts.

use super::{CgroupDriver, Role};
use serde::{Deserialize, Serialize};

/// One arm, resolved to what must be done on the node. Travels as JSON in the guest's input area.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Order {
    /// Record schema, [`super::SCHEMA`].
    pub schema: u32,
    /// The lab's name.
    pub lab: String,
    /// The arm's name.
    pub arm: String,
    /// Seeds every generator of the arm.
    pub seed: u64,
    /// Kernel settings, written in this order before anything else.
    pub settings: Vec<Setting>,
    /// Swap devices to switch on, by the name the node shape gives them.
    pub swap: Vec<SwapOn>,
    /// How container cgroups are named.
    pub cgroup_driver: CgroupDriver,
    /// Cgroups above the pods, parents first, with what the kubelet writes at start and in its first periodic update.
    pub cgroups: Vec<CgroupOrder>,
    /// The pods. They start when a phase says so.
    pub pods: Vec<PodOrder>,
    /// The script.
    pub phases: Vec<PhaseOrder>,
    /// What the sampler does.
    pub sampling: Sampling,
}

/// A kernel setting: an absolute path below /proc/sys or /sys and the text to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Setting {
    /// For example /proc/sys/vm/swappiness.
    pub path: String,
    /// The text.
    pub value: String,
}

/// A swap device to switch on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SwapOn {
    /// The device's name in the node shape; the guest finds it as /dev/NAME.
    pub device: String,
    /// Swap priority, 0 to 32767; the kernel's own order when absent.
    pub priority: Option<u16>,
}

/// A cgroup to create and what to write into it, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CgroupOrder {
    /// What it is for.
    pub role: Role,
    /// Path below the cgroup2 mount, starting with a slash.
    pub path: String,
    /// Writes in order.
    pub writes: Vec<ControlWrite>,
}

/// One write into a control file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ControlWrite {
    /// The file's name.
    pub file: String,
    /// The text.
    pub value: String,
}

/// A pod: its cgroup, its pause container and its containers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodOrder {
    /// metadata.name.
    pub name: String,
    /// metadata.uid.
    pub uid: String,
    /// The pod's cgroup.
    pub cgroup: CgroupOrder,
    /// What the runtime writes into the pause container's cgroup (its name is derived like a container's).
    pub sandbox_writes: Vec<ControlWrite>,
    /// oom_score_adj of the pause process, -998.
    pub sandbox_oom_score_adj: i32,
    /// spec.restartPolicy.
    pub restart_policy: RestartPolicy,
    /// terminationGracePeriodSeconds.
    pub grace_s: u64,
    /// Volumes that exist in the node: memory-backed or on the data disk.
    pub volumes: Vec<Volume>,
    /// Init containers and sidecars first, in their order, then the others.
    pub containers: Vec<ContainerOrder>,
}

/// spec.restartPolicy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestartPolicy {
    /// Restart whatever the exit.
    Always,
    /// Restart when the exit was not 0.
    OnFailure,
    /// Never restart.
    Never,
}

/// How a container takes part in its pod's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContainerKind {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container with restartPolicy Always: stays while the pod lives.
    Sidecar,
    /// A regular container.
    Main,
}

/// A container: arguments of the image's program, cgroup writes, probes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerOrder {
    /// Its name in the pod.
    pub name: String,
    /// Init, sidecar or regular.
    pub kind: ContainerKind,
    /// Arguments after the program's name.
    pub args: Vec<String>,
    /// Environment, in order.
    pub env: Vec<(String, String)>,
    /// Volume name and mount path.
    pub mounts: Vec<(String, String)>,
    /// What the runtime writes into its cgroup at every start.
    pub writes: Vec<ControlWrite>,
    /// oom_score_adj of its processes.
    pub oom_score_adj: i32,
    /// readinessProbe; without one a started container is ready.
    pub readiness: Option<Probe>,
    /// livenessProbe.
    pub liveness: Option<Probe>,
    /// startupProbe.
    pub startup: Option<Probe>,
}

/// A probe with the API's defaults filled in. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Probe {
    /// What is asked.
    pub kind: ProbeKind,
    /// initialDelaySeconds.
    pub initial_delay_s: u32,
    /// periodSeconds.
    pub period_s: u32,
    /// timeoutSeconds.
    pub timeout_s: u32,
    /// successThreshold.
    pub success_threshold: u32,
    /// failureThreshold.
    pub failure_threshold: u32,
}

/// What a probe asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProbeKind {
    /// An HTTP GET that must answer 200 to 399.
    Http {
        /// The path.
        path: String,
        /// The port.
        port: u16,
    },
    /// A TCP connection that must open.
    Tcp {
        /// The port.
        port: u16,
    },
}

/// Where the node's data disk is mounted.
pub const DISK: &str = "/disk";

/// A volume of a pod in the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Volume {
    /// emptyDir on the data disk, as the kubelet's root directory lies on a real node's disk.
    EmptyDir {
        /// Its name in the pod.
        name: String,
    },
    /// emptyDir with medium Memory: a tmpfs, charged to whoever writes it.
    Memory {
        /// Its name in the pod.
        name: String,
        /// Its size limit in bytes.
        size: Option<u64>,
    },
    /// hostPath onto the data disk.
    HostPath {
        /// Its name in the pod.
        name: String,
        /// The path on the node.
        path: String,
    },
}

/// A stretch of the script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PhaseOrder {
    /// Its name.
    pub name: String,
    /// What happens at its start, in order.
    pub actions: Vec<Action>,
    /// The load that runs in it. Arrival times count from the phase's start.
    pub load: Vec<LoadOrder>,
    /// When it ends.
    pub end: PhaseEnd,
}

/// Something the script does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Action {
    /// Start these pods, in order.
    Start {
        /// Names of pods.
        pods: Vec<String>,
    },
    /// Stop these pods: SIGTERM, grace period, SIGKILL, cgroups removed.
    Stop {
        /// Names of pods.
        pods: Vec<String>,
    },
    /// Write control files, for example what a restarted kubelet writes.
    Write {
        /// The cgroup and the writes.
        cgroup: CgroupOrder,
    },
    /// What starts of this pod from now on starts so: it keeps its name, uid and containers.
    Renew {
        /// The pod as the kubelet would start it now.
        pod: PodOrder,
    },
    /// Kill a container and wait until the kubelet has started it again.
    RestartContainer {
        /// Its pod.
        pod: String,
        /// Its name.
        container: String,
    },
    /// Stop a pod, wait until it is gone, and start it.
    RecreatePod {
        /// Its name.
        pod: String,
    },
    /// Note that a step was refused.
    Refused {
        /// By whom and why, in its own words.
        reason: String,
    },
}

/// When a phase ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum PhaseEnd {
    /// After this much virtual time.
    After {
        /// Nanoseconds.
        ns: u64,
    },
    /// When all started pods are ready (or finished, or given up), at the latest after the deadline.
    Ready {
        /// Nanoseconds; reaching it is an event, not a fault.
        deadline_ns: u64,
    },
    /// When the phase's load has been answered and every Job-like pod (restartPolicy not Always) has finished.
    Settled {
        /// Nanoseconds; reaching it is an event, not a fault.
        deadline_ns: u64,
    },
}

/// A load generator: an open-loop schedule computed beforehand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadOrder {
    /// Its name.
    pub name: String,
    /// The pod whose server it calls.
    pub pod: String,
    /// The server's port.
    pub port: u16,
    /// The requests, by scheduled time.
    pub arrivals: Vec<Arrival>,
    /// At most this many requests in flight; others wait, and their wait counts.
    pub concurrency: Option<u32>,
    /// Nanoseconds after the send at which a request counts as failed.
    pub timeout_ns: u64,
}

/// One request of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Arrival {
    /// Nanoseconds from the phase's start.
    pub at_ns: u64,
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Tokens to generate.
    pub output_tokens: u32,
}

/// What the sampler does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sampling {
    /// Nanoseconds between readings of current, swap.current, events and pressure; 0 switches sampling off.
    pub interval_ns: u64,
    /// Nanoseconds between readings of memory.stat.
    pub stat_interval_ns: u64,
}
