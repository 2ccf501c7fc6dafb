//! `highwater clean`: finishes what killed runs left, and empties the cache on request.

use super::{Exit, print, print_json};
use crate::provider::cache::{Cache, Pruned, cache_dir};
use crate::provider::lease::{Removed, leftovers, state_dir};
use crate::provider::{docker, image, kernel, sim, vm};
use serde_json::json;

/// Removes what the leases of dead processes name; with `cache` also booted checkpoints and kernels that nobody uses.
pub fn run(cache: bool, json: bool) -> anyhow::Result<Exit> {
    let mut removed = Removed::default();
    for leftover in leftovers(&state_dir())? {
        let one = leftover.clean();
        removed.done.extend(one.done);
        removed.failed.extend(one.failed);
    }
    let pruned = if cache { prune(&Cache::at(cache_dir()))? } else { Pruned::default() };
    if json {
        print_json(&json!({
            "removed": removed.done, "failed": removed.failed,
            "cache": { "entries": pruned.entries, "bytes": pruned.bytes, "busy": pruned.busy },
        }))?;
    } else {
        print(describe(&removed, &pruned, cache))?;
    }
    Ok(if removed.failed.is_empty() { Exit::AsExpected } else { Exit::Failed })
}

fn prune(cache: &Cache) -> anyhow::Result<Pruned> {
    let mut sum = Pruned::default();
    // Checkpoints first: a kernel or a disk is in use while one of its checkpoints is.
    for kind in [sim::KIND, vm::KIND, docker::KIND, kernel::KIND, image::DOCKER_KIND] {
        let one = cache.prune(kind)?;
        sum.entries += one.entries;
        sum.bytes += one.bytes;
        sum.busy += one.busy;
    }
    Ok(sum)
}

fn describe(removed: &Removed, pruned: &Pruned, cache: bool) -> String {
    let mut lines: Vec<String> = removed.done.iter().map(|what| format!("removed {what}")).collect();
    lines.extend(removed.failed.iter().map(|what| format!("could not remove {what}")));
    if lines.is_empty() {
        lines.push("nothing was left behind".into());
    }
    if cache {
        lines.push(format!("cache: removed {} entries, {} MiB", pruned.entries, pruned.bytes >> 20));
        if pruned.busy > 0 {
            lines.push(format!("cache: {} entries are in use and stay", pruned.busy));
        }
    }
    lines.join("\n")
}
