//! From the documents of a lab to its resolved shape: every arm on its own, every name found, every error told.

use super::file::LabFile;
use super::key::{comparability_key, differing};
use super::{
    Acceptance, Alerts, Budget, Expectation, LabFiles, Lesson, NodeShape, Phase, Scale, SourceFile, Span, Sweep, check, lesson,
    merge, pod,
};
use crate::kubelet::{KubeletConfiguration, NodeFacts, Pod};
use crate::yaml::{self, Entry, Kind, Mark, Node, Path, Problem, Problems};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// A lab that can be run.
#[derive(Debug, Clone)]
pub struct Lab {
    /// Its name in the catalogue, or its directory's.
    pub name: String,
    /// One line.
    pub title: String,
    /// What it answers.
    pub question: String,
    /// Where the question comes from.
    pub source: SourceFile,
    /// How sizes relate to the source's.
    pub scale: Scale,
    /// Seeds every generator.
    pub seed: u64,
    /// Time between readings.
    pub sample_every: Span,
    /// The arm others are compared with.
    pub baseline: String,
    /// The arms, in the file's order.
    pub arms: Vec<Arm>,
    /// What arms differ in.
    pub vary: Vec<String>,
    /// Hash of all they share.
    pub key: String,
    /// What must be seen.
    pub expectations: Vec<Expectation>,
    /// Rules by which a policy is accepted.
    pub acceptance: Option<Acceptance>,
    /// What is swept by default; in a swept lab, what was.
    pub sweep: Option<Sweep>,
    /// Prometheus alerts to evaluate on the samples.
    pub alerts: Option<Alerts>,
    /// What the lab may cost.
    pub budget: Budget,
    /// What to predict before running it, and what to make of it.
    pub lesson: Option<Lesson>,
    /// The lesson's file as it was read.
    pub lesson_text: Option<String>,
    /// All documents as one text; reading it again gives the same lab.
    pub text: String,
}

/// One arm.
#[derive(Debug, Clone)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// What it stands for.
    pub about: String,
    /// The node.
    pub node: NodeShape,
    /// The kubelet's configuration.
    pub kubelet: KubeletConfiguration,
    /// The pods by name, each with a uid.
    pub pods: Vec<Pod>,
    /// The script.
    pub phases: Vec<Phase>,
}

impl Arm {
    /// The machine as the kubelet sees it: one vCPU.
    #[must_use]
    pub fn facts(&self) -> NodeFacts {
        NodeFacts { cpu_millis: Some(1000), ..NodeFacts::new(self.node.memory.0, self.node.swap_bytes()) }
    }
}

impl Lab {
    /// An arm by name.
    #[must_use]
    pub fn arm(&self, name: &str) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.name == name)
    }

    /// An arm by name, or a sentence that says which there are.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn known_arm(&self, name: &str) -> Result<&Arm, String> {
        let names = || self.arms.iter().map(|arm| arm.name.as_str()).collect::<Vec<_>>().join(", ");
        self.arm(name).ok_or_else(|| format!("there is no arm {name} in {}: arms are {}", self.name, names()))
    }
}

/// The tree that patches apply to, decoded part by part so that an error in one hides none of another.
#[derive(Debug)]
pub(super) struct ArmTree {
    pub node: Option<NodeShape>,
    pub kubelet: Option<KubeletConfiguration>,
    pub pods: BTreeMap<String, Option<Pod>>,
    pub phases: Option<Vec<Phase>>,
}

impl ArmTree {
    fn decode(tree: &Node, problems: &mut Problems) -> ArmTree {
        fn part<T: DeserializeOwned>(tree: &Node, key: &str, problems: &mut Problems) -> Option<T> {
            match tree.get(key) {
                Some(node) => problems.keep(node.decode_at(&key.into())),
                None => problems.keep(Err(tree.problem(&Path::root(), format!("the field `{key}` is missing")).into())),
            }
        }
        for entry in tree.entries().iter().filter(|e| !["node", "kubelet", "pods", "phases"].contains(&e.key.as_str())) {
            let message = format!("unknown field `{}`: a patch holds node, kubelet, pods and phases", entry.key);
            problems.push(entry.mark.problem(&entry.key.as_str().into(), message));
        }
        let pods = tree.get("pods").map_or(&[][..], Node::entries).iter();
        ArmTree {
            node: part(tree, "node", problems),
            kubelet: part(tree, "kubelet", problems),
            pods: pods.map(|e| (e.key.clone(), problems.keep(e.value.decode_at(&Path::from("pods").key(&e.key))))).collect(),
            phases: part(tree, "phases", problems),
        }
    }
}

