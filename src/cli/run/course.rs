//! An arm whose node changes while its pods run: what the cgroups must hold after each step.

use crate::kubelet::{Pod, Refusal, Version, aggregate};
use crate::lab::{Arm, NodeStep, Phase};
use crate::ledger::Replay;
use crate::record::Plan;

/// The plan with what follows from the steps of the arm.
///
/// # Errors
/// What the kubelet refuses, in its words, and steps that name what is not there.
pub(super) fn course(arm: &Arm, pods: &[Pod], version: Version, mut plan: Plan) -> Result<Plan, String> {
    if arm.phases.iter().all(|phase| phase.step.is_none()) {
        return Ok(plan);
    }
    let why = |phase: &str, reason: &str| format!("arm {}, phase {phase}: {reason}", arm.name);
    let refused = |phase: &str, reasons: Vec<Refusal>| why(phase, &aggregate(&reasons));
    let mut node = Replay::create(version, &arm.kubelet, &arm.facts(), pods).map_err(|r| refused("start", r))?;
    let (mut stepped, mut down) = (false, false);
    for Phase { name, step, .. } in &arm.phases {
        if let Some(step) = step {
            let restarts = matches!(step, NodeStep::RestartKubelet(_));
            if down && !restarts {
                return Err(why(name, "no kubelet runs since it refused its configuration: give it another one first"));
            }
            let action = node.action(step).map_err(|reason| why(name, &reason))?;
            let reasons = node.act(&action).err();
            down = restarts && reasons.is_some();
            match (reasons, step.refused()) {
                (None, None) => {
                    plan.fresh.insert(name.clone(), node.planning().plan().cgroups);
                    stepped = true;
                }
                (None, Some(_)) => return Err(why(name, "the kubelet accepts this step: take out `refused`")),
                (Some(reasons), None) => return Err(refused(name, reasons)),
                (Some(reasons), Some(words)) if aggregate(&reasons).contains(words) => {
                    plan.refused.insert(name.clone(), aggregate(&reasons));
                }
                (Some(reasons), Some(_)) => {
                    let reason = format!("it is refused, but in other words than those of `refused`: {}", aggregate(&reasons));
                    return Err(why(name, &reason));
                }
            }
        }
        if stepped {
            plan.stepped.insert(name.clone(), node.plan().cgroups);
        }
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{lab, plan};

    /// The rollback lab's arm that puts the gate first, with other steps from its second phase on.
    fn outcome(change: impl Fn(&mut Vec<Phase>)) -> Result<Plan, String> {
        let lab = lab::load(&lab::find("memory-qos/rollback").unwrap()).unwrap();
        let mut arm = lab.arm("gate-first").unwrap().clone();
        change(&mut arm.phases);
        let version = arm.node.kubernetes.parse().unwrap();
        let plan = plan::plan(version, &arm.kubelet, &arm.facts(), &arm.pods).unwrap();
        course(&arm, &arm.pods, version, plan)
    }

    fn step(phase: &mut Phase, yaml: serde_json::Value) {
        phase.step = Some(serde_json::from_value(yaml).unwrap());
    }

    #[test]
    fn a_refused_step_changes_nothing_and_is_told_in_the_kubelet_s_words() {
        let plan = outcome(|_| ()).unwrap();
        assert!(plan.refused["one"].contains("requires MemoryQoS feature gate"), "{:?}", plan.refused);
        assert!(!plan.stepped.contains_key("one") && plan.stepped.contains_key("two"));
        assert_eq!(plan.fresh.keys().collect::<Vec<_>>(), ["four", "three", "two"]);
    }

    #[test]
    fn a_refusal_must_come_and_in_the_words_expected() {
        let gate = |words: &str| serde_json::json!({"restartKubelet": {"set": {"featureGates": {"MemoryQoS": false}}, "refused": words}});
        let other = outcome(|phases| step(&mut phases[1], gate("no such words"))).unwrap_err();
        assert!(other.contains("arm gate-first, phase one") && other.contains("requires MemoryQoS feature gate"), "{other}");
        let none = serde_json::json!({"restartKubelet": {"unset": ["memoryThrottlingFactor"], "refused": "anything"}});
        let accepted = outcome(|phases| step(&mut phases[1], none.clone())).unwrap_err();
        assert!(accepted.contains("accepts this step"), "{accepted}");
    }

    #[test]
    fn without_a_kubelet_nothing_is_resized_or_started_again() {
        let restart = serde_json::json!({"restartContainer": {"pod": "server", "container": "main"}});
        let down = outcome(|phases| step(&mut phases[2], restart.clone())).unwrap_err();
        assert!(down.contains("phase two") && down.contains("no kubelet runs"), "{down}");
    }

    #[test]
    fn a_step_on_what_is_not_there_is_refused() {
        let restart = serde_json::json!({"restartContainer": {"pod": "server", "container": "ghost"}});
        let ghost = outcome(|phases| step(&mut phases[3], restart.clone())).unwrap_err();
        assert!(ghost.contains("pod server has no container ghost"), "{ghost}");
    }
}
