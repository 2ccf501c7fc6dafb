//! A session: a fork of the node's checkpoint, joined to a control plane of its own, and what can be done with it.

use super::node::{ANSWER, Node, Shape, Start, Tools};
use super::{KIND, VmError, capture, control_plane::ControlPlane};
use crate::kubelet::{Container, KubeletConfiguration, NodeFacts, Pod};
use crate::provider::api::{Cluster, PodView};
use crate::provider::cache::{Cache, Entry};
use crate::provider::image::Image;
use crate::provider::image::oci;
use crate::provider::lease::Lease;
use crate::record::{CgroupDriver, LedgerEntry, Plan, Role};
use fs_err as fs;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// The node's name.
pub const NODE: &str = "node";

/// The kubelet's port.
const KUBELET: u16 = 10250;

/// A busy two-core machine under TCG; a quiet one needs a tenth of each.
const API_READY: Duration = Duration::from_secs(180);
const NODE_READY: Duration = Duration::from_secs(300);
/// How often the node is asked whether its kubelet gave up.
const REFUSAL_EVERY: Duration = Duration::from_secs(8);
pub(super) const PODS_RUNNING: Duration = Duration::from_secs(900);
/// A resize or the restart of one container.
const CHANGED: Duration = Duration::from_secs(300);

/// A real node with its control plane. Dropping it ends both.
#[derive(Debug)]
pub struct Session {
    pub(super) node: Node,
    pub(super) control_plane: ControlPlane,
    pub(super) cluster: Cluster,
    /// Keeps the checkpoint from being pruned under the fork.
    _checkpoint: Entry,
}

impl Session {
    /// Forks the node (booting and saving it first when the cache has no such checkpoint), starts a control plane and joins them.
    /// `program` is the static node program, `dir` an empty folder for everything the session writes.
    ///
    /// # Errors
    /// [`VmError`]; a kubelet that refuses its configuration is [`VmError::Kubelet`] with its own words.
    #[expect(clippy::too_many_arguments, reason = "each is another kind of thing, and there is one caller")]
    pub fn start(
        image: &Image,
        shape: &Shape,
        config: &KubeletConfiguration,
        program: &[u8],
        cache: &Cache,
        lease: &Lease,
        dir: &Path,
        progress: &dyn Fn(&str),
    ) -> Result<Session, VmError> {
        let tools = Tools::find(cache)?;
        let seed = oci::archive(&oci::node_images(program, oci::WORKLOAD, &image.manifest.pause))?;
        let system = image.system();
        let key = shape.key(&system, &seed, &tools);
        let start = Start { shape, tools: &tools, system: &system, forward: Some(KUBELET) };
        let checkpoint = cache.entry(KIND, &key, lease, |entry| -> Result<(), VmError> {
            Node::make_checkpoint(&start, &seed, entry, lease, progress)
        })?;
        progress("starting the control plane and forking the node");
        let control_plane = ControlPlane::start(image, &dir.join("control-plane"), lease)?;
        let node_dir = dir.join("node");
        fs::create_dir_all(&node_dir)?;
        let node = Node::fork(&start, &checkpoint.path, &node_dir, lease)?;
        let cluster = Cluster::new(control_plane.admin())?;
        let mut session = Session { node, control_plane, cluster, _checkpoint: checkpoint };
        session.swap_on(shape)?;
        session.runtime_driver(config)?;
        session.write_identity()?;
        session.cluster.ready(API_READY, || session.control_plane.check())?;
        session.cluster.service_account()?;
        progress("starting the kubelet");
        session.start_kubelet(config)?;
        Ok(session)
    }

    fn swap_on(&mut self, shape: &Shape) -> Result<(), VmError> {
        // The first two disks are the system and the images.
        for number in 0..shape.swap.len() {
            let letter = char::from(b'c' + u8::try_from(number).unwrap_or(u8::MAX));
            self.node.step(&format!("mkswap -q /dev/vd{letter} && swapon /dev/vd{letter}"), ANSWER)?;
        }
        Ok(())
    }

    /// The kubelet takes its cgroup driver from the runtime, so the runtime gets the configuration's.
    fn runtime_driver(&mut self, config: &KubeletConfiguration) -> Result<(), VmError> {
        if config.cgroup_driver == Some(CgroupDriver::Cgroupfs) {
            let file = "/etc/containerd/config.toml";
            let script = format!("sed -i 's/SystemdCgroup = true/SystemdCgroup = false/' {file} && systemctl restart containerd");
            self.node.step(&script, ANSWER)?;
        }
        Ok(())
    }

    /// What makes the node a member: its certificate and the authority of its clients.
    fn write_identity(&mut self) -> Result<(), VmError> {
        let (kubeconfig, authority) = self.control_plane.node(NODE)?;
        self.node.put("/etc/kubernetes/kubelet.kubeconfig", &kubeconfig.to_string())?;
        self.node.put("/etc/kubernetes/pki/ca.crt", authority)?;
        self.node.put("/etc/kubernetes/kubelet.env", &format!("KUBELET_ARGS=--hostname-override={NODE}\n"))
    }

