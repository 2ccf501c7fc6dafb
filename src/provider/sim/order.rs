//! From a resolved arm to what the deterministic node is told: the shape it boots with and the order it plays.

use super::shape::{Device, Profile, Shape};
use crate::kubelet::{Container, Pod, Port, Probe};
use crate::lab::{self, Arm, Arrivals, ContainerOf, Ends, Lab, Load, NodeStep, Phase, Switch, Thp};
use crate::load::{Tokens, constant, poisson, ramp};
use crate::record::{
    Action, Arrival, CgroupOrder, ContainerKind, ContainerOrder, ControlWrite, DeviceRole, LoadOrder, Order, PhaseEnd,
    PhaseOrder, Plan, PlannedCgroup, PodOrder, ProbeKind, RestartPolicy, Role, SCHEMA, Sampling, Setting, SwapOn, Volume,
};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// Why an arm cannot become an order.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// A load whose schedule cannot be drawn.
    #[error("phase {phase}, load {load}: {source}")]
    Schedule {
        /// The phase.
        phase: String,
        /// The load.
        load: String,
        /// Why.
        source: crate::load::ScheduleError,
    },
    /// The plan lacks a cgroup of the arm's pods.
    #[error("the plan has no cgroup {0}")]
    Unplanned(Role),
}

