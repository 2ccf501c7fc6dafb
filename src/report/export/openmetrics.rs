//! Samples as OpenMetrics text with timestamps: what `promtool tsdb create-blocks-from openmetrics` takes.

use super::names::{FAMILIES, Family, Kind};
use crate::record::{Plan, Role};
use crate::study::Scrape;
use std::fmt::Write;

/// Collects scrapes by family, since a family's samples must stand together.
#[derive(Debug, Default)]
pub struct OpenMetrics {
    families: Vec<String>,
    /// Unix nanoseconds at which every arm begins.
    start_ns: u64,
}

impl OpenMetrics {
    /// Nothing yet.
    #[must_use]
    pub fn starting_at(start_ns: u64) -> OpenMetrics {
        OpenMetrics { families: vec![String::new(); FAMILIES.len()], start_ns }
    }

    /// What stood in an arm at one moment. Arms are told apart by the label `arm`.
    pub fn add(&mut self, arm: &str, plan: &Plan, scrape: &Scrape<'_>) {
        let at = self.start_ns + scrape.at_ns;
        let stamp = format!("{}.{:03}", at / 1_000_000_000, at / 1_000_000 % 1000);
        let limits =
            |role: &Role, file: &str| plan.cgroup(role).and_then(|c| c.value(file)).and_then(|v| v.parse().ok()).unwrap_or(0);
        for (role, standing) in scrape.cgroups {
            let labels = labels(arm, role, &standing.cgroup);
            for (family, text) in FAMILIES.iter().zip(&mut self.families) {
                if let Some(value) = family.value(role, standing, &limits, (plan.node_memory, plan.node_swap)) {
                    let own = family.label.map(|(name, value)| format!(",{name}=\"{value}\"")).unwrap_or_default();
                    let _ = writeln!(text, "{}{{{labels}{own}}} {value} {stamp}", family.sample());
                }
            }
        }
    }

    /// The whole text.
    #[must_use]
    pub fn finish(self) -> String {
        let mut out = String::new();
        let mut before = "";
        for (family, text) in FAMILIES.iter().zip(&self.families).filter(|(_, text)| !text.is_empty()) {
            if family.name != before {
                let Family { name, help, .. } = family;
                let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {}", kind(family.kind));
                before = name;
            }
            out += text;
        }
        out + "# EOF\n"
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Gauge => "gauge",
        Kind::Counter => "counter",
        Kind::Unknown => "unknown",
    }
}

/// Labels as the kubelet's cAdvisor gives them; a pod's own cgroup has no container.
fn labels(arm: &str, role: &Role, path: &str) -> String {
    let (pod, container) = match role {
        Role::Node => return format!("arm=\"{}\",instance=\"node\"", escape(arm)),
        Role::Pod { pod } => (pod.as_str(), ""),
        Role::Container { pod, container } => (pod.as_str(), container.as_str()),
        Role::Sandbox { pod } => (pod.as_str(), "POD"),
        Role::Kubepods | Role::Qos { .. } | Role::System { .. } => ("", ""),
    };
    let namespace = if pod.is_empty() { "" } else { "default" };
    let parts = [("arm", arm), ("container", container), ("id", path), ("namespace", namespace), ("pod", pod)];
    let parts: Vec<_> = parts.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
    parts.join(",")
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab;

    /// Each metric that an expression names, with the labels it asks for.
    fn asked(expression: &str) -> Vec<(String, Vec<String>)> {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let starts = ["container_", "node_"].into_iter().flat_map(|start| expression.match_indices(start));
        let starts = starts.filter(|(at, _)| !expression[..*at].ends_with(word));
        let metric = |(at, _): (usize, &str)| {
            let name: String = expression[at..].chars().take_while(|c| word(*c)).collect();
            let selector = expression[at + name.len()..].strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let matchers = selector.map_or("", |(matchers, _)| matchers).split(',').filter(|m| !m.is_empty());
            let labels = matchers.map(|m| m.chars().take_while(|c| word(*c)).collect());
            (name, labels.collect())
        };
        starts.map(metric).collect()
    }

    /// The names of the labels that samples of a family carry.
    fn carried(family: &Family) -> Vec<String> {
        let container = Role::Container { pod: "p".into(), container: "c".into() };
        let text = labels("a", if family.node { &Role::Node } else { &container }, "/x");
        let own = family.label.map(|(name, _)| name.to_owned());
        text.split(',').filter_map(|part| Some(part.split_once('=')?.0.to_owned())).chain(own).collect()
    }

    #[test]
    fn dashboard_and_rules_ask_for_exported_names_and_labels() {
        let board = crate::report::export::dashboard();
        let queries = board["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap());
        let mut expressions: Vec<String> = queries.map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
        expressions.push(board["templating"]["list"][1]["query"].as_str().unwrap().to_owned());
        let boards = expressions.len();
        for files in lab::catalogue() {
            let lab = lab::load(&files).unwrap();
            let rules = lab.alerts.iter().map(|alerts| crate::report::rules(alerts, Some(1000.0)).unwrap());
            for text in rules.collect::<Vec<_>>() {
                let file: serde_json::Value = crate::yaml::read("rules.yaml", &text).unwrap().decode().unwrap();
                let groups = file["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
                expressions.extend(groups.map(|rule| rule["expr"].as_str().unwrap().to_owned()));
            }
        }
        assert!(boards > 10 && expressions.len() >= boards + 3, "{expressions:?}");
        for expression in &expressions {
            let asked = asked(expression);
            assert!(!asked.is_empty(), "{expression}");
            for (name, labels) in asked {
                let family = FAMILIES.iter().find(|f| f.sample() == name);
                let family = family.unwrap_or_else(|| panic!("{name} of {expression} is not exported"));
                let carried = carried(family);
                assert!(labels.iter().all(|label| carried.contains(label)), "{expression}: {name} carries {carried:?}");
            }
        }
    }

    #[test]
    fn a_metric_and_its_labels_are_found_in_an_expression() {
        let found = asked(r#"rate(node_x_total{arm=~"$arm",y!=""}[1m]) / container_z > 0"#);
        let text = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        assert_eq!(found, [("container_z".to_owned(), vec![]), ("node_x_total".to_owned(), text(&["arm", "y"]))]);
    }

    #[test]
    fn label_values_cannot_end_their_label() {
        let role = Role::Container { pod: "p\"} 1\n".into(), container: "c".into() };
        let found = labels("a\\", &role, "/x");
        assert_eq!(found, r#"arm="a\\",container="c",id="/x",namespace="default",pod="p\"} 1\n""#);
    }

    #[test]
    fn families_of_one_name_stand_together() {
        let mut names: Vec<_> = FAMILIES.iter().map(|f| f.name).collect();
        names.dedup();
        let mut distinct = names.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(names.len(), distinct.len());
    }
}
