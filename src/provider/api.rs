//! The Kubernetes API, for what a run needs of it. The only file that names kube.

use k8s_openapi::api::core::v1::{ContainerStatus, Event, Node, Pod, ResourceRequirements, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use std::future::Future;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The namespace that labs run in.
const NAMESPACE: &str = "default";
/// Between two looks at something that is awaited.
const POLL: Duration = Duration::from_millis(300);

/// Why the API did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The kubeconfig is not usable.
    #[error("the kubeconfig cannot be used: {0}")]
    Config(String),
    /// A request failed.
    #[error("{what}: {source}")]
    Request {
        /// What was asked for.
        what: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The kubelet will not resize a pod.
    #[error("the kubelet says that resizing pod {pod} is infeasible; its own words:\n{reason}")]
    Infeasible {
        /// The pod.
        pod: String,
        /// Why.
        reason: String,
    },
    /// Something did not come about in time.
    #[error("{what} within {} s; last seen: {seen}", .deadline.as_secs())]
    Deadline {
        /// What was awaited, as "X did not Y".
        what: String,
        /// How long it had.
        deadline: Duration,
        /// What the last look gave.
        seen: String,
    },
    /// The runtime of the client.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// A cluster, spoken to by blocking calls.
pub struct Cluster {
    runtime: Runtime,
    client: Client,
}

/// A pod as the API shows it.
#[derive(Debug, Clone)]
pub struct PodView(Pod);

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

impl Cluster {
    /// Uses a kubeconfig; nothing is sent yet.
    ///
    /// # Errors
    /// A kubeconfig that cannot be used.
    pub fn new(kubeconfig: Value) -> Result<Cluster, ApiError> {
        let bad = |e: &dyn std::fmt::Display| ApiError::Config(e.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig).map_err(|e| bad(&e))?;
        let client = runtime.block_on(async {
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(|e| bad(&e))?;
            Client::try_from(config).map_err(|e| bad(&e))
        })?;
        Ok(Cluster { runtime, client })
    }

    /// Waits until the API server says it is ready. `alive` is asked at each look and may give up early.
    ///
    /// # Errors
    /// It is not ready in time; what `alive` says.
    pub fn ready<E: From<ApiError>>(&self, deadline: Duration, mut alive: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        self.until("the API server did not get ready", deadline, || {
            alive()?;
            let answer = self.call(self.client.request_text(http::Request::get("/readyz").body(Vec::new()).unwrap_or_default()));
            Ok(match answer {
                Ok(_) => Ok(()),
                Err(e) => Err(e.to_string()),
            })
        })
    }

    /// Gives the namespace its service account, which a controller would make; it mounts no token.
    ///
    /// # Errors
    /// The API refuses it.
    pub fn service_account(&self) -> Result<(), ApiError> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), NAMESPACE);
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" }, "automountServiceAccountToken": false,
        });
        let patch = Patch::Apply(account);
        let done = self.call(accounts.patch("default", &PatchParams::apply("highwater"), &patch));
        done.map(drop).map_err(request("making the default service account"))
    }

    /// Waits until a node is Ready and has said so at or after `since` (RFC 3339, in the node's own time).
    ///
    /// # Errors
    /// It is not Ready in time; what `alive` says.
    pub fn node_ready<E: From<ApiError>>(
        &self,
        name: &str,
        since: &str,
        deadline: Duration,
        mut alive: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        self.until(&format!("node {name} did not get Ready"), deadline, || {
            alive()?;
            let seen = match self.call(nodes.get_opt(name)) {
                Ok(None) => "it has not joined".to_owned(),
                Ok(Some(node)) => match condition(&node, since) {
                    None => return Ok(Ok(())),
                    Some(message) => message,
                },
                Err(e) => e.to_string(),
            };
            Ok(Err(seen))
        })
    }

    /// Creates a pod; `pod` is a v1 Pod.
    ///
    /// # Errors
    /// It is no Pod, or the API refuses it.
    pub fn create_pod(&self, pod: &Value) -> Result<(), ApiError> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let what = format!("creating pod {name}");
        let pod: Pod = serde_json::from_value(pod.clone()).map_err(|e| ApiError::Config(format!("{what}: {e}")))?;
        self.call(self.pods().create(&PostParams::default(), &pod)).map(drop).map_err(request(what))
    }

    /// Waits until each of these pods has all its regular containers and sidecars started, and returns all pods.
    ///
    /// # Errors
    /// They do not run in time; what `alive` says.
    pub fn pods_running<E: From<ApiError>>(
        &self,
        names: &[&str],
        deadline: Duration,
        mut alive: impl FnMut() -> Result<(), E>,
    ) -> Result<Vec<PodView>, E> {
        self.until("the pods did not start", deadline, || {
            alive()?;
            let pods = match self.call(self.pods().list(&ListParams::default())) {
                Ok(list) => list.items.into_iter().map(PodView).collect::<Vec<_>>(),
                Err(e) => return Ok(Err(e.to_string())),
            };
            let waiting = names.iter().filter_map(|name| match pods.iter().find(|pod| pod.name() == *name) {
                None => Some(format!("{name}: not there")),
                Some(pod) => pod.not_running().map(|why| format!("{name}: {why}")),
            });
            let waiting: Vec<_> = waiting.collect();
            Ok(if waiting.is_empty() { Ok(pods) } else { Err(waiting.join("; ")) })
        })
    }

    /// A pod as it is now.
    ///
    /// # Errors
    /// There is none of this name, or the request fails.
    pub fn pod(&self, name: &str) -> Result<PodView, ApiError> {
        self.call(self.pods().get(name)).map(PodView).map_err(request(format!("looking at pod {name}")))
    }

    /// All pods as they are now.
    ///
    /// # Errors
    /// The request fails.
    pub fn pods_now(&self) -> Result<Vec<PodView>, ApiError> {
        let list = self.call(self.pods().list(&ListParams::default())).map_err(request("listing the pods"))?;
        Ok(list.items.into_iter().map(PodView).collect())
    }

    /// All pods with their statuses.
    ///
    /// # Errors
    /// The request fails.
    pub fn pods_as_json(&self) -> Result<Value, ApiError> {
        let list = self.call(self.pods().list(&ListParams::default())).map_err(request("listing the pods"))?;
        Ok(json!(list.items))
    }

    /// What the server has at a path.
    ///
    /// # Errors
    /// The request fails.
    pub fn text(&self, path: &str) -> Result<String, ApiError> {
        let asked = http::Request::get(path).body(Vec::new()).map_err(|e| ApiError::Config(format!("{path}: {e}")))?;
        self.call(self.client.request_text(asked)).map_err(request(format!("asking for {path}")))
    }

    /// All events.
    ///
    /// # Errors
    /// The request fails.
    pub fn events_as_json(&self) -> Result<Value, ApiError> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), NAMESPACE);
        let list = self.call(events.list(&ListParams::default())).map_err(request("listing the events"))?;
        Ok(json!(list.items))
    }

    /// Changes the resources of a running pod in place and waits until its kubelet has done it.
    ///
    /// # Errors
    /// The API refuses it; it is not done in time, which a kubelet that refuses it says in what was last seen; what `alive` says.
    pub fn resize<E: From<ApiError>>(
        &self,
        name: &str,
        patch: &Value,
        deadline: Duration,
        mut alive: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let asked = self.call(self.pods().patch_resize(name, &PatchParams::default(), &Patch::Strategic(patch)));
        asked.map_err(request(format!("resizing pod {name}")))?;
        self.until(&format!("pod {name} was not resized"), deadline, || {
            alive()?;
            let pod = self.pod(name)?;
            if let Some(reason) = pod.infeasible() {
                return Err(ApiError::Infeasible { pod: name.to_owned(), reason }.into());
            }
            Ok(pod.not_resized().map_or(Ok(()), Err))
        })
    }

    /// Waits until a container runs that has started more often than `before`.
    ///
    /// # Errors
    /// It does not in time; what `alive` says.
    pub fn container_restarted<E: From<ApiError>>(
        &self,
        pod: &str,
        container: &str,
        before: i32,
        deadline: Duration,
        mut alive: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        self.until(&format!("container {container} of pod {pod} did not start again"), deadline, || {
            alive()?;
            Ok(match self.pod(pod)?.container(container) {
                Some(status) if status.restart_count > before && running(&status) => Ok(()),
                Some(status) => Err(serde_json::to_string(&status.state).unwrap_or_default()),
                None => Err("no such container".to_owned()),
            })
        })
    }

    /// Deletes a pod and waits until its kubelet has ended it.
    ///
    /// # Errors
    /// The API refuses it; it is not gone in time; what `alive` says.
    pub fn delete_pod<E: From<ApiError>>(
        &self,
        name: &str,
        deadline: Duration,
        mut alive: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        // A second of grace: with none the API forgets the pod before the kubelet has ended it.
        let done = self.call(self.pods().delete(name, &DeleteParams::default().grace_period(1)));
        done.map(drop).map_err(request(format!("deleting pod {name}")))?;
        self.until(&format!("pod {name} did not end"), deadline, || {
            alive()?;
            Ok(match self.call(self.pods().get_opt(name)) {
                Ok(None) => Ok(()),
                Ok(Some(_)) => Err("it is still there".to_owned()),
                Err(e) => Err(e.to_string()),
            })
        })
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    fn call<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Looks again and again until it finds what it wants.
    fn until<T, E: From<ApiError>>(
        &self,
        what: &str,
        deadline: Duration,
        mut look: impl FnMut() -> Result<Result<T, String>, E>,
    ) -> Result<T, E> {
        let ends = Instant::now() + deadline;
        loop {
            let seen = match look()? {
                Ok(found) => return Ok(found),
                Err(seen) => seen,
            };
            if Instant::now() >= ends {
                return Err(ApiError::Deadline { what: what.to_owned(), deadline, seen }.into());
            }
            // A timer can only be made inside the runtime.
            self.call(async { tokio::time::sleep(POLL).await });
        }
    }
}