    /// Starts or restarts the kubelet with a configuration and waits until its node is Ready.
    ///
    /// # Errors
    /// [`VmError::Kubelet`] when it ends instead.
    pub fn start_kubelet(&mut self, config: &KubeletConfiguration) -> Result<(), VmError> {
        self.node.put("/etc/kubernetes/kubelet.yaml", &complete(config).to_string())?;
        // The node's old Ready condition must not be taken for the new kubelet's: the stamp of its start is compared below.
        let started = self.node.step("systemctl stop kubelet; systemctl reset-failed kubelet 2>/dev/null; date -u +%Y-%m-%dT%H:%M:%SZ; systemctl start kubelet", ANSWER)?;
        let (node, control_plane) = (&mut self.node, &mut self.control_plane);
        let mut asked = Instant::now();
        self.cluster.node_ready(NODE, started.trim(), NODE_READY, || {
            alive(node, control_plane)?;
            // Asking costs an emulated processor as much as the kubelet's own start: not at every look.
            if asked.elapsed() < REFUSAL_EVERY {
                return Ok(());
            }
            asked = Instant::now();
            refused(node)
        })
    }

    /// What the kubelet takes for the node's memory and swap.
    ///
    /// # Errors
    /// /proc/meminfo cannot be read.
    pub fn facts(&mut self) -> Result<NodeFacts, VmError> {
        let text = self.node.step("cat /proc/meminfo; nproc; getconf PAGE_SIZE", ANSWER)?;
        let kib =
            |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        let malformed = || capture::CaptureError::Malformed("/proc/meminfo".to_owned());
        let (memory, swap) = (kib("MemTotal:").ok_or_else(malformed)?, kib("SwapTotal:").ok_or_else(malformed)?);
        let mut last = text.lines().rev().map(|l| l.trim().parse::<u64>().ok());
        let mut number = || last.next().flatten().ok_or_else(malformed);
        let (page_size, processors) = (number()?, number()?);
        Ok(NodeFacts { page_size, cpu_millis: Some(processors * 1000), ..NodeFacts::new(memory << 10, swap << 10) })
    }

    /// Creates pods on the node and waits until they run; returns them with the uids that the API server gave them.
    ///
    /// # Errors
    /// The API refuses one; they do not run in time.
    pub fn run_pods(&mut self, pods: &[Pod]) -> Result<Vec<Pod>, VmError> {
        for pod in pods {
            self.cluster.create_pod(&placed(pod))?;
        }
        let names: Vec<_> = pods.iter().map(Pod::name).collect();
        let (node, control_plane) = (&mut self.node, &mut self.control_plane);
        let seen = self.cluster.pods_running(&names, PODS_RUNNING, || alive(node, control_plane))?;
        Ok(pods.iter().map(|pod| with_uid(pod, &seen)).collect())
    }

    /// Gives a running pod the resources of `pod` in place, and waits until the kubelet has done it.
    ///
    /// # Errors
    /// The API or the kubelet refuses it.
    pub fn resize(&mut self, pod: &Pod) -> Result<(), VmError> {
        let list = |containers: &mut dyn Iterator<Item = &Container>| {
            containers.map(|c| json!({ "name": c.name, "resources": c.resources })).collect::<Vec<_>>()
        };
        let mut spec = json!({ "containers": list(&mut pod.spec.containers.iter()) });
        let sidecars = list(&mut pod.spec.init_containers.iter().filter(|c| c.is_restartable()));
        if !sidecars.is_empty() {
            spec["initContainers"] = sidecars.into();
        }
        if let Some(resources) = &pod.spec.resources {
            spec["resources"] = json!(resources);
        }
        let (node, control_plane) = (&mut self.node, &mut self.control_plane);
        self.cluster.resize(pod.name(), &json!({ "spec": spec }), CHANGED, || alive(node, control_plane))
    }

    /// Kills a container and waits until the kubelet has started it again.
    ///
    /// # Errors
    /// There is no such container; it does not start again.
    pub fn restart_container(&mut self, pod: &str, container: &str) -> Result<(), VmError> {
        let status = self.cluster.pod(pod)?.container(container);
        let id = status.as_ref().and_then(|s| s.container_id.as_deref()?.strip_prefix("containerd://"));
        let (Some(status), Some(id)) = (&status, id) else {
            return Err(capture::CaptureError::NoTask(Role::Container { pod: pod.into(), container: container.into() }).into());
        };
        self.node.step(&format!("ctr -n k8s.io tasks kill -s SIGKILL {id}"), ANSWER)?;
        let (node, control_plane) = (&mut self.node, &mut self.control_plane);
        self.cluster.container_restarted(pod, container, status.restart_count, CHANGED, || alive(node, control_plane))
    }

    /// Deletes a pod, makes it again and waits until it runs; returns it with its new uid.
    ///
    /// # Errors
    /// It does not end, or the new one does not run.
    pub fn recreate_pod(&mut self, pod: &Pod) -> Result<Pod, VmError> {
        let (node, control_plane) = (&mut self.node, &mut self.control_plane);
        self.cluster.delete_pod(pod.name(), CHANGED, || alive(node, control_plane))?;
        let mut made = self.run_pods(std::slice::from_ref(pod))?;
        Ok(made.remove(0))
    }

