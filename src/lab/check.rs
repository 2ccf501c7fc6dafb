//! What cannot be: impossible nodes, pods that contradict themselves, scripts and expectations that name what is not there.

mod alerts;
mod expect;
mod node;
mod pods;
mod script;

use super::Arm;
use super::file::LabFile;
use super::resolve::ArmTree;
use crate::yaml::{Node, Path, Problems};
use std::collections::BTreeSet;

/// Checks one resolved arm, as far as it could be read.
pub(super) fn arm(parts: &ArmTree, tree: &Node, problems: &mut Problems) {
    if let (Some(node), Some(kubelet)) = (&parts.node, &parts.kubelet) {
        node::check(node, kubelet, tree, problems);
    }
    for (key, pod) in &parts.pods {
        if let Some(pod) = pod {
            pods::check(key, pod, parts, tree, problems);
        }
    }
    pods::check_sum(parts, tree, problems);
    if let Some(phases) = &parts.phases {
        script::check(phases, &parts.pods.keys().map(String::as_str).collect::<Vec<_>>(), tree, problems);
    }
}

/// Checks what the lab says about its arms.
pub(super) fn lab(file: &LabFile, arms: &[Arm], root: &Node, problems: &mut Problems) {
    if file.title.contains('\n') {
        problems.push(root.blame("title", "must be one line"));
    }
    if !(file.scale.factor.is_finite() && file.scale.factor > 0.0) {
        problems.push(root.blame("scale.factor", "must be above 0; 1 means nothing was scaled"));
    }
    let names: Vec<_> = file.arms.iter().map(|a| a.name.as_str()).collect();
    unique(&names, "arms", root, problems);
    for (i, name) in names.iter().enumerate() {
        if !dns_label(name) {
            problems.push(root.blame(format!("arms[{i}].name"), BAD_NAME));
        }
    }
    let known = |name: &str| names.contains(&name);
    if !known(&file.baseline) {
        problems.push(root.blame("baseline", no_arm(&file.baseline, &names)));
    }
    expect::check(file, arms, root, problems);
    alerts::check(file, root, problems);
}

const BAD_NAME: &str = "a name must consist of lower-case letters, digits and dashes, and begin and end with a letter or digit";

/// RFC 1123, as Kubernetes wants names; also safe as a file's name.
fn dns_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.len() <= 63 && name.chars().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}

fn no_arm(name: &str, known: &[&str]) -> String {
    format!("there is no arm {name}: arms are {}", known.join(", "))
}

/// Reports names that stand twice in a list.
fn unique(names: &[&str], list: &str, root: &Node, problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for (i, name) in names.iter().enumerate() {
        if !seen.insert(name) {
            let items = root.nearest(&Path::from(list)).items();
            let path = Path::from(format!("{list}[{i}]"));
            let node = items.get(i).unwrap_or(root);
            problems.push(node.problem(&path, format!("the name {name} stands twice: names must differ")));
        }
    }
}
