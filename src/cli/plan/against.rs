//! Plans of a captured node: its own, and that of another version or configuration.

use super::manifests::{self, Manifests};
use super::options::Inputs;
use crate::cli::Exit;
use crate::kubelet::{KubeletConfiguration, Pod, Version};
use crate::plan::Planning;
use crate::provider::attach::Captured;

/// Plans a captured node. What the inputs say goes before what was captured: pods, the configuration, the version. `instead` goes
/// before both.
///
/// # Errors
/// Inputs that cannot be read. The inner error is a sentence: something that a plan needs was not captured, or the kubelet would not start.
pub(in crate::cli) fn plan(
    inputs: &Inputs,
    captured: &Captured,
    instead: Option<(Version, &KubeletConfiguration)>,
) -> anyhow::Result<Result<Planning, String>> {
    let found = manifests::read(&inputs.files, inputs.replicas).map_err(|problems| Exit::BadInput.because(problems))?;
    let (version, config) = match (instead, base(inputs, captured, &found)?) {
        (Some((version, config)), _) => (version, config.clone()),
        (None, Ok(base)) => base,
        (None, Err(why)) => return Ok(Err(why)),
    };
    let facts = match captured.facts() {
        Ok(facts) => facts,
        Err(why) => return Ok(Err(why)),
    };
    let pods: Vec<Pod> = match found.pods.is_empty() {
        true => captured.listed.pods.iter().map(|listed| listed.pod.clone()).collect(),
        false => found.pods,
    };
    let refused = |reasons: Vec<_>| format!("the kubelet {version} does not start: {}", crate::kubelet::aggregate(&reasons));
    Ok(Planning::new(version, &config, &facts, &pods).map_err(refused))
}

/// The version and configuration to begin with.
pub(in crate::cli) fn base(
    inputs: &Inputs,
    captured: &Captured,
    found: &Manifests,
) -> anyhow::Result<Result<(Version, KubeletConfiguration), String>> {
    let version = match inputs.kubernetes {
        Some(version) => version,
        None => match captured.version() {
            Ok(version) => version,
            Err(why) => return Ok(Err(why)),
        },
    };
    let config = match (&inputs.kubelet, &found.kubelet, &captured.kubelet) {
        (Some(_), ..) | (None, Some(_), _) => inputs.configuration(found)?.0,
        (None, None, Some(config)) => config.clone(),
        (None, None, None) => return Ok(Err("the kubelet's configuration was not captured: give --kubelet".to_owned())),
    };
    Ok(Ok((version, config)))
}
