//! Manifests: Pods, and whatever makes Pods, from files, directories and standard input.

use crate::kubelet::{KubeletConfiguration, Pod};
use crate::yaml::{Entry, Kind, Node, Path, Problem, Problems};
use camino::{Utf8Path, Utf8PathBuf};
use std::io::Read;

/// What the manifests hold.
#[derive(Debug, Default)]
pub(in crate::cli) struct Manifests {
    /// Pods, in the order found.
    pub(in crate::cli) pods: Vec<Pod>,
    /// The KubeletConfiguration, if there is one, also as it was written.
    pub(in crate::cli) kubelet: Option<(KubeletConfiguration, serde_json::Value)>,
    /// The v1 Node, if there is one.
    pub(in crate::cli) node: Option<Node>,
    /// Objects that do not matter here, as "Kind name".
    pub(in crate::cli) skipped: Vec<String>,
}

/// How many pods of a workload run on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum Replicas {
    /// One of each.
    One,
    /// As many as the workload asks for.
    All,
}

/// Reads manifests.
///
/// # Errors
/// Every error of every file.
pub(in crate::cli) fn read(arguments: &[String], replicas: Replicas) -> Result<Manifests, Problems> {
    let mut problems = Problems::default();
    let mut found = Manifests::default();
    for document in documents(arguments, &mut problems) {
        problems.keep(found.add(&document, &Path::root(), replicas));
    }
    problems.or(found)
}

/// The documents of the arguments, without nulls.
pub(in crate::cli) fn documents(arguments: &[String], problems: &mut Problems) -> Vec<Node> {
    let mut documents = Vec::new();
    for (name, text) in texts(arguments, problems) {
        documents.extend(problems.keep(crate::yaml::read_many(&name, &text)).into_iter().flatten().map(without_nulls));
    }
    documents
}

/// The texts of the arguments: "-" is standard input, a directory stands for its YAML and JSON files, also those further down.
pub(in crate::cli) fn texts(arguments: &[String], problems: &mut Problems) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for argument in arguments {
        if argument == "-" {
            let mut text = String::new();
            match std::io::stdin().read_to_string(&mut text) {
                Ok(_) => texts.push(("-".to_owned(), text)),
                Err(error) => problems.push(Problem::of_file("-", error.to_string())),
            }
            continue;
        }
        let mut files = Vec::new();
        if let Err(error) = walk(Utf8Path::new(argument), &mut files) {
            problems.push(Problem::of_file(argument, error.to_string()));
        }
        for file in files {
            match fs_err::read_to_string(&file) {
                Ok(text) => texts.push((file.to_string(), text)),
                Err(error) => problems.push(Problem::of_file(file.as_str(), error.to_string())),
            }
        }
    }
    texts
}

fn walk(path: &Utf8Path, files: &mut Vec<Utf8PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut entries = path.read_dir_utf8()?.map(|entry| Ok(entry?.into_path())).collect::<std::io::Result<Vec<_>>>()?;
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            walk(&entry, files)?;
        } else if matches!(entry.extension(), Some("yaml" | "yml" | "json")) {
            files.push(entry);
        }
    }
    Ok(())
}

/// Kubernetes takes null for absent.
fn without_nulls(node: Node) -> Node {
    let kind = match node.kind {
        Kind::Map(entries) => Kind::Map(
            entries
                .into_iter()
                .filter(|entry| entry.value.kind != Kind::Null)
                .map(|entry| Entry { value: without_nulls(entry.value), ..entry })
                .collect(),
        ),
        Kind::List(items) => Kind::List(items.into_iter().map(without_nulls).collect()),
        other => other,
    };
    Node { kind, mark: node.mark }
}