/// Sorts arms by the node they can be forked from. Arms whose nodes differ only in devices that one of them lacks share a node: a device
/// that an arm does not use costs it nothing, since devices take no node memory.
#[must_use]
pub fn shapes<'a>(arms: &[&'a Arm]) -> Vec<(Shape, Vec<&'a Arm>)> {
    let mut groups: Vec<(Shape, Vec<&'a Arm>)> = Vec::new();
    for arm in arms {
        let shape = shape(arm);
        let fits = groups.iter_mut().find_map(|(known, arms)| {
            *known = merged(known, &shape)?;
            Some(arms)
        });
        match fits {
            Some(group) => group.push(arm),
            None => groups.push((shape, vec![arm])),
        }
    }
    groups
}

fn merged(a: &Shape, b: &Shape) -> Option<Shape> {
    let mut devices = a.devices.clone();
    for device in &b.devices {
        match devices.iter().find(|d| d.name == device.name) {
            Some(known) if known == device => {}
            Some(_) => return None,
            None => devices.push(device.clone()),
        }
    }
    let merged = Shape { devices, ..a.clone() };
    (Shape { devices: merged.devices.clone(), ..b.clone() } == merged).then_some(merged)
}

fn shape(arm: &Arm) -> Shape {
    let node = &arm.node;
    let device = |d: &lab::Device, role| {
        let profile = match d.profile {
            lab::Profile::Nvme => Profile::Nvme,
            lab::Profile::SataSsd => Profile::SataSsd,
            lab::Profile::Hdd => Profile::Hdd,
        };
        let mut device = Device::new(&d.name, role, d.size.0, profile);
        device.latency_ns = d.latency_ns.unwrap_or(device.latency_ns);
        device.depth = d.depth.unwrap_or(device.depth);
        device.mbps = d.mbps.or(device.mbps);
        device.ext4 = d.file_system.is_some();
        device
    };
    let swap = node.swap.iter().map(|d| device(d, DeviceRole::Swap));
    Shape {
        memory: node.memory.0,
        devices: swap.chain(node.data.iter().map(|d| device(d, DeviceRole::Data))).collect(),
        psi: node.kernel.psi != Some(Switch::Off),
        memory_recursive_prot: node.kernel.memory_recursive_prot != Some(Switch::Off),
        icount_shift: node.icount_shift,
        ..Shape::default()
    }
}

/// What the node does in this arm.
///
/// # Errors
/// [`OrderError`].
pub fn order(lab: &Lab, arm: &Arm, plan: &Plan) -> Result<Order, OrderError> {
    let above = |c: &&PlannedCgroup| matches!(c.role, Role::Kubepods | Role::Qos { .. } | Role::System { .. });
    Ok(Order {
        schema: SCHEMA,
        lab: lab.name.clone(),
        arm: arm.name.clone(),
        seed: lab.seed,
        settings: settings(&arm.node.kernel),
        swap: arm.node.swap.iter().map(|d| SwapOn { device: d.name.clone(), priority: None }).collect(),
        cgroup_driver: plan.cgroup_driver,
        cgroups: plan.cgroups.iter().filter(above).map(cgroup).chain(slices(arm, plan)).collect(),
        pods: arm.pods.iter().map(|pod| pod_order(pod, plan)).collect::<Result<_, _>>()?,
        phases: phases(lab, arm, plan)?,
        sampling: Sampling { interval_ns: lab.sample_every.0, stat_interval_ns: lab.sample_every.0.max(1_000_000_000) },
    })
}

fn settings(kernel: &lab::Kernel) -> Vec<Setting> {
    let mut found = Vec::new();
    let mut set = |path: &str, value: Option<String>| found.extend(value.map(|value| Setting { path: path.to_owned(), value }));
    set("/proc/sys/vm/swappiness", kernel.swappiness.map(|v| v.to_string()));
    set("/proc/sys/vm/min_free_kbytes", kernel.min_free_kbytes.map(|v| v.to_string()));
    set("/proc/sys/vm/watermark_scale_factor", kernel.watermark_scale_factor.map(|v| v.to_string()));
    set("/proc/sys/vm/page-cluster", kernel.page_cluster.map(|v| v.to_string()));
    let yes_no = |s| if s == Switch::On { "y" } else { "n" }.to_owned();
    set("/sys/kernel/mm/lru_gen/enabled", kernel.mglru.map(yes_no));
    let thp = |t| match t {
        Thp::Always => "always".to_owned(),
        Thp::Madvise => "madvise".to_owned(),
        Thp::Never => "never".to_owned(),
    };
    set("/sys/kernel/mm/transparent_hugepage/enabled", kernel.thp.map(thp));
    found
}

fn cgroup(planned: &PlannedCgroup) -> CgroupOrder {
    CgroupOrder { role: planned.role.clone(), path: planned.path.clone(), writes: writes(planned) }
}

fn writes(planned: &PlannedCgroup) -> Vec<ControlWrite> {
    planned.files.iter().map(|f| ControlWrite { file: f.file.clone(), value: f.value.clone() }).collect()
}

/// The slices of the node's services that the kubelet has nothing to write to.
fn slices(arm: &Arm, plan: &Plan) -> Vec<CgroupOrder> {
    let names: BTreeSet<_> = arm.pods.iter().filter_map(lab::slice).collect();
    let role = |name: &str| Role::System { name: name.to_owned() };
    let others = names.into_iter().filter(|name| plan.cgroup(&role(name)).is_none());
    others.map(|name| CgroupOrder { role: role(name), path: format!("/{name}"), writes: Vec::new() }).collect()
}

fn find(plan: &Plan, role: Role) -> Result<&PlannedCgroup, OrderError> {
    plan.cgroup(&role).ok_or(OrderError::Unplanned(role))
}

fn pod_order(pod: &Pod, plan: &Plan) -> Result<PodOrder, OrderError> {
    let name = pod.name().to_owned();
    let find = |role| match lab::slice(pod) {
        // What systemd starts has the kernel's defaults.
        Some(slice) => {
            Ok(PlannedCgroup { role, path: format!("/{slice}/{name}.service"), files: Vec::new(), oom_score_adj: None })
        }
        None => find(plan, role).cloned(),
    };
    let own = find(Role::Pod { pod: name.clone() })?;
    let sandbox = find(Role::Sandbox { pod: name.clone() })?;
    let container = |container: &Container, kind| {
        let planned = find(Role::Container { pod: name.clone(), container: container.name.clone() })?;
        Ok(ContainerOrder {
            name: container.name.clone(),
            kind,
            args: container.args.clone(),
            env: container.env.iter().map(|e| (e.name.clone(), e.value.clone())).collect(),
            mounts: container.volume_mounts.iter().map(|m| (m.name.clone(), m.mount_path.clone())).collect(),
            writes: writes(&planned),
            oom_score_adj: planned.oom_score_adj.unwrap_or(0),
            readiness: container.readiness_probe.as_ref().map(|p| probe(p, container)),
            liveness: container.liveness_probe.as_ref().map(|p| probe(p, container)),
            startup: container.startup_probe.as_ref().map(|p| probe(p, container)),
        })
    };
    let init = pod.spec.init_containers.iter().map(|c| {
        let kind = if c.is_restartable() { ContainerKind::Sidecar } else { ContainerKind::Init };
        container(c, kind)
    });
    let main = pod.spec.containers.iter().map(|c| container(c, ContainerKind::Main));
    Ok(PodOrder {
        uid: pod.metadata.uid.clone(),
        cgroup: cgroup(&own),
        sandbox_writes: writes(&sandbox),
        sandbox_oom_score_adj: sandbox.oom_score_adj.unwrap_or(0),
        restart_policy: match pod.spec.restart_policy.as_deref() {
            Some("Never") => RestartPolicy::Never,
            Some("OnFailure") => RestartPolicy::OnFailure,
            _ => RestartPolicy::Always,
        },
        grace_s: pod.spec.termination_grace_period_seconds.and_then(|s| s.try_into().ok()).unwrap_or(30),
        volumes: pod.spec.volumes.iter().map(volume).collect(),
        containers: init.chain(main).collect::<Result<_, _>>()?,
        name: name.clone(),
    })
}

fn volume(volume: &crate::kubelet::Volume) -> Volume {
    let name = volume.name.clone();
    match (&volume.empty_dir, &volume.host_path) {
        (_, Some(host)) => Volume::HostPath { name, path: host.path.clone() },
        (Some(dir), _) if dir.medium == "Memory" => {
            Volume::Memory { name, size: dir.size_limit.and_then(|s| s.ceil().try_into().ok()) }
        }
        _ => Volume::EmptyDir { name },
    }
}

/// The API's defaults (`SetDefaults_Probe`) filled in.
fn probe(probe: &Probe, container: &Container) -> crate::record::Probe {
    let number = |port: &Port| match port {
        Port::Number(number) => *number,
        // The lab's check has seen to it that the name exists.
        Port::Name(name) => container.ports.iter().find(|p| p.name == *name).map_or(0, |p| p.container_port),
    };
    let kind = match (&probe.http_get, &probe.tcp_socket) {
        (Some(http), _) => {
            let path = if http.path.is_empty() { "/".to_owned() } else { http.path.clone() };
            ProbeKind::Http { path, port: number(&http.port) }
        }
        (None, tcp) => ProbeKind::Tcp { port: tcp.as_ref().map_or(0, |t| number(&t.port)) },
    };
    crate::record::Probe {
        kind,
        initial_delay_s: probe.initial_delay_seconds.unwrap_or(0),
        period_s: probe.period_seconds.unwrap_or(10),
        timeout_s: probe.timeout_seconds.unwrap_or(1),
        success_threshold: probe.success_threshold.unwrap_or(1),
        failure_threshold: probe.failure_threshold.unwrap_or(3),
    }
}

fn phases(lab: &Lab, arm: &Arm, plan: &Plan) -> Result<Vec<PhaseOrder>, OrderError> {
    let mut before = &plan.cgroups;
    let mut pods = arm.pods.iter().map(|pod| pod_order(pod, plan)).collect::<Result<Vec<_>, _>>()?;
    let mut orders = Vec::new();
    for phase in &arm.phases {
        let mut order = phase_order(lab, phase)?;
        if let Some(after) = plan.stepped.get(&phase.name) {
            order.actions.extend(rewrites(before, after, phase.step.as_ref()));
            before = after;
        }
        if let Some(fresh) = plan.fresh.get(&phase.name) {
            let now = Plan { cgroups: fresh.clone(), ..plan.clone() };
            for (pod, known) in arm.pods.iter().zip(&mut pods) {
                let renewed = pod_order(pod, &now)?;
                if renewed != *known {
                    order.actions.push(Action::Renew { pod: renewed.clone() });
                    *known = renewed;
                }
            }
        }
        order.actions.extend(plan.refused.get(&phase.name).map(|reason| Action::Refused { reason: reason.clone() }));
        order.actions.extend(phase.step.as_ref().and_then(|step| match step {
            NodeStep::RestartContainer(ContainerOf { pod, container }) => {
                Some(Action::RestartContainer { pod: pod.clone(), container: container.clone() })
            }
            NodeStep::RecreatePod(step) => Some(Action::RecreatePod { pod: step.pod.clone() }),
            NodeStep::RestartKubelet(_) | NodeStep::Resize(_) => None,
        }));
        orders.push(order);
    }
    Ok(orders)
}

/// What a step writes: the files that must hold something else after it, but for those of cgroups that it makes anew.
fn rewrites(before: &[PlannedCgroup], after: &[PlannedCgroup], step: Option<&NodeStep>) -> Vec<Action> {
    let anew = |role: &Role| match (step, role) {
        (Some(NodeStep::RestartContainer(of)), Role::Container { pod, container }) => {
            *pod == of.pod && *container == of.container
        }
        (Some(NodeStep::RecreatePod(of)), Role::Pod { pod } | Role::Sandbox { pod } | Role::Container { pod, .. }) => {
            *pod == of.pod
        }
        _ => false,
    };
    let mut actions = Vec::new();
    for cgroup in after.iter().filter(|cgroup| !anew(&cgroup.role)) {
        let Some(old) = before.iter().find(|old| old.role == cgroup.role) else { continue };
        let mut writes: Vec<ControlWrite> = Vec::new();
        for file in &cgroup.files {
            let value = cgroup.value(&file.file).unwrap_or_default();
            if old.value(&file.file) != Some(value) && writes.iter().all(|write| write.file != file.file) {
                writes.push(ControlWrite { file: file.file.clone(), value: value.to_owned() });
            }
        }
        if !writes.is_empty() {
            let cgroup = CgroupOrder { role: cgroup.role.clone(), path: cgroup.path.clone(), writes };
            actions.push(Action::Write { cgroup });
        }
    }
    actions
}

fn phase_order(lab: &Lab, phase: &Phase) -> Result<PhaseOrder, OrderError> {
    let mut actions = Vec::new();
    if !phase.stop.is_empty() {
        actions.push(Action::Stop { pods: phase.stop.clone() });
    }
    if !phase.start.is_empty() {
        actions.push(Action::Start { pods: phase.start.clone() });
    }
    let load = |load: &Load| {
        Ok(LoadOrder {
            name: load.name.clone(),
            pod: load.pod.clone(),
            port: load.port,
            arrivals: arrivals(load, seed(lab, phase, load)).map_err(|source| OrderError::Schedule {
                phase: phase.name.clone(),
                load: load.name.clone(),
                source,
            })?,
            concurrency: load.concurrency,
            timeout_ns: load.timeout.0,
        })
    };
    let end = match phase.ends {
        Ends::After(t) => PhaseEnd::After { ns: t.0 },
        Ends::Ready(t) => PhaseEnd::Ready { deadline_ns: t.0 },
        Ends::Settled(t) => PhaseEnd::Settled { deadline_ns: t.0 },
    };
    Ok(PhaseOrder { name: phase.name.clone(), actions, load: phase.load.iter().map(load).collect::<Result<_, _>>()?, end })
}

fn arrivals(load: &Load, seed: u64) -> Result<Vec<Arrival>, crate::load::ScheduleError> {
    let tokens = Tokens { prompt: load.tokens.prompt, output: load.tokens.output };
    match &load.arrivals {
        Arrivals::Constant { rate, duration } => constant(*rate, duration.0, tokens),
        Arrivals::Poisson { rate, duration } => poisson(*rate, duration.0, tokens, seed),
        Arrivals::Ramp { from, to, duration } => ramp(*from, *to, duration.0, tokens, seed),
        Arrivals::Trace(times) => {
            let one =
                |t: &lab::Span| Arrival { at_ns: t.0, prompt_tokens: load.tokens.prompt, output_tokens: load.tokens.output };
            Ok(times.iter().map(one).collect())
        }
    }
}

/// Each load draws from its own generator, the same in every arm: adding a load does not move another one's schedule.
fn seed(lab: &Lab, phase: &Phase, load: &Load) -> u64 {
    let digest = Sha256::digest(format!("{}\0{}\0{}", lab.seed, phase.name, load.name).as_bytes());
    digest.iter().take(8).fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::NodeFacts;
    use crate::plan;

    fn lab(name: &str) -> Lab {
        lab::load(&lab::find(name).unwrap()).unwrap()
    }

    fn plan_of(arm: &Arm) -> Plan {
        let facts = NodeFacts::new(arm.node.memory.0, arm.node.swap_bytes());
        plan::plan(arm.node.kubernetes.parse().unwrap(), &arm.kubelet, &facts, &arm.pods).unwrap()
    }

    #[test]
    fn arms_of_a_lab_share_one_node_even_when_one_has_no_swap() {
        let lab = lab("swap/cpu-inference");
        let arms: Vec<_> = lab.arms.iter().collect();
        let shapes = shapes(&arms);
        assert_eq!(shapes.len(), 1);
        assert_eq!(shapes[0].0.devices.len(), 1);
        assert_eq!(shapes[0].1.len(), 3);
        let orders: Vec<_> = arms.iter().map(|arm| order(&lab, arm, &plan_of(arm)).unwrap()).collect();
        let swaps: Vec<_> = orders.iter().map(|o| o.swap.len()).collect();
        assert_eq!(swaps, [1, 1, 0]);
    }

    #[test]
    fn a_device_that_differs_needs_a_node_of_its_own() {
        let lab = lab("swap/cpu-inference");
        let mut other = lab.arms[0].clone();
        other.node.swap[0].latency_ns = Some(1);
        assert_eq!(shapes(&[&lab.arms[0], &other, &lab.arms[2]]).len(), 2);
    }

    #[test]
    fn an_order_holds_the_plan_s_writes_and_the_probes_defaults() {
        let lab = lab("swap/cpu-inference");
        let arm = lab.arm("unlimited-swap").unwrap();
        let order = order(&lab, arm, &plan_of(arm)).unwrap();
        let server = &order.pods[0].containers[0];
        let write = |file: &str| server.writes.iter().find(|w| w.file == file).map(|w| w.value.as_str());
        assert_eq!(write("memory.max"), Some("12582912"));
        assert_eq!(write("memory.swap.max"), Some("max"));
        let probe = server.readiness.as_ref().unwrap();
        assert_eq!((probe.period_s, probe.timeout_s, probe.failure_threshold), (1, 1, 3));
        assert_eq!(probe.kind, ProbeKind::Http { path: "/health".into(), port: 8000 });
        assert_eq!(order.phases[1].load[0].arrivals.len(), 20);
        assert!(order.cgroups.iter().any(|c| c.role == Role::Kubepods));
    }

    #[test]
    fn a_service_of_the_node_is_started_in_its_slice_with_nothing_written() {
        let lab = lab("memory-qos/daemon-activity");
        for (name, written) in [("tiered", 0), ("enforced", 1)] {
            let arm = lab.arm(name).unwrap();
            let (services, pods): (Vec<Pod>, _) = arm.pods.iter().cloned().partition(|pod| lab::slice(pod).is_some());
            assert_eq!(services.len(), 2);
            let plan = plan_of(&Arm { pods, ..arm.clone() });
            let order = order(&lab, arm, &plan).unwrap();
            let service = order.pods.iter().find(|pod| pod.name == "logging").unwrap();
            assert_eq!(service.cgroup.path, "/system.slice/logging.service");
            assert!(service.cgroup.writes.is_empty() && service.containers[0].writes.is_empty());
            let slice: Vec<_> = order.cgroups.iter().filter(|cgroup| cgroup.path == "/system.slice").collect();
            assert_eq!(slice.len(), 1, "{name}: made once, by the kubelet's reservation or for the services");
            assert_eq!(slice[0].writes.iter().filter(|write| write.file == "memory.max").count(), written, "{name}");
        }
    }
}
