//! A node between two steps: what the kubelet would write today, and what earlier steps left in the files.

use super::Action;
use crate::kubelet::{KubeletConfiguration, NodeFacts, NodeFiles, Pod, Refusal, ResizeStep, Stage, Stale, Version};
use crate::plan::Planning;
use crate::record::{Plan, PlannedFile, Role, Rule};
use std::collections::BTreeMap;

/// The node between two steps.
#[derive(Debug, Clone)]
pub struct Replay {
    version: Version,
    facts: NodeFacts,
    config: KubeletConfiguration,
    planning: Planning,
    files: NodeFiles,
    /// A process keeps the oom_score_adj it was started with. By the cgroup's path.
    scores: BTreeMap<String, i32>,
}

impl Replay {
    /// The kubelet starts on a fresh node and the pods are created.
    ///
    /// # Errors
    /// Every reason the kubelet of that version gives for not starting, or for which a pod cannot be planned.
    pub fn create(
        version: Version,
        config: &KubeletConfiguration,
        facts: &NodeFacts,
        pods: &[Pod],
    ) -> Result<Replay, Vec<Refusal>> {
        let planning = Planning::new(version, config, facts, pods)?;
        let files = planning.files();
        let mut node = Replay { version, facts: facts.clone(), config: config.clone(), planning, files, scores: BTreeMap::new() };
        node.started(|_| true);
        Ok(node)
    }

    /// Does what an action says; the creation of a node begins a new one.
    ///
    /// # Errors
    /// What the kubelet refuses; then the node is as before.
    pub fn act(&mut self, action: &Action) -> Result<(), Vec<Refusal>> {
        match action {
            Action::Create { config, pods } => *self = Replay::create(self.version, config, &self.facts, pods)?,
            Action::RestartKubelet { config } => self.restart_kubelet(config)?,
            Action::RestartContainer { pod, container } => self.restart_container(pod, container)?,
            Action::Resize { pods } => self.resize(pods)?,
            Action::RecreatePod { pod, uid } => self.recreate_pod(pod, uid.as_deref())?,
        }
        Ok(())
    }

    /// What the node would be if everything on it were made anew under the configuration in effect.
    #[must_use]
    pub fn planning(&self) -> &Planning {
        &self.planning
    }

    /// The kubelet's configuration in effect.
    #[must_use]
    pub fn config(&self) -> &KubeletConfiguration {
        &self.config
    }

    /// The memory files as they stand.
    #[must_use]
    pub fn files(&self) -> &NodeFiles {
        &self.files
    }

    /// What does not agree with the configuration in effect.
    #[must_use]
    pub fn stale(&self) -> Vec<Stale> {
        self.files.stale(self.planning.node(), self.planning.pods())
    }

    fn restart_kubelet(&mut self, config: &KubeletConfiguration) -> Result<(), Vec<Refusal>> {
        self.planning = Planning::new(self.version, config, &self.facts, self.planning.pods())?;
        self.config = config.clone();
        self.files.restart_kubelet(self.planning.node(), self.planning.pods());
        Ok(())
    }

    fn restart_container(&mut self, pod: &str, container: &str) -> Result<(), Vec<Refusal>> {
        let found = self.pod(pod)?;
        if !found.containers().any(|c| c.name == container) {
            return Err(vec![Refusal::new(Stage::Pod, format!("pod {pod} has no container {container}"))]);
        }
        self.files.restart_container(self.planning.node(), &found, container);
        let role = Role::Container { pod: pod.to_owned(), container: container.to_owned() };
        self.started(|started| *started == role);
        Ok(())
    }

    fn recreate_pod(&mut self, pod: &str, uid: Option<&str>) -> Result<(), Vec<Refusal>> {
        let mut found = self.pod(pod)?;
        if let Some(uid) = uid.filter(|uid| *uid != found.metadata.uid) {
            self.files.remove_pod(self.planning.node(), &found);
            uid.clone_into(&mut found.metadata.uid);
            let same = |old: &Pod| if old.name() == pod { found.clone() } else { old.clone() };
            let pods: Vec<_> = self.planning.pods().iter().map(same).collect();
            self.planning = Planning::new(self.version, &self.config, &self.facts, &pods)?;
        }
        self.files.recreate_pod(self.planning.node(), &found);
        self.files.update_tiers(self.planning.node(), self.planning.pods());
        self.started(|role| match role {
            Role::Sandbox { pod } | Role::Container { pod, .. } => pod == found.name(),
            _ => false,
        });
        Ok(())
    }

    /// New processes have the score of the configuration in effect.
    fn started(&mut self, which: impl Fn(&Role) -> bool) {
        let started = self.planning.plan().cgroups.into_iter().filter(|cgroup| which(&cgroup.role));
        self.scores.extend(started.filter_map(|cgroup| Some((cgroup.path, cgroup.oom_score_adj?))));
    }

    fn pod(&self, name: &str) -> Result<Pod, Vec<Refusal>> {
        let found = self.planning.pods().iter().find(|pod| pod.name() == name);
        found.cloned().ok_or_else(|| vec![Refusal::new(Stage::Pod, format!("there is no pod {name}"))])
    }

    fn resize(&mut self, resized: &[Pod]) -> Result<(), Vec<Refusal>> {
        let before = self.planning.pods().to_vec();
        let changed = |old: &Pod| resized.iter().find(|new| new.name() == old.name()).unwrap_or(old).clone();
        let pods: Vec<_> = before.iter().map(changed).collect();
        let planning = Planning::new(self.version, &self.config, &self.facts, &pods)?;
        let (mut files, mut restarted) = (self.files.clone(), Vec::new());
        for (old, new) in before.iter().zip(planning.pods()).filter(|(old, new)| old != new) {
            let steps = files.resize(planning.node(), old, new).map_err(|refusal| vec![refusal])?;
            let names = steps.into_iter().filter_map(|step| match step {
                ResizeStep::Restart { name } => Some((new.name().to_owned(), name)),
                _ => None,
            });
            restarted.extend(names);
        }
        (self.planning, self.files) = (planning, files);
        restarted.iter().try_for_each(|(pod, container)| self.restart_container(pod, container))?;
        // The sums above the pods follow within a minute.
        self.files.update_tiers(self.planning.node(), self.planning.pods());
        Ok(())
    }

    /// The plan of this moment, with what earlier steps left in it.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let mut plan = self.planning.plan();
        for cgroup in &mut plan.cgroups {
            cgroup.oom_score_adj = self.scores.get(&cgroup.path).copied();
            // Nobody models the pause container: only its creation writes it.
            let Some(held) = self.files.cgroups().get(&cgroup.path) else { continue };
            // What would be written today but was not stays out.
            cgroup.files.retain(|planned| !planned.file.starts_with("memory.") || held.contains_key(planned.file.as_str()));
            for (file, value) in held.iter().map(|(file, value)| (*file, value.to_string())) {
                if cgroup.value(file) != Some(value.as_str()) {
                    cgroup.files.push(PlannedFile { file: file.to_owned(), value, rule: left() });
                }
            }
        }
        plan
    }
}

/// The rule of a value that stays.
pub(super) const LEFT: &str = "an earlier step wrote it, and nothing writes it again";

fn left() -> Rule {
    let formula = LEFT.to_owned();
    Rule { formula, inputs: Vec::new(), source: "EnsureExists, doPodResizeAction and the runtime's update".to_owned() }
}
