//! How much latency a pod can bear: what its owner says, else what its form says by the field's habits. The rule is kept with the answer.

use crate::kubelet::{Pod, QosClass};
use serde::Serialize;

/// The label, or annotation, by which an owner says the need. It goes before every habit.
pub const LABEL: &str = "highwater/latency";

/// The classes of the talk's decision framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// A database, etcd or the control plane: no swap, ever.
    Storage,
    /// Below a millisecond: no swap, ever.
    SubMs,
    /// Below 100 ms: no swap in the framework.
    #[serde(rename = "sub-100ms")]
    Sub100Ms,
    /// Seconds are borne: swap as a safety net.
    Relaxed,
    /// Nothing says it: measure.
    Unknown,
}

impl Need {
    const SAID: [Need; 4] = [Need::Storage, Need::SubMs, Need::Sub100Ms, Need::Relaxed];

    /// As it is typed in the label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Need::Storage => "storage",
            Need::SubMs => "sub-ms",
            Need::Sub100Ms => "sub-100ms",
            Need::Relaxed => "relaxed",
            Need::Unknown => "unknown",
        }
    }

    /// Whether the framework wants no swap for it.
    #[must_use]
    pub const fn forbids_swap(self) -> bool {
        matches!(self, Need::Storage | Need::SubMs | Need::Sub100Ms)
    }
}

/// A need and the rule that found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Classified {
    /// The need.
    pub need: Need,
    /// The rule, with what it matched.
    pub rule: String,
}

/// Programs that keep state which others wait for, as image and container names say them.
const STORAGE: [&str; 15] = [
    "etcd",
    "postgres",
    "mysql",
    "mariadb",
    "mongo",
    "redis",
    "valkey",
    "cassandra",
    "cockroach",
    "clickhouse",
    "elasticsearch",
    "opensearch",
    "kafka",
    "zookeeper",
    "kube-apiserver",
];
/// Words of priority class names.
const URGENT: [&str; 4] = ["realtime", "latency", "critical", "urgent"];
const PATIENT: [&str; 7] = ["batch", "low", "background", "offline", "preemptible", "spot", "opportunistic"];

/// Classifies a pod. `owners` are the kinds of its owners.
///
/// # Errors
/// The label holds no class.
pub fn classify(pod: &Pod, qos: QosClass, owners: &[String]) -> Result<Classified, String> {
    let found = |need, rule: String| Ok(Classified { need, rule });
    let (labels, annotations) = (&pod.metadata.labels, &pod.metadata.annotations);
    if let Some((kind, value)) = labels.get(LABEL).map(|v| ("label", v)).or(annotations.get(LABEL).map(|v| ("annotation", v))) {
        let known = Need::SAID.into_iter().find(|need| need.name() == value);
        let need = known.ok_or_else(|| {
            let names = Need::SAID.map(Need::name).join(", ");
            format!("{kind} {LABEL} is {value:?}: use one of {names}")
        })?;
        return found(need, format!("{kind} {LABEL}"));
    }
    if pod.is_critical() {
        return found(Need::Storage, "critical pod (static, mirror or system priority)".to_owned());
    }
    if let Some(name) = pod.containers().flat_map(|c| [image(&c.image), c.name.as_str()]).find(|name| is_storage(name)) {
        return found(Need::Storage, format!("program {name}"));
    }
    let class = pod.spec.priority_class_name.to_lowercase().replace("real-time", "realtime");
    let word = |list: &[&str]| class.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| list.contains(&word));
    match (word(&URGENT), word(&PATIENT)) {
        (true, _) => return found(Need::Sub100Ms, format!("priority class {}", pod.spec.priority_class_name)),
        (_, true) => return found(Need::Relaxed, format!("priority class {}", pod.spec.priority_class_name)),
        _ => {}
    }
    if owners.iter().any(|kind| kind == "Job") {
        return found(Need::Relaxed, "owned by a Job".to_owned());
    }
    match qos {
        QosClass::Guaranteed => found(Need::Sub100Ms, "QoS Guaranteed: somebody wanted no surprises".to_owned()),
        QosClass::BestEffort => found(Need::Relaxed, "QoS BestEffort: nothing was promised".to_owned()),
        QosClass::Burstable => found(Need::Unknown, "nothing says it".to_owned()),
    }
}

/// The image's own name, without registry, tag and digest.
fn image(reference: &str) -> &str {
    let name = reference.rsplit('/').next().unwrap_or_default();
    name.split([':', '@']).next().unwrap_or_default()
}

/// Whether a word of the name begins with one of the programs: "postgresql-ha" does, "redistribute" does not.
fn is_storage(name: &str) -> bool {
    const SUFFIXES: [&str; 7] = ["", "db", "ql", "sql", "_exporter", "gres", "server"];
    let begins =
        |word: &str| STORAGE.iter().any(|program| word.strip_prefix(program).is_some_and(|rest| SUFFIXES.contains(&rest)));
    name.contains("kube-apiserver") || (!name.contains("exporter") && name.split(['-', '_', '.']).any(begins))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(json: serde_json::Value) -> Pod {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn the_first_rule_that_knows_something_answers() {
        let image = |image: &str| json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": image}]}});
        let class =
            |class: &str| json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], "priorityClassName": class}});
        let label = |value: &str| json!({"metadata": {"name": "p", "labels": {LABEL: value}}, "spec": {"containers": [{"name": "etcd"}]}});
        let critical = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], "priority": 2_000_000_000}});
        for (json, need, rule) in [
            (label("relaxed"), Need::Relaxed, "label highwater/latency"),
            (critical, Need::Storage, "critical pod"),
            (image("registry:5000/db/postgresql-ha:16@sha256:1"), Need::Storage, "program postgresql-ha"),
            (image("mongodb"), Need::Storage, "program mongodb"),
            (image("redistribute"), Need::Unknown, "nothing"),
            (image("postgres-exporter"), Need::Unknown, "nothing"),
            (class("real-time"), Need::Sub100Ms, "priority class real-time"),
            (class("low-priority"), Need::Relaxed, "priority class low-priority"),
            (class("allowed"), Need::Unknown, "nothing"),
        ] {
            let found = classify(&pod(json), QosClass::Burstable, &[]).unwrap();
            assert_eq!(found.need, need, "{found:?}");
            assert!(found.rule.starts_with(rule), "{found:?}");
        }
        let plain = pod(image("web"));
        assert_eq!(classify(&plain, QosClass::Burstable, &["Job".to_owned()]).unwrap().need, Need::Relaxed);
        assert_eq!(classify(&plain, QosClass::Guaranteed, &[]).unwrap().need, Need::Sub100Ms);
        assert_eq!(classify(&plain, QosClass::BestEffort, &[]).unwrap().need, Need::Relaxed);
        assert!(classify(&pod(label("fast")), QosClass::Burstable, &[]).unwrap_err().contains("sub-100ms"));
    }
}