/// Reads, validates and resolves a lab.
///
/// # Errors
/// Every error of every file, with file, line and path.
pub fn load(files: &LabFiles) -> Result<Lab, Problems> {
    let mut problems = Problems::default();
    let documents = documents(files, &mut problems);
    let lab_node = one(files, &documents, "Lab", &mut problems);
    let kubelet_node = one(files, &documents, "KubeletConfiguration", &mut problems);
    let (Some(root), Some(kubelet)) = (lab_node, kubelet_node) else {
        return problems.or(()).and(Err(Problem::of_file(&files.name, "the lab cannot be read").into()));
    };
    if root.get("apiVersion").and_then(Node::text) != Some("highwater/v1alpha1") {
        problems.push(root.blame("apiVersion", "must be highwater/v1alpha1"));
    }
    if kubelet.get("apiVersion").and_then(Node::text) != Some("kubelet.config.k8s.io/v1beta1") {
        problems.push(kubelet.blame("apiVersion", "must be kubelet.config.k8s.io/v1beta1"));
    }
    let pods = pods(&documents, root, &mut problems);
    let base = base(root, kubelet, pods);
    let file: Option<LabFile> = problems.keep(root.decode());

    let (mut arms, mut trees) = (Vec::new(), Vec::new());
    for node in root.get("arms").map_or(&[][..], Node::items) {
        let name = node.get("name").and_then(Node::text).unwrap_or_default();
        let tree = node.get("patch").map_or_else(|| base.clone(), |patch| merge::merge(&base, patch));
        for entry in tree.get("pods").map_or(&[][..], Node::entries) {
            pod::check_pod(&entry.value, &Path::from("pods").key(&entry.key), &mut problems);
        }
        if let Some(kubelet) = tree.get("kubelet") {
            pod::check_kubelet(kubelet, &Path::from("kubelet"), &mut problems);
        }
        let parts = ArmTree::decode(&tree, &mut problems);
        check::arm(&parts, &tree, &mut problems);
        let about = node.get("about").and_then(Node::text).unwrap_or_default();
        arms.extend(arm(name, about, parts));
        trees.push((name, tree));
    }
    if trees.is_empty() {
        problems.push(root.blame("arms", "a lab needs at least one arm"));
    }
    let Some(file) = file else {
        return problems.or(()).and(Err(root.problem(&Path::root(), "the lab cannot be read").into()));
    };
    check::lab(&file, &arms, root, &mut problems);
    let named: Vec<_> = trees.iter().map(|(name, tree)| (*name, tree)).collect();
    let vary_nodes = root.get("vary").map_or(&[][..], Node::items);
    let vary: Vec<_> = file.vary.iter().map(String::as_str).zip(vary_nodes).collect();
    // Arms that could not be read differ for that reason only; the comparison would add noise.
    let key = if problems.is_empty() { problems.keep(comparability_key(&named, &vary)) } else { None };
    let lesson = files.lesson.as_ref().and_then(|(name, text)| problems.keep(lesson::read(name, text, &file.expectations)));
    let lab = Lab {
        lesson,
        lesson_text: files.lesson.as_ref().map(|(_, text)| text.clone()),
        name: files.name.clone(),
        title: file.title,
        question: file.question,
        source: file.source,
        scale: file.scale,
        seed: file.seed,
        sample_every: file.sample_every,
        baseline: file.baseline,
        arms,
        vary: file.vary,
        key: key.unwrap_or_default(),
        expectations: file.expectations,
        acceptance: file.acceptance,
        sweep: file.sweep,
        alerts: file.alerts,
        budget: file.budget,
        text: files.joined(),
    };
    problems.or(lab)
}

