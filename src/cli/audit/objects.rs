//! Nodes and pods as the API server shows them: what an audit needs of each.

use crate::cli::plan::manifests::{below, documents};
use crate::kubelet::{NodeFacts, Pod, Version};
use crate::study::audit::{ClusterNode, ClusterPod};
use crate::units::Quantity;
use crate::yaml::{Node, Path, Problems};

/// What the files hold.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) nodes: Vec<ClusterNode>,
    pub(super) pods: Vec<ClusterPod>,
    /// Pods that have ended and so hold no memory.
    pub(super) ended: usize,
    /// Objects of other kinds, as "Kind name".
    pub(super) skipped: Vec<String>,
}

/// Reads the files.
///
/// # Errors
/// Every error of every file.
pub(super) fn read(files: &[String], version: Option<Version>, swap: Option<Quantity>) -> Result<Cluster, Problems> {
    let mut problems = Problems::default();
    let mut reader = Reader { cluster: Cluster::default(), version, swap };
    let documents = documents(files, &mut problems);
    for document in &documents {
        problems.keep(reader.add(document, &Path::root()));
    }
    if problems.is_empty() && reader.cluster.nodes.is_empty() {
        let at = documents
            .first()
            .map(|document| document.problem(&Path::root(), "no Node: ask for `kubectl get nodes,pods -A -o json`"));
        at.into_iter().for_each(|problem| problems.push(problem));
    }
    problems.or(reader.cluster)
}

struct Reader {
    cluster: Cluster,
    version: Option<Version>,
    swap: Option<Quantity>,
}

impl Reader {
    fn add(&mut self, object: &Node, path: &Path) -> Result<(), Problems> {
        let Some(kind) = object.get("kind").and_then(Node::text) else {
            return Err(object.problem(&path.key("kind"), "missing: an object says its kind, for example Pod").into());
        };
        match kind {
            "Node" => {
                let node = self.node(object, path)?;
                if self.cluster.nodes.iter().any(|known| known.name == node.name) {
                    return Err(object.problem(path, format!("a second Node {}", node.name)).into());
                }
                self.cluster.nodes.push(node);
            }
            "Pod" if finished(object) => self.cluster.ended += 1,
            "Pod" => self.cluster.pods.push(pod(object, path)?),
            _ if kind.ends_with("List") => {
                let mut problems = Problems::default();
                let items = path.key("items");
                for (index, item) in object.get("items").map_or(&[][..], Node::items).iter().enumerate() {
                    problems.keep(self.add(item, &items.item(index, item)));
                }
                return problems.or(());
            }
            _ => self.cluster.skipped.push(format!("{kind} {}", text(object, &["metadata", "name"]).unwrap_or("without a name"))),
        }
        Ok(())
    }

    fn node(&self, object: &Node, path: &Path) -> Result<ClusterNode, Problems> {
        let mut problems = Problems::default();
        let name = problems.keep(required(object, path, "metadata.name", |node| {
            node.text().map(str::to_owned).ok_or("must be a text".to_owned())
        }));
        let memory = problems.keep(required(object, path, "status.capacity.memory", bytes));
        let allocatable = problems.keep(required(object, path, "status.allocatable.memory", bytes));
        let swap = match (self.swap, at(object, &["status", "nodeInfo", "swap", "capacity"])) {
            (Some(swap), _) => Some(u64::try_from(swap.ceil()).unwrap_or(0)),
            (None, None) => Some(0),
            (None, Some(_)) => problems.keep(required(object, path, "status.nodeInfo.swap.capacity", bytes)),
        };
        let version = match self.version {
            Some(version) => Some(version),
            None => problems.keep(required(object, path, "status.nodeInfo.kubeletVersion", |node| {
                let text = node.text().ok_or("must be a text such as v1.37.2")?;
                text.parse().map_err(|error| format!("{error}, with --kubernetes"))
            })),
        };
        match (name, memory, allocatable, swap, version) {
            (Some(name), Some(memory), Some(allocatable), Some(swap), Some(kubernetes)) if problems.is_empty() => {
                Ok(ClusterNode { name, kubernetes, facts: NodeFacts::new(memory, swap), allocatable })
            }
            _ => problems.or(()).and_then(|()| Err(object.problem(path, "cannot be read").into())),
        }
    }
}

fn pod(object: &Node, path: &Path) -> Result<ClusterPod, Problems> {
    let pod: Pod = object.decode_at(path)?;
    let mut problems = Problems::default();
    for (field, message) in pod.problems() {
        problems.push(object.nearest(&Path::from(field.as_str())).problem(&below(path, &field), message));
    }
    let owners = at(object, &["metadata", "ownerReferences"]).map_or(&[][..], Node::items);
    let owners = owners.iter().filter_map(|owner| text(owner, &["kind"]).map(str::to_owned)).collect();
    let statuses = ["initContainerStatuses", "containerStatuses"].iter().filter_map(|list| at(object, &["status", list]));
    let killed = |status: &&Node| {
        let ends = ["state", "lastState"].iter().filter_map(|state| text(status, &[state, "terminated", "reason"]));
        ends.into_iter().any(|reason| reason == "OOMKilled")
    };
    let oom_killed =
        statuses.flat_map(Node::items).filter(killed).filter_map(|status| text(status, &["name"]).map(str::to_owned));
    let found = ClusterPod { owners, oom_killed: oom_killed.collect(), pod };
    problems.or(found)
}

/// Whether a pod has ended for good: it is listed, and holds no memory.
fn finished(object: &Node) -> bool {
    matches!(text(object, &["status", "phase"]), Some("Succeeded" | "Failed"))
}

fn at<'a>(object: &'a Node, keys: &[&str]) -> Option<&'a Node> {
    keys.iter().try_fold(object, |node, key| node.get(key))
}

fn text<'a>(object: &'a Node, keys: &[&str]) -> Option<&'a str> {
    at(object, keys)?.text()
}

fn bytes(node: &Node) -> Result<u64, String> {
    let quantity: Quantity =
        node.decode().map_err(|problems| problems.iter().map(|p| p.message.clone()).collect::<Vec<_>>().join(", "))?;
    u64::try_from(quantity.ceil()).map_err(|_| format!("{quantity} must not be negative"))
}

/// A field that must be there, read.
fn required<T>(object: &Node, path: &Path, field: &str, read: impl Fn(&Node) -> Result<T, String>) -> Result<T, Problems> {
    let keys: Vec<&str> = field.split('.').collect();
    let (nearest, path) = (object.nearest(&Path::from(field)), below(path, field));
    match at(object, &keys) {
        Some(node) => read(node).map_err(|message| node.problem(&path, message).into()),
        None => Err(nearest.problem(&path, "missing").into()),
    }
}
