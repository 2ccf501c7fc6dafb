//! `cargo xtask schema`: writes the JSON Schema of lab.yaml, which editors use; a test checks that it is current.

use anyhow::Context;
use std::path::Path;

/// Where it is published.
const FILE: &str = "labs/lab.schema.json";

/// Writes the schema.
///
/// # Errors
/// The file cannot be written.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(&highwater::lab::schema())? + "\n";
    std::fs::write(root.join(FILE), text).with_context(|| format!("writing {FILE}"))
}
