//! A rollback as a runbook: the steps from one Memory QoS policy to another while pods run, with the answer to expect after each.

use super::{Action, Replay};
use crate::kubelet::{Container, KubeletConfiguration, Pod, Refusal, Stale, StaleUntil, kernel_default};
use crate::units::{Format, Quantity};
use serde::Serialize;
use std::collections::BTreeMap;

/// The way back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Runbook {
    /// In order.
    pub steps: Vec<RunbookStep>,
    /// Other orders: what refuses them, or what they leave behind.
    pub wrong: Vec<WrongOrder>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunbookStep {
    /// What it is for.
    pub what: String,
    /// Commands: on the node, or with kubectl anywhere.
    pub commands: Vec<String>,
    /// The files that hold something else afterwards.
    pub changes: Vec<Change>,
    /// What still does not agree with the configuration then in effect.
    pub stale: Vec<Left>,
}

/// A file that a step changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The cgroup's role.
    pub cgroup: String,
    /// The file.
    pub file: &'static str,
    /// What it held.
    pub before: String,
    /// What it must hold.
    pub after: String,
    /// The command that shows it.
    pub check: String,
}

/// A file that holds an older configuration's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Left {
    /// The cgroup's role.
    pub cgroup: String,
    /// The file.
    pub file: &'static str,
    /// What it holds.
    pub holds: String,
    /// What it would hold in a cgroup made now.
    pub would_hold: String,
    /// What ends it.
    pub until: &'static str,
    /// The command that shows it.
    pub check: String,
}

/// Another order of steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WrongOrder {
    /// Which.
    pub what: String,
    /// Why it is refused, in the kubelet's words; empty when nothing refuses it.
    pub refused: Vec<String>,
    /// What it leaves behind at its end, if it is not refused.
    pub stale: Vec<Left>,
}

/// The steps that take a running node from its configuration to the Memory QoS settings of `to`: memoryReservationPolicy,
/// memoryThrottlingFactor and the gate, each with a start of the kubelet; then what a start does not clear, by the gentlest means that does:
/// a resize in place, a restart of containers, new pods.
///
/// # Errors
/// A configuration on the way is refused: `to` itself cannot be reached.
pub fn runbook(from: &Replay, to: &KubeletConfiguration) -> Result<Runbook, Vec<Refusal>> {
    let mut book = Book { node: from.clone(), steps: Vec::new() };
    let original = from.planning().pods().to_vec();
    let mut config = from.config().clone();
    let mut refused = Vec::new();
    let mut resized = false;
    if config.memory_reservation_policy != to.memory_reservation_policy {
        config.memory_reservation_policy.clone_from(&to.memory_reservation_policy);
        let value = to.memory_reservation_policy.as_ref().map(|policy| format!("{policy:?}"));
        book.kubelet("memoryReservationPolicy", value.as_deref(), &config)?;
        resized = book.resize_if_it_helps(&mut refused);
    }
    if config.memory_throttling_factor != to.memory_throttling_factor {
        config.memory_throttling_factor = to.memory_throttling_factor;
        book.kubelet("memoryThrottlingFactor", to.memory_throttling_factor.map(|f| f.to_string()).as_deref(), &config)?;
    }
    if config.feature_gates.get(GATE) != to.feature_gates.get(GATE) {
        match to.feature_gates.get(GATE) {
            Some(gate) => config.feature_gates.insert(GATE.to_owned(), *gate),
            None => config.feature_gates.remove(GATE),
        };
        let value = to.feature_gates.get(GATE).map(ToString::to_string);
        book.kubelet("featureGates.MemoryQoS", value.as_deref(), &config)?;
    }
    if resized || book.resize_if_it_helps(&mut refused) {
        book.step("Give the pods their own limits back, in place", resize_commands(&original), &resize(&original))?;
    }
    book.restart_containers()?;
    book.recreate_pods()?;
    book.write_by_hand();
    let wrong = wrong_orders(from, to, &config, refused);
    Ok(Runbook { steps: book.steps, wrong })
}

const GATE: &str = "MemoryQoS";
const FILES: [&str; 5] = ["memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max"];

struct Book {
    node: Replay,
    steps: Vec<RunbookStep>,
}