/// What a node's Ready condition complains of; nothing when it is True and no older than `since`.
fn condition(node: &Node, since: &str) -> Option<String> {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    match conditions.iter().find(|c| c.type_ == "Ready") {
        Some(ready) if ready.last_heartbeat_time.as_ref().is_none_or(|t| t.0.to_string().as_str() < since) => {
            Some("its condition is from before the kubelet's start".to_owned())
        }
        Some(ready) if ready.status == "True" => None,
        Some(ready) => Some(ready.message.clone().unwrap_or_default()),
        None => Some("no Ready condition yet".to_owned()),
    }
}

impl PodView {
    /// The pod's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.metadata.name.as_deref().unwrap_or_default()
    }

    /// The uid that the API server gave it.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.0.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The status of a container or sidecar.
    #[must_use]
    pub fn container(&self, name: &str) -> Option<ContainerStatus> {
        let status = self.0.status.as_ref()?;
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten()).find(|status| status.name == name).cloned()
    }

    /// Containers and sidecars, and whether each is ready.
    pub fn readiness(&self) -> impl Iterator<Item = (String, bool)> + '_ {
        let status = self.0.status.iter();
        let all = status.flat_map(|s| s.init_container_statuses.iter().flatten().chain(s.container_statuses.iter().flatten()));
        all.map(|status| (status.name.clone(), status.ready))
    }

    /// The condition Ready is True.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let conditions = self.0.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    }

    /// All its containers have ended for good.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let phase = self.0.status.as_ref().and_then(|status| status.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    }

    /// Why the kubelet will not give the pod the resources of its spec (condition PodResizePending, reason Infeasible).
    fn infeasible(&self) -> Option<String> {
        let conditions = self.0.status.as_ref()?.conditions.as_ref()?;
        let refused = conditions.iter().find(|c| c.type_ == "PodResizePending" && c.reason.as_deref() == Some("Infeasible"));
        refused.map(|condition| condition.message.clone().unwrap_or_default())
    }

    /// Why the pod's resources are not yet those of its spec; nothing when they are.
    fn not_resized(&self) -> Option<String> {
        let (spec, status) = (self.0.spec.as_ref()?, self.0.status.clone().unwrap_or_default());
        if status.observed_generation < self.0.metadata.generation {
            return Some("the kubelet has not seen it".to_owned());
        }
        let conditions = status.conditions.unwrap_or_default();
        if let Some(pending) = conditions.into_iter().find(|c| c.type_.starts_with("PodResize")) {
            let (reason, message) = (pending.reason.unwrap_or_default(), pending.message.unwrap_or_default());
            return Some(format!("{} {reason} {message}", pending.type_));
        }
        let differs = spec.containers.iter().find(|container| {
            let actual = self.container(&container.name).and_then(|status| status.resources).unwrap_or_default();
            !within(&container.resources.clone().unwrap_or_default(), &actual)
        });
        differs.map(|container| format!("{} still has its old resources", container.name))
    }

    /// Why the pod does not count as running; nothing when it does.
    fn not_running(&self) -> Option<String> {
        let status = self.0.status.clone().unwrap_or_default();
        let statuses: Vec<_> = status.container_statuses.into_iter().flatten().collect();
        let wanted = self.0.spec.as_ref().map_or(0, |spec| spec.containers.len());
        if statuses.len() == wanted && statuses.iter().all(running) {
            return None;
        }
        let init = status.init_container_statuses.into_iter().flatten();
        let waiting = statuses.iter().cloned().chain(init).find_map(|s| {
            let waiting = s.state?.waiting?;
            let reason = waiting.reason.unwrap_or_default();
            Some(format!("{} {reason} {}", s.name, waiting.message.unwrap_or_default()))
        });
        Some(waiting.or(status.message).unwrap_or_else(|| status.phase.unwrap_or_else(|| "no status yet".to_owned())))
    }
}

fn running(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

/// Whether everything that is wanted is there. A status may show more: limits of the pod level, for example.
fn within(wanted: &ResourceRequirements, actual: &ResourceRequirements) -> bool {
    [(&wanted.requests, &actual.requests), (&wanted.limits, &actual.limits)].into_iter().all(|(wanted, actual)| {
        wanted.iter().flatten().all(|(name, quantity)| actual.as_ref().and_then(|actual| actual.get(name)) == Some(quantity))
    })
}

fn request(what: impl Into<String>) -> impl FnOnce(kube::Error) -> ApiError {
    let what = what.into();
    move |source| ApiError::Request { what, source: Box::new(source) }
}
