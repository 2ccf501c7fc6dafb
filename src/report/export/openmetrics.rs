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
