//! An audit as text: nodes, pods, containers, and what to do.

use super::objects::Cluster;
use crate::lab::Unit;
use crate::study::audit::{Audit, Levels, NodeAudit};
use crate::study::say;
use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write;

pub(super) fn text(audit: &Audit, cluster: &Cluster) -> String {
    let mut out = String::new();
    out.push_str(&nodes(&audit.nodes));
    out.push_str(
        "GAP is peak minus average: memory that is needed at peaks only, the most that swap could cover. ENTITLED is what LimitedSwap grants \
         all containers together, COVERED the part of the gap it reaches. Which pages are cold, usage does not say: rehearse it.\n\n",
    );
    out.push_str(&pods(&audit.nodes));
    out.push('\n');
    out.push_str(&containers(&audit.nodes));
    match audit.actions.is_empty() {
        true => out.push_str("\nNothing to do.\n"),
        false => out.push_str("\nWhat to do\n"),
    }
    for action in &audit.actions {
        let harm = if action.id.is_harmful() { "  (harm)" } else { "" };
        let _ = writeln!(out, "{}{harm}: {}", action.id.name(), action.says);
        for subject in &action.subjects {
            let _ = writeln!(out, "  {subject}");
        }
    }
    let mut note = |what: &str, list: &[String]| {
        if !list.is_empty() {
            let _ = write!(out, "\n{what}: {}\n", list.join(", "));
        }
    };
    note("Not counted, bound to no node of the list", &audit.elsewhere);
    note("Samples of containers that are not in the list", &audit.unmatched);
    note("Not audited", &cluster.skipped);
    if cluster.ended > 0 {
        let _ = write!(out, "\nNot counted, since they have ended and hold no memory: {} of the pods.\n", cluster.ended);
    }
    if !audit.informative() {
        out.push_str("\nNo samples of these pods, so nothing is known about usage: give --usage (`highwater audit --help` says how to get it).\n");
    }
    out
}

fn bytes(value: u64) -> String {
    say(value as f64, Unit::Bytes)
}

fn maybe(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), bytes)
}

fn table(header: &[&str], left: usize, rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}

fn both(usage: Option<Levels>) -> [String; 2] {
    [maybe(usage.map(|u| u.average)), maybe(usage.map(|u| u.peak))]
}

fn nodes(nodes: &[NodeAudit]) -> String {
    let header =
        ["NODE", "KUBERNETES", "CAPACITY", "ALLOCATABLE", "REQUESTED", "AVERAGE", "PEAK", "GAP", "SWAP", "ENTITLED", "COVERED"];
    let row = |node: &NodeAudit| {
        let [average, peak] = both(node.usage);
        let figures = [node.capacity, node.allocatable, node.requested].map(bytes);
        let names = [node.name.clone(), node.kubernetes.clone()];
        let rest = [average, peak, maybe(node.gap), bytes(node.swap), bytes(node.entitled), maybe(node.covered)];
        names.into_iter().chain(figures).chain(rest).collect()
    };
    table(&header, 2, nodes.iter().map(row))
}

fn pods(nodes: &[NodeAudit]) -> String {
    let rows = nodes.iter().flat_map(|node| {
        node.pods.iter().map(|pod| {
            let critical = if pod.critical { "yes" } else { "" };
            let cells = [node.name.as_str(), &pod.name, pod.qos.name(), critical, pod.need.need.name(), &pod.need.rule];
            cells.map(str::to_owned).to_vec()
        })
    });
    table(&["NODE", "POD", "QOS", "CRITICAL", "LATENCY NEED", "BECAUSE"], 6, rows)
}

fn containers(nodes: &[NodeAudit]) -> String {
    let pods = nodes.iter().flat_map(|node| node.pods.iter().map(move |pod| (node, pod)));
    let all = pods.flat_map(|(node, pod)| pod.containers.iter().map(move |container| (node, pod, container)));
    let rows = all.map(|(node, pod, container)| {
        let [average, peak] = both(container.usage);
        let verdict = match (container.too_small, container.entitled, container.beyond_request) {
            (true, ..) => "too small",
            (false, false, _) => "none",
            (false, true, _) if node.swap == 0 => "no swap",
            (false, true, None) => "not observed",
            (false, true, Some(_)) => "holds",
        };
        let name = format!("{}/{}", pod.name, container.name);
        let limit = maybe(container.limit);
        let beyond = maybe(container.beyond_request);
        vec![name, bytes(container.request), limit, average, peak, beyond, bytes(container.entitlement), verdict.to_owned()]
    });
    table(&["CONTAINER", "REQUEST", "LIMIT", "AVERAGE", "PEAK", "BEYOND REQUEST", "ENTITLED", "ENTITLEMENT"], 1, rows)
}