impl Book {
    fn step(&mut self, what: &str, commands: Vec<String>, action: &Action) -> Result<(), Vec<Refusal>> {
        let before = self.node.clone();
        self.node.act(action)?;
        self.note(&before, what, commands);
        Ok(())
    }

    fn note(&mut self, before: &Replay, what: &str, commands: Vec<String>) {
        let (changes, stale) = (changes(before, &self.node), left(&self.node));
        self.steps.push(RunbookStep { what: what.to_owned(), commands, changes, stale });
    }

    fn kubelet(&mut self, field: &str, value: Option<&str>, config: &KubeletConfiguration) -> Result<(), Vec<Refusal>> {
        let (what, edit) = match value {
            Some(value) => (format!("Set {field} to {value} and start the kubelet again"), format!(".{field} = {value}")),
            None => (format!("Take {field} out and start the kubelet again"), format!("del(.{field})")),
        };
        let commands = vec![format!("yq -i '{edit}' /var/lib/kubelet/config.yaml"), "systemctl restart kubelet".to_owned()];
        self.step(&what, commands, &Action::RestartKubelet { config: config.clone() })
    }

    /// A resize makes the kubelet and the runtime write again what they would write at creation, as far as they do. A mebibyte more is
    /// enough for that, and it is given back later.
    fn resize_if_it_helps(&mut self, refused: &mut Vec<WrongOrder>) -> bool {
        let stale: Vec<String> = left(&self.node).into_iter().map(|left| left.cgroup).collect();
        let of = |pod: &&Pod| stale.iter().any(|cgroup| in_pod(cgroup, pod.name()));
        let mut pods = Vec::new();
        let mut node = self.node.clone();
        for pod in self.node.planning().pods().iter().filter(of) {
            let bigger = bigger(pod);
            let mut trial = node.clone();
            match trial.act(&resize(std::slice::from_ref(&bigger))) {
                Ok(()) if count(&trial, pod) < count(&node, pod) => {
                    node = trial;
                    pods.push(bigger);
                }
                Ok(()) => {}
                Err(reasons) => refused.push(WrongOrder {
                    what: format!("Resize pod {} in place: {}", pod.name(), command(&bigger)),
                    refused: words(&reasons),
                    stale: Vec::new(),
                }),
            }
        }
        let (what, before) = ("Give the pods a mebibyte more in place, so that their files are written again", self.node.clone());
        if !pods.is_empty() {
            self.node = node;
            self.note(&before, what, resize_commands(&pods));
        }
        !pods.is_empty()
    }

    /// Only in pods that need not be made anew.
    fn restart_containers(&mut self) -> Result<(), Vec<Refusal>> {
        let stale = left(&self.node);
        let (before, mut commands) = (self.node.clone(), Vec::new());
        for pod in before.planning().pods() {
            let own = format!("pod/{}", pod.name());
            if stale.iter().any(|left| left.cgroup == own) || !always_restarts(pod) {
                continue;
            }
            for container in pod.containers().filter(|c| stale.iter().any(|left| left.cgroup == format!("{own}/{}", c.name))) {
                let (pod, container) = (pod.name().to_owned(), container.name.clone());
                let labels = format!("--label io.kubernetes.pod.name={pod} --name '^{container}$'");
                commands.push(format!("crictl stop $(crictl ps -q {labels})"));
                self.node.act(&Action::RestartContainer { pod, container })?;
            }
        }
        if !commands.is_empty() {
            self.note(
                &before,
                "Restart the containers that still hold a value; the kubelet starts them in new cgroups",
                commands,
            );
        }
        Ok(())
    }

    fn recreate_pods(&mut self) -> Result<(), Vec<Refusal>> {
        let stale = left(&self.node);
        let (before, mut commands) = (self.node.clone(), Vec::new());
        for pod in before.planning().pods().iter().filter(|pod| stale.iter().any(|left| in_pod(&left.cgroup, pod.name()))) {
            commands.push(format!("kubectl delete pod {}", pod.name()));
            self.node.act(&Action::RecreatePod { pod: pod.name().to_owned(), uid: None })?;
        }
        if !commands.is_empty() {
            self.note(&before, "Delete the pods that still hold a value; their controllers make them anew", commands);
        }
        Ok(())
    }