    /// Reads the control ledger of every level. The plan names the cgroups above the pods; all others are found from their processes.
    ///
    /// # Errors
    /// The node's answer cannot be understood.
    pub fn ledger(&mut self, plan: &Plan) -> Result<Vec<LedgerEntry>, VmError> {
        let found = capture::tasks(&self.node.step(capture::TASKS, ANSWER)?)?;
        let above = plan.cgroups.iter().filter(|c| matches!(c.role, Role::Kubepods | Role::Qos { .. } | Role::System { .. }));
        let above: Vec<_> = above.map(|c| (c.role.clone(), c.path.clone())).collect();
        let levels = capture::levels(found, &above);
        let values = self.node.step(&capture::read_files(&levels), ANSWER)?;
        Ok(capture::ledger(levels, &values))
    }
}

/// Fails when the VM or a process of the control plane has ended: what is awaited then never comes.
pub(super) fn alive(node: &mut Node, control_plane: &mut ControlPlane) -> Result<(), VmError> {
    node.check()?;
    control_plane.check()
}

/// The kubelet's last error when systemd had to start it again.
fn refused(node: &mut Node) -> Result<(), VmError> {
    let restarts = node.step("systemctl show -p NRestarts --value kubelet", ANSWER)?;
    if restarts.trim() == "0" {
        return Ok(());
    }
    // Its last error; whatever it said last when it wrote none.
    let words = "log() { journalctl -u kubelet -o cat --no-pager; }
        log | grep -E '^([EF][0-9]|panic:)' | tail -n 1 | grep . || log | tail -n 5";
    Err(VmError::Kubelet(node.step(words, ANSWER)?.trim().to_owned()))
}

/// A configuration with what a node of this provider needs beside it. None of it touches memory.
fn complete(config: &KubeletConfiguration) -> Value {
    let mut value = serde_json::to_value(config).unwrap_or_default();
    let own = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": false },
            "x509": { "clientCAFile": "/etc/kubernetes/pki/ca.crt" },
        },
        "authorization": { "mode": "AlwaysAllow" },
        "clusterDNS": ["10.96.0.10"],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "resolvConf": "/etc/resolv.conf",
    });
    if let (Value::Object(value), Value::Object(own)) = (&mut value, own) {
        value.extend(own);
    }
    value
}

/// A pod as the API server gets it: on the node, with the image that is there.
pub(super) fn placed(pod: &Pod) -> Value {
    let mut value = serde_json::to_value(pod).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.insert("apiVersion".to_owned(), "v1".into());
        fields.insert("kind".to_owned(), "Pod".into());
        fields.remove("status");
    }
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("uid");
        metadata.remove("namespace");
    }
    value["spec"]["nodeName"] = NODE.into();
    for kind in ["initContainers", "containers"] {
        for container in value["spec"][kind].as_array_mut().into_iter().flatten() {
            container["imagePullPolicy"] = "Never".into();
        }
    }
    value
}

fn with_uid(pod: &Pod, seen: &[PodView]) -> Pod {
    let mut pod = pod.clone();
    if let Some(view) = seen.iter().find(|view| view.name() == pod.name()) {
        view.uid().clone_into(&mut pod.metadata.uid);
    }
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "uid": "simulated" },
            "spec": {
                "initContainers": [{ "name": "i", "image": "highwater-node" }],
                "containers": [{ "name": "c", "image": "highwater-node", "args": ["anon"],
                    "resources": { "requests": { "memory": "64Mi" } } }],
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_is_changed_in_its_place_and_image_policy_only() {
        let before = serde_json::to_value(pod()).unwrap();
        let mut after = placed(&pod());
        assert_eq!(after["spec"]["nodeName"], NODE);
        assert!(after["metadata"].get("uid").is_none());
        after["spec"].as_object_mut().unwrap().remove("nodeName");
        for kind in ["initContainers", "containers"] {
            for container in after["spec"][kind].as_array_mut().unwrap() {
                assert_eq!(container.as_object_mut().unwrap().remove("imagePullPolicy").unwrap(), "Never");
            }
        }
        assert_eq!(after["spec"]["containers"], before["spec"]["containers"]);
        assert_eq!(after["spec"]["initContainers"], before["spec"]["initContainers"]);
    }

    #[test]
    fn a_configuration_keeps_every_field_that_decides_about_memory() {
        let config: KubeletConfiguration =
            serde_json::from_value(json!({ "memorySwap": { "swapBehavior": "LimitedSwap" }, "memoryThrottlingFactor": 0.8 }))
                .unwrap();
        let whole = complete(&config);
        assert_eq!(whole["kind"], "KubeletConfiguration");
        assert_eq!(serde_json::from_value::<KubeletConfiguration>(whole).unwrap().memory_throttling_factor, Some(0.8));
        assert_eq!(complete(&config)["memorySwap"]["swapBehavior"], "LimitedSwap");
    }
}