impl Manifests {
    fn add(&mut self, object: &Node, path: &Path, replicas: Replicas) -> Result<(), Problems> {
        let Some(kind) = object.get("kind").and_then(Node::text) else {
            return Err(object.problem(&path.key("kind"), "missing: a manifest says its kind, for example Pod").into());
        };
        let spec = path.key("spec");
        let template = spec.key("template");
        match kind {
            "Pod" => self.pod(object, object, path, 1, "")?,
            "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet" => {
                let count = count(object, &spec, "replicas", replicas)?;
                self.pod(object, at(object, &["spec", "template"], &template)?, &template, count, kind)?;
            }
            "DaemonSet" => self.pod(object, at(object, &["spec", "template"], &template)?, &template, 1, kind)?,
            "Job" => {
                let count = count(object, &spec, "parallelism", replicas)?;
                self.pod(object, at(object, &["spec", "template"], &template)?, &template, count, kind)?;
            }
            "CronJob" => {
                let path = spec.key("jobTemplate").key("spec").key("template");
                self.pod(object, at(object, &["spec", "jobTemplate", "spec", "template"], &path)?, &path, 1, kind)?;
            }
            "KubeletConfiguration" => {
                if self.kubelet.is_some() {
                    return Err(object.problem(path, "a second KubeletConfiguration: there can be only one").into());
                }
                self.kubelet = Some((object.decode_at(path)?, object.to_json()));
            }
            "Node" => self.node = Some(object.clone()),
            _ if kind.ends_with("List") => {
                let mut problems = Problems::default();
                let items = path.key("items");
                for (index, item) in object.get("items").map_or(&[][..], Node::items).iter().enumerate() {
                    problems.keep(self.add(item, &items.item(index, item), replicas));
                }
                return problems.or(());
            }
            _ => {
                let name = object.get("metadata").and_then(|m| m.get("name")).and_then(Node::text).unwrap_or("without a name");
                self.skipped.push(format!("{kind} {name}"));
            }
        }
        Ok(())
    }

    /// Adds the pods of a template; those of a workload are named after it.
    fn pod(&mut self, object: &Node, template: &Node, path: &Path, count: u64, kind: &str) -> Result<(), Problems> {
        let mut pod: Pod = template.decode_at(path)?;
        let mut problems = Problems::default();
        if kind.is_empty() {
            for (field, message) in pod.problems() {
                problems.push(template.nearest(&Path::from(field.as_str())).problem(&below(path, &field), message));
            }
            self.pods.push(pod);
            return problems.or(());
        }
        let metadata = |key| object.get("metadata").and_then(|m| m.get(key)).and_then(Node::text).unwrap_or_default().to_owned();
        pod.metadata.namespace = metadata("namespace");
        pod.metadata.uid.clear();
        let name = metadata("name");
        for index in 0..count {
            let mut pod = pod.clone();
            pod.metadata.name = if count > 1 || kind == "StatefulSet" { format!("{name}-{index}") } else { name.clone() };
            if index == 0 {
                for (field, message) in pod.problems() {
                    problems.push(template.nearest(&Path::from(field.as_str())).problem(&below(path, &field), message));
                }
            }
            self.pods.push(pod);
        }
        problems.or(())
    }
}

/// The path of a field that is named from the object's own root.
pub(in crate::cli) fn below(path: &Path, field: &str) -> Path {
    if path.is_root() { Path::from(field) } else { Path::from(format!("{path}.{field}")) }
}

fn at<'a>(object: &'a Node, keys: &[&str], path: &Path) -> Result<&'a Node, Problems> {
    let found = keys.iter().try_fold(object, |node, key| node.get(key));
    found.ok_or_else(|| object.problem(path, "missing: a workload has a template of its pods").into())
}

fn count(object: &Node, spec: &Path, field: &str, replicas: Replicas) -> Result<u64, Problems> {
    let Some(value) = object.get("spec").and_then(|spec| spec.get(field)) else { return Ok(1) };
    let count: u64 = value.decode_at(&spec.key(field))?;
    Ok(match replicas {
        Replicas::All => count,
        Replicas::One => count.min(1),
    })
}