    fn write_by_hand(&mut self) {
        let stale = left(&self.node);
        if !stale.is_empty() {
            let write = |left: &Left| format!("echo {} > {}", left.would_hold, left.check.trim_start_matches("cat "));
            let commands = stale.iter().map(write).collect();
            let change = |left: Left| Change {
                cgroup: left.cgroup,
                file: left.file,
                before: left.holds,
                after: left.would_hold,
                check: left.check,
            };
            self.steps.push(RunbookStep {
                what: "Write by hand what no start of this kubelet writes".to_owned(),
                commands,
                changes: stale.into_iter().map(change).collect(),
                stale: Vec::new(),
            });
        }
    }
}

fn wrong_orders(
    from: &Replay,
    to: &KubeletConfiguration,
    target: &KubeletConfiguration,
    resizes: Vec<WrongOrder>,
) -> Vec<WrongOrder> {
    let mut found: Vec<WrongOrder> = Vec::new();
    let try_it = |what: &str, actions: &[Action]| {
        let mut node = from.clone();
        let refused = actions.iter().try_for_each(|action| node.act(action)).err();
        let stale = if refused.is_some() { Vec::new() } else { left(&node) };
        WrongOrder { what: what.to_owned(), refused: refused.map_or_else(Vec::new, |reasons| words(&reasons)), stale }
    };
    let mut keep = |order: WrongOrder| {
        let says = !order.refused.is_empty() || !order.stale.is_empty();
        if says && !found.iter().any(|known| known.refused == order.refused && known.stale == order.stale) {
            found.push(order);
        }
    };
    let restart = |config: &KubeletConfiguration| Action::RestartKubelet { config: config.clone() };
    let mut off = from.config().clone();
    off.feature_gates.insert(GATE.to_owned(), false);
    keep(try_it("The gate off first, with everything else as it is", &[restart(&off)]));
    off.memory_reservation_policy.clone_from(&to.memory_reservation_policy);
    keep(try_it("The gate off after memoryReservationPolicy, with memoryThrottlingFactor still there", &[restart(&off)]));
    let pods = from.planning().pods();
    for pod in pods {
        let more = with(pod, |container| {
            container.resources.requests.memory = container.resources.requests.memory.map(mebibyte_more);
        });
        let order = try_it(&format!("More request for pod {} in place: {}", pod.name(), command(&more)), &[resize(&[more])]);
        if !order.refused.is_empty() {
            keep(order);
        }
    }
    resizes.into_iter().for_each(&mut keep);
    let anew = pods.iter().map(|pod| Action::RecreatePod { pod: pod.name().to_owned(), uid: None });
    keep(try_it("The pods first, made anew under the old configuration", &anew.chain([restart(target)]).collect::<Vec<_>>()));
    let bigger: Vec<Pod> = pods.iter().map(bigger).collect();
    let late = [restart(target), resize(&bigger), resize(pods)];
    keep(try_it("Every setting in one start of the kubelet, and a resize after it", &late));
    found
}

fn words(reasons: &[Refusal]) -> Vec<String> {
    reasons.iter().map(ToString::to_string).collect()
}

fn always_restarts(pod: &Pod) -> bool {
    pod.spec.restart_policy.as_deref().is_none_or(|policy| policy == "Always")
}

fn in_pod(cgroup: &str, pod: &str) -> bool {
    cgroup.strip_prefix("pod/").is_some_and(|rest| rest.split('/').next() == Some(pod))
}

fn count(node: &Replay, pod: &Pod) -> usize {
    left(node).iter().filter(|left| in_pod(&left.cgroup, pod.name())).count()
}

fn resize(pods: &[Pod]) -> Action {
    Action::Resize { pods: pods.to_vec() }
}

/// The pod with its containers changed; an init container that has ended is not one to resize.
fn with(pod: &Pod, change: impl Fn(&mut Container)) -> Pod {
    let mut pod = pod.clone();
    pod.spec.init_containers.iter_mut().filter(|c| c.is_restartable()).for_each(&change);
    pod.spec.containers.iter_mut().for_each(&change);
    pod
}

