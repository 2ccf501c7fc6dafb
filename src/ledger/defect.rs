//! Known defects: patterns of a drifted or ineffective file whose cause and end are known.

use super::{Finding, Verdict};
use crate::record::{Plan, Role};
use serde::Serialize;

/// A pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Defect {
    /// A leaf has a protection that an ancestor does not pass on.
    AncestorUnprotected,
    /// A protection that a former policy left, below ancestors that were cleared.
    StaleButNeutral,
    /// The same, below an ancestor that still passes it on.
    StaleProtection,
    /// memory.high that nobody clears.
    HighNeverCleared,
    /// memory.min of the Burstable cgroup, which only kubelets up to 1.35 wrote.
    BurstableMinLeft,
    /// A pod's protection after a resize that changed only its request.
    PodProtectionNotRewritten,
}

impl Defect {
    /// Its name, as in the output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Defect::AncestorUnprotected => "ancestor-unprotected",
            Defect::StaleButNeutral => "stale-but-neutral",
            Defect::StaleProtection => "stale-protection",
            Defect::HighNeverCleared => "high-never-cleared",
            Defect::BurstableMinLeft => "burstable-min-left",
            Defect::PodProtectionNotRewritten => "pod-protection-not-rewritten",
        }
    }

    /// What is behind it, and what ends it.
    #[must_use]
    pub fn says(self) -> &'static str {
        match self {
            Defect::AncestorUnprotected => {
                "an ancestor passes nothing on, so the setting protects nothing. 1.36 writes memory.low into the Burstable cgroup and \
                 its pods but not into kubepods; 1.37 does. Above kubepods nobody writes it: do it by hand, or set no cgroupRoot"
            }
            Defect::StaleButNeutral => {
                "left by an earlier policy, and without effect while an ancestor has 0. It ends when the pod is made again, a \
                 container's also when it starts again"
            }
            Defect::StaleProtection => {
                "left by an earlier policy, and still protecting. It ends when the pod is made again, a container's also when it \
                 starts again"
            }
            Defect::HighNeverCleared => {
                "left by an earlier factor or gate, and still throttling: the kubelet sends no value where it computes none. It ends \
                 when the container starts again; a pod's when the pod is made again"
            }
            Defect::BurstableMinLeft => "kubelets up to 1.35 wrote it, and no start of a later one clears it: write 0 by hand",
            Defect::PodProtectionNotRewritten => {
                "a pod's cgroup gets no new memory.min or memory.low from a resize that does not change its limit; it ends when the \
                 pod is made again"
            }
        }
    }

    pub(super) fn of(plan: &Plan, finding: &Finding) -> Option<Defect> {
        let number = |text: &Option<String>| text.as_ref()?.parse::<u64>().ok();
        let (planned, found) = (number(&finding.planned), number(&finding.found));
        let drifted = finding.verdict == Verdict::Drifted;
        let leaf = matches!(finding.role, Role::Pod { .. } | Role::Container { .. } | Role::Sandbox { .. });
        let burstable = matches!(&finding.role, Role::Qos { class } if class == "burstable");
        if finding.file == "memory.high" {
            let cleared = finding.planned.as_deref() == Some("max");
            return (drifted && leaf && cleared && found.is_some()).then_some(Defect::HighNeverCleared);
        }
        let protection = finding.protection.as_ref()?;
        let found = found.filter(|bytes| *bytes > 0)?;
        let neutral = protection.passed_on == 0;
        let minor: u32 = plan.kubernetes.rsplit('.').next()?.parse().ok()?;
        let left = finding.rule.as_ref().is_some_and(|rule| rule.formula == super::replay::LEFT);
        match (drifted, planned) {
            (false, _) if neutral && left => Some(Defect::StaleButNeutral),
            (false, _) if neutral => Some(Defect::AncestorUnprotected),
            (true, Some(0)) if burstable && finding.file == "memory.min" && minor >= 36 => Some(Defect::BurstableMinLeft),
            (true, Some(0)) if leaf && neutral => Some(Defect::StaleButNeutral),
            (true, Some(0)) if leaf => Some(Defect::StaleProtection),
            (true, Some(planned)) if matches!(finding.role, Role::Pod { .. }) && planned != found => {
                Some(Defect::PodProtectionNotRewritten)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Protection;
    use super::*;

    fn finding(role: Role, file: &str, planned: &str, found: &str, passed_on: u64) -> Finding {
        let same = planned == found;
        Finding {
            role,
            path: "/x".into(),
            file: file.into(),
            verdict: if same { Verdict::Fulfilled } else { Verdict::Drifted },
            planned: Some(planned.into()),
            found: Some(found.into()),
            reason: String::new(),
            rule: None,
            ceiling: None,
            protection: (file != "memory.high").then_some(Protection { effective: None, passed_on, bound_by: None }),
            defect: None,
        }
    }

    #[test]
    fn each_pattern_is_told_from_its_neighbours() {
        let mut plan = super::super::fixture::plan("1");
        plan.kubernetes = "1.36".into();
        let pod = || Role::Pod { pod: "p".into() };
        let burstable = || Role::Qos { class: "burstable".into() };
        for (role, file, planned, found, passed_on, expected) in [
            (pod(), "memory.low", "4096", "4096", 0, Some(Defect::AncestorUnprotected)),
            (pod(), "memory.low", "4096", "4096", 4096, None),
            (pod(), "memory.low", "0", "0", 0, None),
            (pod(), "memory.low", "0", "4096", 0, Some(Defect::StaleButNeutral)),
            (pod(), "memory.low", "0", "4096", 4096, Some(Defect::StaleProtection)),
            (pod(), "memory.low", "8192", "4096", 4096, Some(Defect::PodProtectionNotRewritten)),
            (pod(), "memory.high", "max", "4096", 0, Some(Defect::HighNeverCleared)),
            (pod(), "memory.high", "8192", "4096", 0, None),
            (burstable(), "memory.min", "0", "4096", 4096, Some(Defect::BurstableMinLeft)),
            (burstable(), "memory.low", "0", "4096", 4096, None),
        ] {
            let made = finding(role, file, planned, found, passed_on);
            assert_eq!(Defect::of(&plan, &made), expected, "{made:?}");
        }
    }
}
