//! A session that is observed: the observer's program on the node, what it is told, and what it wrote.

use super::node::ANSWER;
use super::session::{PODS_RUNNING, alive, placed};
use super::{Session, VmError};
use crate::kubelet::Pod;
use crate::provider::api::{Cluster, PodView};
use crate::provider::image::oci;
use crate::record::{Order, Tell, Told};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// Everything of the observer lies here, on the node's tmpfs.
const DIR: &str = "/run/highwater";

impl Session {
    /// Starts the observer beside the kubelet, as a service of its own: none of the measured cgroups holds it.
    ///
    /// # Errors
    /// It does not come up; its last words.
    pub fn observe(&mut self, order: &Order) -> Result<(), VmError> {
        self.node.put(&format!("{DIR}/order.json"), &serde_json::to_string(order).map_err(std::io::Error::from)?)?;
        for setting in &order.settings {
            self.node.step(&format!("echo '{}' > '{}'", setting.value, setting.path), ANSWER)?;
        }
        let script = format!(
            "set -e
            mkdir -p {DIR}/image
            ctr -n k8s.io images mount {} {DIR}/image >/dev/null
            systemd-run --quiet --unit=highwater-observer {DIR}/image/highwater-node observe {DIR}/order.json {DIR}/frames {DIR}/socket
            until [ -S {DIR}/socket ]; do
                systemctl -q is-active highwater-observer || {{ journalctl -u highwater-observer -o cat --no-pager >&2; exit 1; }}
                sleep 0.1
            done",
            oci::WORKLOAD
        );
        self.node.step(&script, ANSWER).map(drop)
    }

    /// Tells the observer something.
    ///
    /// # Errors
    /// It is not there, or it says why it was not done.
    pub fn tell(&mut self, tell: &Tell) -> Result<Told, VmError> {
        let line = serde_json::to_string(tell).map_err(std::io::Error::from)?.replace('\'', r"'\''");
        let answer = self.node.step(&format!("{DIR}/image/highwater-node tell {DIR}/socket '{line}'"), ANSWER)?;
        let told: Told = serde_json::from_str(&answer).map_err(std::io::Error::from)?;
        match told.error {
            Some(error) => Err(VmError::Observer(error)),
            None => Ok(told),
        }
    }

    /// What the observer wrote until it was told that the script has ended.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn frames(&mut self) -> Result<Vec<u8>, VmError> {
        let script = format!("while systemctl -q is-active highwater-observer; do sleep 0.1; done; base64 -w0 {DIR}/frames");
        let text = self.node.step(&script, ANSWER)?;
        STANDARD.decode(text.trim()).map_err(|e| VmError::Observer(format!("its frames came back damaged: {e}")))
    }

    /// Creates pods and waits for nothing.
    ///
    /// # Errors
    /// The API refuses one.
    pub fn create_pods(&mut self, pods: &[&Pod]) -> Result<(), VmError> {
        Ok(pods.iter().try_for_each(|pod| self.cluster.create_pod(&placed(pod)))?)
    }

    /// Deletes pods and waits until their kubelet has ended them.
    ///
    /// # Errors
    /// They do not end.
    pub fn delete_pods(&mut self, pods: &[String]) -> Result<(), VmError> {
        let (node, control_plane) = (&mut self.node, &mut self.control_plane);
        pods.iter().try_for_each(|pod| self.cluster.delete_pod(pod, PODS_RUNNING, || alive(node, control_plane)))
    }

    /// The pods as the API shows them.
    ///
    /// # Errors
    /// The request fails; the VM or the control plane has ended.
    pub fn pods(&mut self) -> Result<Vec<PodView>, VmError> {
        alive(&mut self.node, &mut self.control_plane)?;
        Ok(self.cluster.pods_now()?)
    }

    /// The kubelet's own port. Its serving certificate is signed by itself, and the way to it is this machine's loopback.
    fn kubelet(&mut self) -> Result<Cluster, VmError> {
        let mut kubeconfig = self.control_plane.admin();
        let server = format!("https://127.0.0.1:{}", self.node.forwarded()?);
        kubeconfig["clusters"][0]["cluster"] = json!({ "server": server, "insecure-skip-tls-verify": true });
        Ok(Cluster::new(kubeconfig)?)
    }

    /// What the cluster and the node know beside the frames: pods with their statuses, events, the logs of kubelet and runtime, the
    /// configuration that the kubelet has loaded, its metrics and its own account of the pods.
    ///
    /// # Errors
    /// The API or the node does not answer.
    pub fn evidence(&mut self) -> Result<Vec<(&'static str, Vec<u8>)>, VmError> {
        let pretty = |value: Value| serde_json::to_vec_pretty(&value).map_err(|e| VmError::Io(e.into()));
        let log = |unit: &str| format!("journalctl -u {unit} -o short-precise --no-pager");
        let kubelet = self.kubelet()?;
        Ok(vec![
            ("configz.json", kubelet.text("/configz")?.into_bytes()),
            ("metrics.txt", kubelet.text("/metrics")?.into_bytes()),
            ("metrics-resource.txt", kubelet.text("/metrics/resource")?.into_bytes()),
            ("stats-summary.json", kubelet.text("/stats/summary")?.into_bytes()),
            ("pods.json", pretty(self.cluster.pods_as_json()?)?),
            ("events.json", pretty(self.cluster.events_as_json()?)?),
            ("kubelet.yaml", self.node.step("cat /etc/kubernetes/kubelet.yaml", ANSWER)?.into_bytes()),
            ("kubelet.log", self.node.step(&log("kubelet"), ANSWER)?.into_bytes()),
            ("containerd.log", self.node.step(&log("containerd"), ANSWER)?.into_bytes()),
        ])
    }
}