/// A mebibyte more for every limit, and for requests that equal theirs, so that the QoS class stays.
fn bigger(pod: &Pod) -> Pod {
    with(pod, |container| {
        let resources = &mut container.resources;
        let equal = resources.requests.memory == resources.limits.memory;
        resources.limits.memory = resources.limits.memory.map(mebibyte_more);
        if equal {
            resources.requests.memory = resources.limits.memory;
        }
    })
}

fn mebibyte_more(quantity: Quantity) -> Quantity {
    Quantity::new(quantity.ceil().saturating_add(1 << 20), Format::Binary)
}

fn resize_commands(pods: &[Pod]) -> Vec<String> {
    pods.iter().map(command).collect()
}

fn command(pod: &Pod) -> String {
    let containers: Vec<_> = pod
        .spec
        .containers
        .iter()
        .filter(|c| !c.resources.is_empty())
        .map(|c| {
            let of = |quantity: Option<Quantity>| quantity.map(|quantity| serde_json::json!({"memory": quantity.to_string()}));
            let resources = [("limits", of(c.resources.limits.memory)), ("requests", of(c.resources.requests.memory))];
            let resources: BTreeMap<_, _> = resources.into_iter().filter_map(|(name, list)| Some((name, list?))).collect();
            serde_json::json!({"name": c.name, "resources": resources})
        })
        .collect();
    let patch = serde_json::json!({"spec": {"containers": containers}});
    format!("kubectl patch pod {} --subresource resize --patch '{patch}'", pod.name())
}

fn roles(node: &Replay) -> BTreeMap<String, String> {
    node.planning().plan().cgroups.into_iter().map(|cgroup| (cgroup.path, cgroup.role.to_string())).collect()
}

/// How a value is read. A container's cgroup is named by the runtime, but the container sees it as its own root.
fn check(node: &Replay, role: &str, path: &str, file: &str) -> String {
    let Some(pod) = node.planning().pods().iter().find(|pod| in_pod(role, pod.name())) else {
        return format!("cat /sys/fs/cgroup{path}/{file}");
    };
    match role.split('/').nth(2) {
        Some(container) => format!("kubectl exec {} -c {container} -- cat /sys/fs/cgroup/{file}", pod.name()),
        None => {
            let uid = &pod.metadata.uid;
            let path = path.replace(&uid.replace('-', "_"), "UID").replace(uid, "UID");
            format!("cat /sys/fs/cgroup{path}/{file}")
        }
    }
}

fn left(node: &Replay) -> Vec<Left> {
    let roles = roles(node);
    let stale = node.stale().into_iter().map(|stale: Stale| {
        let cgroup = roles.get(&stale.cgroup).unwrap_or(&stale.cgroup).clone();
        Left {
            check: check(node, &cgroup, &stale.cgroup, stale.file),
            cgroup,
            file: stale.file,
            holds: stale.holds.unwrap_or(kernel_default(stale.file)).to_string(),
            would_hold: stale.would_hold.unwrap_or(kernel_default(stale.file)).to_string(),
            until: match stale.until {
                StaleUntil::ContainerRestarts => "the container starts again",
                StaleUntil::PodIsRecreated => "the pod is made again",
                StaleUntil::NextUpdate => "the next update, within a minute",
                StaleUntil::WrittenByHand => "somebody writes it by hand",
            },
        }
    });
    let mut stale: Vec<_> = stale.collect();
    stale.sort_by(|a, b| (&a.cgroup, a.file).cmp(&(&b.cgroup, b.file)));
    stale
}

fn changes(before: &Replay, after: &Replay) -> Vec<Change> {
    let mut found = Vec::new();
    for cgroup in after.planning().plan().cgroups {
        let value = |node: &Replay, file: &str| {
            let held = node.files().cgroups().get(&cgroup.path).and_then(|files| files.get(file).copied());
            held.unwrap_or(kernel_default(file))
        };
        let role = cgroup.role.to_string();
        for file in FILES {
            let (old, new) = (value(before, file), value(after, file));
            if old != new {
                found.push(Change {
                    check: check(after, &role, &cgroup.path, file),
                    cgroup: role.clone(),
                    file,
                    before: old.to_string(),
                    after: new.to_string(),
                });
            }
        }
    }
    found
}
