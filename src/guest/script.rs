//! The script: phases, what happens at their start, and when they end.

use super::GuestError;
use super::ledger::snapshot;
use super::loads::Loads;
use super::node::Node;
use super::pods::PodRun;
use crate::record::{Action, EventKind, Frame, Order, PhaseEnd, PhaseOrder, RestartPolicy};
use std::sync::Arc;

/// Plays all phases.
///
/// # Errors
/// The guest failed; a workload that does is a result.
pub fn play(node: &mut Node, order: &Order) -> Result<(), GuestError> {
    order.phases.iter().try_for_each(|phase| play_phase(node, phase))
}

fn play_phase(node: &mut Node, phase: &PhaseOrder) -> Result<(), GuestError> {
    let recorder = Arc::clone(&node.context.recorder);
    // Clients first: what is due while the actions run is due, and is refused where nothing listens yet.
    let mut loads = Loads::new()?;
    for load in &phase.load {
        let network = Arc::clone(node.pods[node.find(&load.pod, "load")?].network());
        loads.prepare(load, &phase.name, network, &recorder)?;
    }
    let start_ns = recorder.now();
    recorder.event_at(start_ns, EventKind::PhaseStarted { phase: phase.name.clone() });
    loads.set_off(start_ns);
    let (PhaseEnd::After { ns } | PhaseEnd::Ready { deadline_ns: ns } | PhaseEnd::Settled { deadline_ns: ns }) = phase.end;
    let until_ns = start_ns.saturating_add(ns);
    for action in &phase.actions {
        act(node, action, &mut |node| node.round(until_ns, loads.wake_fd()).map(|()| recorder.now() < until_ns))?;
    }
    let deadline = loop {
        if has_ended(node, &phase.end, &loads) {
            break false;
        }
        if recorder.now() >= until_ns {
            break !matches!(phase.end, PhaseEnd::After { .. });
        }
        node.round(until_ns, loads.wake_fd())?;
    };
    loads.stop()?;
    node.read_kernel_log();
    node.context.sampling.read_all();
    let cgroups = node.levels.iter().cloned().chain(node.pods.iter().flat_map(PodRun::cgroups));
    recorder.frame(&Frame::Ledger(snapshot(&node.context.tree, recorder.now(), cgroups, &phase.name)));
    recorder.event(EventKind::PhaseEnded { phase: phase.name.clone(), deadline });
    Ok(())
}

/// Does what the script says. `wait` passes one round; false when the phase's time is over, and then nothing is waited for any more.
fn act(node: &mut Node, action: &Action, wait: &mut dyn FnMut(&mut Node) -> Result<bool, GuestError>) -> Result<(), GuestError> {
    match action {
        Action::Start { pods } => {
            for pod in pods {
                let pod = node.find(pod, "start action")?;
                node.start(pod)?;
            }
        }
        Action::Stop { pods } => {
            for pod in pods {
                let pod = node.find(pod, "stop action")?;
                node.stop(pod)?;
            }
        }
        Action::Write { cgroup } => node.context.write_all(&cgroup.path, &cgroup.writes),
        Action::Renew { pod: order } => {
            let pod = node.find(&order.name, "renew action")?;
            node.pods[pod].order = order.clone();
        }
        Action::RestartContainer { pod, container } => {
            let pod = node.find(pod, "restart action")?;
            let Some(index) = node.pods[pod].order.containers.iter().position(|c| c.name == *container) else { return Ok(()) };
            let attempt = node.pods[pod].agent.attempt(index);
            node.pods[pod].kill(index);
            while node.pods[pod].agent.attempt(index) == attempt && wait(node)? {}
        }
        Action::RecreatePod { pod } => {
            let pod = node.find(pod, "restart action")?;
            node.stop(pod)?;
            while node.pods[pod].processes().next().is_some() && wait(node)? {}
            node.start(pod)?;
        }
        Action::Refused { reason } => node.context.recorder.event(EventKind::StepRefused { reason: reason.clone() }),
    }
    Ok(())
}

fn has_ended(node: &Node, end: &PhaseEnd, loads: &Loads) -> bool {
    let mut started = node.pods.iter().filter(|pod| pod.agent.is_active() || pod.agent.outcome().is_some());
    match end {
        PhaseEnd::After { .. } => {
            // Also empties the wake-ups, which say nothing here.
            _ = loads.all_answered();
            false
        }
        PhaseEnd::Ready { .. } => {
            _ = loads.all_answered();
            started.all(|pod| pod.agent.is_ready() || pod.agent.outcome().is_some())
        }
        PhaseEnd::Settled { .. } => {
            let jobs_done = started.all(|pod| pod.order.restart_policy == RestartPolicy::Always || pod.agent.outcome().is_some());
            loads.all_answered() && jobs_done
        }
    }
}
