//! From decisions to planned files, in the order in which the kubelet's cgroup manager and runc write them.

use super::rule::Context;
use crate::kubelet::{ContainerPolicy, Decision, PodPolicy, SharesToWeight, Why, cpu_max, kubelet_weight, runtime_weight};
use crate::record::{PlannedFile, Rule};

/// The files of one cgroup. A file that is written again keeps its place and takes the new value.
pub(super) struct Files<'a> {
    context: &'a Context<'a>,
    files: Vec<PlannedFile>,
    unwritten: Vec<(&'static str, Rule)>,
}

/// The files that are written, and the rules of those that are not.
pub(super) type Done = (Vec<PlannedFile>, Vec<(&'static str, Rule)>);

impl<'a> Files<'a> {
    pub(super) fn new(context: &'a Context<'a>) -> Self {
        Files { context, files: Vec::new(), unwritten: Vec::new() }
    }

    pub(super) fn done(self) -> Done {
        (self.files, self.unwritten)
    }

    pub(super) fn set(&mut self, file: &str, value: String, why: &Why) {
        self.put(file, value, self.context.rule(why));
    }

    fn put(&mut self, file: &str, value: String, rule: Rule) {
        let planned = PlannedFile { file: file.to_owned(), value, rule };
        match self.files.iter_mut().find(|known| known.file == file) {
            Some(known) => *known = planned,
            None => self.files.push(planned),
        }
    }

    fn decide(&mut self, file: &'static str, decision: &Decision) {
        match decision.value {
            Some(value) => self.set(file, value.to_string(), decision.why),
            None => self.unwritten.push((file, self.context.rule(decision.why))),
        }
    }

    pub(super) fn kubelet_weight(&mut self, shares: u64) {
        let rule = weight_rule(shares, "1 + (shares − 2) × 9999 / 262142", "getCPUWeight");
        self.put("cpu.weight", kubelet_weight(shares).to_string(), rule);
    }

    fn runtime_weight(&mut self, shares: u64) {
        let rules = self.context.node.config.rules();
        let formula = match rules.shares_to_weight {
            SharesToWeight::Linear => "1 + (shares − 2) × 9999 / 262142",
            SharesToWeight::Quadratic => "ceil(10 ^ ((l² + 125 l) / 612 − 7 / 34)), l = log2(shares)",
        };
        let source = format!("ConvertCPUSharesToCgroupV2Value of {}, by the container runtime", rules.cgroups_module);
        self.put("cpu.weight", runtime_weight(rules, shares).to_string(), weight_rule(shares, formula, &source));
    }

    fn quota(&mut self, quota_us: i64, source: &str) {
        let rule = Rule {
            formula: "limit × 100000 µs, at least 1000 µs, or max without a limit".to_owned(),
            inputs: vec![("quota".to_owned(), quota_us.to_string())],
            source: source.to_owned(),
        };
        self.put("cpu.max", cpu_max(quota_us), rule);
    }
}

fn weight_rule(shares: u64, formula: &str, source: &str) -> Rule {
    Rule { formula: formula.to_owned(), inputs: vec![("shares".to_owned(), shares.to_string())], source: source.to_owned() }
}

pub(super) fn pod_files(context: &Context<'_>, pod: &PodPolicy) -> Done {
    let mut files = Files::new(context);
    files.decide("memory.max", &pod.max);
    files.kubelet_weight(pod.cpu_shares);
    if let Some(cpu) = pod.cpu {
        files.quota(cpu.quota_us, "MilliCPUToQuota, ResourceConfigForPod");
    }
    files.decide("memory.min", &pod.min);
    files.decide("memory.low", &pod.low);
    files.decide("memory.high", &pod.high);
    files.done()
}

pub(super) fn container_files(context: &Context<'_>, container: &ContainerPolicy) -> Done {
    let mut files = Files::new(context);
    files.decide("memory.max", &container.max);
    files.runtime_weight(container.cpu_shares);
    if let Some(quota) = container.cpu_quota {
        files.quota(quota, "MilliCPUToQuota, calculateLinuxResources");
    }
    files.decide("memory.min", &container.min);
    files.decide("memory.low", &container.low);
    files.decide("memory.high", &container.high);
    files.decide("memory.swap.max", &container.swap_max);
    files.decide("memory.oom.group", &container.oom_group);
    files.done()
}

/// A pause container has no memory settings; its shares are the least there are (`defaultSandboxCPUshares` of containerd's CRI plugin).
pub(super) fn sandbox_files(context: &Context<'_>) -> Done {
    let mut files = Files::new(context);
    files.runtime_weight(2);
    files.done()
}