/// The fields in which two labs differ although neither is about them: what keeps their runs from being compared. Labs with equal keys
/// have none.
///
/// # Errors
/// A lab that cannot be read.
pub fn differences(one: &LabFiles, other: &LabFiles) -> Result<Vec<String>, Problems> {
    let (a, b) = (load(one)?, load(other)?);
    if a.key == b.key {
        return Ok(Vec::new());
    }
    let vary: Vec<_> = a.vary.iter().chain(&b.vary).cloned().collect();
    let (first, second) = (trees(one)?, trees(other)?);
    let mut found = match (first.first(), second.first()) {
        (Some(first), Some(second)) => differing(first, second, &vary),
        _ => Vec::new(),
    };
    let sorted = |lab: &Lab| lab.vary.iter().cloned().collect::<std::collections::BTreeSet<_>>();
    if sorted(&a) != sorted(&b) {
        found.push("vary".to_owned());
    }
    Ok(found)
}

/// The arms as trees, undecoded.
pub(super) fn trees(files: &LabFiles) -> Result<Vec<Node>, Problems> {
    let mut problems = Problems::default();
    let documents = documents(files, &mut problems);
    let lab = one(files, &documents, "Lab", &mut problems);
    let kubelet = one(files, &documents, "KubeletConfiguration", &mut problems);
    let mut trees = Vec::new();
    if let (Some(root), Some(kubelet)) = (lab, kubelet) {
        let base = base(root, kubelet, pods(&documents, root, &mut problems));
        let arms = root.get("arms").map_or(&[][..], Node::items).iter();
        trees.extend(arms.map(|arm| arm.get("patch").map_or_else(|| base.clone(), |patch| merge::merge(&base, patch))));
    }
    problems.or(trees)
}

fn documents(files: &LabFiles, problems: &mut Problems) -> Vec<Node> {
    let mut documents = Vec::new();
    for (name, text) in &files.files {
        for document in problems.keep(yaml::read_many(name, text)).unwrap_or_default() {
            match document.get("kind").and_then(Node::text) {
                Some("Lab" | "KubeletConfiguration" | "Pod") => documents.push(document),
                Some(other) => {
                    let message =
                        format!("`{other}` is not part of a lab: a lab holds one Lab, one KubeletConfiguration and Pods");
                    problems.push(document.blame("kind", message));
                }
                None => problems
                    .push(document.problem(&Path::root(), "the field `kind` is missing: Lab, KubeletConfiguration or Pod")),
            }
        }
    }
    documents
}

fn kind<'a>(documents: &'a [Node], kind: &'a str) -> impl Iterator<Item = &'a Node> {
    documents.iter().filter(move |d| d.get("kind").and_then(Node::text) == Some(kind))
}

fn one<'a>(files: &LabFiles, documents: &'a [Node], wanted: &'a str, problems: &mut Problems) -> Option<&'a Node> {
    let mut found = kind(documents, wanted);
    let first = found.next();
    if first.is_none() && problems.is_empty() {
        let file = if wanted == "Lab" { "lab.yaml" } else { "kubelet.yaml" };
        problems
            .push(Problem::of_file(&files.name, format!("no document of kind {wanted}: a lab needs one, by habit in {file}")));
    }
    if let Some(second) = found.next() {
        problems.push(second.blame("kind", format!("a second {wanted}: a lab holds exactly one")));
    }
    first
}

/// The Pods as a map by name.
fn pods(documents: &[Node], root: &Node, problems: &mut Problems) -> Node {
    let mut entries: Vec<Entry> = Vec::new();
    for pod in kind(documents, "Pod") {
        if pod.get("apiVersion").and_then(Node::text) != Some("v1") {
            problems.push(pod.blame("apiVersion", "must be v1"));
        }
        match pod.nearest(&"metadata.name".into()).text() {
            Some(name) if entries.iter().any(|e| e.key == name) => {
                problems.push(pod.blame("metadata.name", format!("a second pod named {name}: names must differ")));
            }
            Some(name) => {
                let value = drop_null_maps(pod);
                entries.push(Entry { key: name.to_owned(), mark: pod.nearest(&"metadata.name".into()).mark.clone(), value });
            }
            None => problems.push(pod.blame("metadata.name", "the pod's name is missing")),
        }
    }
    Node { kind: Kind::Map(entries), mark: root.mark.clone() }
}

