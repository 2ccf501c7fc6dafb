//! `highwater plan`: what the kubelet will write for a set of Pods, why, and what changes with a version or a configuration.

pub(super) mod against;
pub(super) mod manifests;
pub(super) mod options;
pub(super) mod show;
mod stream;

pub use options::Options;

use super::{Exit, print, print_json};
use crate::kubelet::{self, KubeletConfiguration, NodeFacts, Pod, Version, lint};
use crate::plan::{Planning, diff};
use crate::provider::attach::Captured;
use camino::Utf8Path;
use manifests::Manifests;
use options::configuration;

/// Plans, explains, compares or checks.
pub fn run(options: &Options, json: bool) -> anyhow::Result<Exit> {
    if options.stream {
        let stdin = std::io::stdin().lock();
        let stdout = std::io::BufWriter::new(std::io::stdout().lock());
        return stream::run(stdin, stdout, options.inputs.kubernetes.unwrap_or(Version::V1_37));
    }
    if let Some(directory) = &options.against {
        return captured(options, directory, json);
    }
    let manifests =
        manifests::read(&options.inputs.files, options.inputs.replicas).map_err(|problems| Exit::BadInput.because(problems))?;
    let version = options.inputs.version(&manifests)?;
    let (config, raw) = options.inputs.configuration(&manifests)?;
    if options.lint {
        let findings = lint(version, &raw, &config);
        let refused = findings.iter().any(|finding| finding.severity == kubelet::Severity::Refused);
        if json {
            print_json(&findings)?
        } else {
            print(show::findings(&findings))?
        };
        return Ok(if refused { Exit::BadInput } else { Exit::AsExpected });
    }
    let facts = options.inputs.facts(&manifests)?;
    let planning = planning(version, &config, &facts, &manifests.pods)?;
    if let Some(target) = &options.explain {
        return explain(&planning, target, json);
    }
    if options.budget {
        let peak = options.unprotected_peak.map(|peak| u64::try_from(peak.ceil()).unwrap_or(0));
        let budget = planning.budget(peak);
        return if json { print_json(&budget) } else { print(show::budget(&budget, options.claim)) };
    }
    if !options.diff.is_empty() {
        let (mut version, mut config) = (version, config);
        for target in &options.diff {
            match target.parse() {
                Ok(other) => version = other,
                Err(_) => config = configuration(target)?.0,
            }
        }
        return compare(&planning, (version, &config, &facts), &manifests.pods, json);
    }
    let plan = planning.plan();
    if json {
        return print_json(&plan);
    }
    let mut out = if options.tree { show::tree(&plan) } else { show::table(&plan) };
    let traps = planning.traps();
    if !traps.is_empty() {
        out.push_str("\nTraps, the worst first:\n");
        out.push_str(&show::traps(&traps));
    }
    out.push_str(&skipped(&manifests));
    print(out)
}

fn planning(version: Version, config: &KubeletConfiguration, facts: &NodeFacts, pods: &[Pod]) -> anyhow::Result<Planning> {
    Planning::new(version, config, facts, pods)
        .map_err(|reasons| Exit::BadInput.because(show::refusals(&format!("the kubelet {version}"), &reasons)))
}

fn skipped(manifests: &Manifests) -> String {
    match manifests.skipped.is_empty() {
        true => String::new(),
        false => format!("\nNot planned, since they make no pods: {}\n", manifests.skipped.join(", ")),
    }
}

fn explain(planning: &Planning, target: &str, json: bool) -> anyhow::Result<Exit> {
    let (cgroup, file) = target.rsplit_once('/').unwrap_or(("", target));
    let Some(found) = planning.explain(cgroup, file) else {
        let roles: Vec<String> = planning.plan().cgroups.iter().map(|cgroup| cgroup.role.to_string()).collect();
        let message = format!("nothing is known about {target:?}: name a file of one of {}", roles.join(", "));
        return Err(Exit::BadInput.because(message));
    };
    if json {
        return print_json(&serde_json::json!({
            "cgroup": found.role.to_string(), "path": found.path, "file": found.file, "value": found.value, "rule": found.rule,
        }));
    }
    print(show::explanation(&found))
}

/// A captured node under another version or configuration.
fn captured(options: &Options, directory: &Utf8Path, json: bool) -> anyhow::Result<Exit> {
    let bad = |message: String| Exit::BadInput.because(message);
    let captured = Captured::read(directory).map_err(|e| bad(e.to_string()))?;
    let inputs = &options.inputs;
    let found = manifests::read(&inputs.files, inputs.replicas).map_err(|problems| Exit::BadInput.because(problems))?;
    if inputs.kubernetes.is_none() && inputs.kubelet.is_none() && found.kubelet.is_none() {
        return Err(bad("say what changes on the captured node: --kubernetes VERSION, --kubelet FILE, or both".to_owned()));
    }
    let (version, config) = against::base(inputs, &captured, &found)?.map_err(bad)?;
    let own = (captured.version().map_err(bad)?, captured.kubelet.as_ref());
    let own = (own.0, own.1.ok_or_else(|| bad(format!("{directory}: the kubelet's configuration was not captured")))?);
    let before = against::plan(inputs, &captured, Some(own))?.map_err(bad)?;
    compare(&before, (version, &config, &captured.facts().map_err(bad)?), before.pods(), json)
}

/// What changes on the node of a plan under this version and configuration.
fn compare(
    before: &Planning,
    (version, config, facts): (Version, &KubeletConfiguration, &NodeFacts),
    pods: &[Pod],
    json: bool,
) -> anyhow::Result<Exit> {
    let after = match Planning::new(version, config, facts, pods) {
        Ok(after) => after,
        // That the new kubelet does not start is the most dangerous change of all, and an answer.
        Err(reasons) => {
            let words: Vec<String> = reasons.iter().map(ToString::to_string).collect();
            match json {
                true => print_json(&serde_json::json!({ "refused": words }))?,
                false => print(show::refusals(&format!("the kubelet {version}"), &reasons))?,
            };
            return Ok(Exit::Failed);
        }
    };
    let (old_plan, new_plan) = (before.plan(), after.plan());
    let changes = diff(&old_plan, &new_plan);
    let named = old_plan.cgroups.iter().chain(&new_plan.cgroups);
    let roles = named.map(|cgroup| (cgroup.path.clone(), cgroup.role.to_string())).collect();
    let mut files = before.files();
    files.restart_kubelet(after.node(), after.pods());
    let stale = files.stale(after.node(), after.pods());
    let old = before.traps();
    let traps: Vec<_> = after.traps().into_iter().filter(|trap| !old.contains(trap)).collect();
    if json {
        let stale: Vec<_> = stale
            .iter()
            .map(|s| {
                let text = |limit: Option<kubelet::Limit>| limit.map(|limit| limit.to_string());
                serde_json::json!({
                    "cgroup": s.cgroup, "file": s.file, "holds": text(s.holds), "wouldHold": text(s.would_hold),
                    "until": format!("{:?}", s.until),
                })
            })
            .collect();
        return print_json(&serde_json::json!({ "changes": changes, "traps": traps, "stale": stale }));
    }
    let mut out = show::changes(&changes, &stale, &roles);
    if !traps.is_empty() {
        out.push_str("\nTraps that were not there before:\n");
        out.push_str(&show::traps(&traps));
    }
    print(out)
}
