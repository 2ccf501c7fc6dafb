//! API defaulting: what the API server (or, for static pods, the kubelet) fills in before the kubelet decides.

use super::aggregate::{limits_of_containers, requests_of_containers};
use super::gates::Gates;
use super::pod::Pod;
use super::resources::ResourceList;

impl Pod {
    /// Fills in requests from limits, and the pod level, as a cluster of that version with these gates does.
    ///
    /// Containers: `SetDefaults_Pod`. Pod level: `defaultPodRequests` (to 1.36) or `DefaultPodLevelResources`
    /// (PodLevelResourcesFixDefaulting), which runs only in the API server and so leaves static pods alone. Idempotent.
    pub fn set_defaults(&mut self, gates: &Gates) {
        for container in self.spec.init_containers.iter_mut().chain(&mut self.spec.containers) {
            if !container.resources.limits.is_empty() {
                let limits = container.resources.limits.clone();
                container.resources.requests.fill_from(&limits);
            }
        }
        if gates.pod_level_resources && self.spec.resources.is_some() && !(gates.fix_defaulting && self.is_static()) {
            self.set_pod_level_defaults(gates);
        }
    }

    fn set_pod_level_defaults(&mut self, gates: &Gates) {
        let requests = requests_of_containers(self);
        let limits = limits_of_containers(self);
        let all_limit = |listed: fn(&ResourceList) -> bool| self.containers().all(|c| listed(&c.resources.limits));
        let (all_cpu, all_memory) = (all_limit(|l| l.cpu.is_some()), all_limit(|l| l.memory.is_some()));
        let Some(level) = &mut self.spec.resources else { return };
        if level.limits.is_empty() && (!gates.fix_defaulting || level.requests.is_empty()) {
            return;
        }
        level.requests.cpu = level.requests.cpu.or(requests.cpu);
        level.requests.memory = level.requests.memory.or(requests.memory);
        let level_limits = level.limits.clone();
        level.requests.fill_from(&level_limits);
        if gates.fix_defaulting {
            // Only where every container has a limit: the pod's is then what they add up to, but no less than the request.
            if level.limits.cpu.is_none() && all_cpu {
                level.limits.cpu = level.requests.cpu.zip(limits.cpu).map(|(request, limit)| request.max(limit));
            }
            if level.limits.memory.is_none() && all_memory {
                level.limits.memory = level.requests.memory.zip(limits.memory).map(|(request, limit)| request.max(limit));
            }
        }
    }
}