/// A key with nothing behind it (`emptyDir:`) means the same as an empty map to Kubernetes.
fn drop_null_maps(node: &Node) -> Node {
    let kind = match &node.kind {
        Kind::Map(entries) => Kind::Map(
            entries
                .iter()
                .filter(|e| e.value.kind != Kind::Null)
                .map(|e| Entry { value: drop_null_maps(&e.value), ..e.clone() })
                .collect(),
        ),
        Kind::List(items) => Kind::List(items.iter().map(drop_null_maps).collect()),
        other => other.clone(),
    };
    Node { kind, mark: node.mark.clone() }
}

fn base(root: &Node, kubelet: &Node, pods: Node) -> Node {
    let part = |key: &str, value: &Node, mark: &Mark| Entry { key: key.to_owned(), mark: mark.clone(), value: value.clone() };
    let mut entries = vec![part("kubelet", kubelet, &kubelet.mark), part("pods", &pods, &pods.mark)];
    entries.extend(root.entries().iter().filter(|e| e.key == "node" || e.key == "phases").cloned());
    Node { kind: Kind::Map(entries), mark: root.mark.clone() }
}

fn arm(name: &str, about: &str, parts: ArmTree) -> Option<Arm> {
    let mut pods: Vec<Pod> = parts.pods.into_values().collect::<Option<_>>()?;
    pods.iter_mut().for_each(Pod::set_uid);
    Some(Arm {
        name: name.to_owned(),
        about: about.to_owned(),
        node: parts.node?,
        kubelet: parts.kubelet?,
        pods,
        phases: parts.phases?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::catalogue;

    fn fixture(path: &std::path::Path) -> LabFiles {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).unwrap();
        LabFiles { files: vec![(format!("{name}.yaml"), text)], name, lesson: None }
    }

    fn fixtures() -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/labs")
    }

    /// One file, one family of mistakes; the snapshot beside this file is everything the user is told.
    #[test]
    fn every_mistake_is_told_at_once() {
        let mut paths: Vec<_> = std::fs::read_dir(fixtures().join("bad")).unwrap().map(|e| e.unwrap().path()).collect();
        paths.sort();
        assert!(paths.len() >= 10);
        for path in paths {
            let files = fixture(&path);
            let problems = load(&files).expect_err(&files.name);
            insta::assert_snapshot!(format!("bad_{}", files.name), problems.to_string());
        }
    }

    #[test]
    fn the_lab_those_mistakes_were_made_in_is_good() {
        let lab = load(&fixture(&fixtures().join("good.yaml"))).unwrap();
        assert_eq!(lab.arms.len(), 2);
        assert_eq!(lab.arms[1].kubelet.memory_swap.swap_behavior, "NoSwap");
        assert_eq!(lab.arms[0].pods[0].metadata.uid.len(), 36);
    }

    #[test]
    fn fields_in_which_labs_differ_are_named_and_what_varies_is_not() {
        let good = fixture(&fixtures().join("good.yaml"));
        let with = |from: &str, to: &str| {
            let text = good.files[0].1.replace(from, to);
            assert_ne!(text, good.files[0].1, "{from} is in the lab");
            LabFiles { files: vec![("good.yaml".into(), text)], ..good.clone() }
        };
        assert_eq!(differences(&good, &good).unwrap(), Vec::<String>::new());
        let other = with("memory: 256Mi", "memory: 252Mi");
        assert_eq!(differences(&good, &other).unwrap(), ["node.memory"]);
        assert_ne!(load(&good).unwrap().key, load(&other).unwrap().key);
    }

    #[test]
    fn labs_of_the_catalogue_are_good_and_their_joined_text_is_the_same_lab() {
        for files in catalogue() {
            let lab = load(&files).unwrap_or_else(|e| panic!("{e}"));
            let again = load(&LabFiles::from_joined("lab.yaml", lab.text.clone())).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(again.name, lab.name);
            assert_eq!(again.key, lab.key, "{}", lab.name);
            assert_eq!(again.arms.len(), lab.arms.len());
        }
    }
}
