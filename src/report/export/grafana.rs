//! A Grafana dashboard over the exported names, one for every run: it asks for the arm.

use serde_json::{Value, json};

/// Title, unit and queries with their legend.
type Panel = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const PANELS: [Panel; 8] = [
    (
        "Memory of containers",
        "bytes",
        &[
            (r#"container_memory_working_set_bytes{arm=~"$arm",container!=""}"#, "{{arm}} {{pod}} working set"),
            (r#"container_spec_memory_limit_bytes{arm=~"$arm",container!=""} > 0"#, "{{arm}} {{pod}} limit"),
        ],
    ),
    (
        "Memory of pods by kind",
        "bytes",
        &[
            (r#"container_memory_rss{arm=~"$arm",container="",pod!=""}"#, "{{arm}} {{pod}} anonymous"),
            (r#"container_memory_cache{arm=~"$arm",container="",pod!=""}"#, "{{arm}} {{pod}} files"),
        ],
    ),
    (
        "Swap of containers",
        "bytes",
        &[
            (r#"container_memory_swap{arm=~"$arm",container!=""}"#, "{{arm}} {{pod}}"),
            (r#"container_spec_memory_swap_limit_bytes{arm=~"$arm",container!=""} > 0"#, "{{arm}} {{pod}} limit"),
        ],
    ),
    (
        "Swap of the node",
        "bytes",
        &[
            (r#"node_memory_SwapTotal_bytes{arm=~"$arm"} - node_memory_SwapFree_bytes{arm=~"$arm"}"#, "{{arm}} used"),
            (r#"node_memory_MemAvailable_bytes{arm=~"$arm"}"#, "{{arm}} memory available"),
        ],
    ),
    (
        "Swap traffic, pages per second",
        "short",
        &[
            (r#"rate(node_vmstat_pswpin{arm=~"$arm"}[$__rate_interval])"#, "{{arm}} in"),
            (r#"rate(node_vmstat_pswpout{arm=~"$arm"}[$__rate_interval])"#, "{{arm}} out"),
        ],
    ),
    (
        "Major faults per second",
        "short",
        &[(
            r#"rate(container_memory_failures_total{arm=~"$arm",failure_type="pgmajfault",container!=""}[$__rate_interval])"#,
            "{{arm}} {{pod}}",
        )],
    ),
    (
        "Memory pressure (share of time every task waited)",
        "percentunit",
        &[
            (
                r#"rate(container_pressure_memory_stalled_seconds_total{arm=~"$arm",container!=""}[$__rate_interval])"#,
                "{{arm}} {{pod}}",
            ),
            (r#"rate(node_pressure_memory_stalled_seconds_total{arm=~"$arm"}[$__rate_interval])"#, "{{arm}} node"),
        ],
    ),
    ("OOM kills", "short", &[(r#"increase(node_vmstat_oom_kill{arm=~"$arm"}[$__rate_interval])"#, "{{arm}} node")]),
];

/// The dashboard as JSON, for Grafana's import.
#[must_use]
pub fn dashboard() -> Value {
    let source = json!({"type": "prometheus", "uid": "${source}"});
    let panel = |(i, (title, unit, queries)): (usize, &Panel)| {
        let targets = queries.iter().zip('A'..).map(
            |((query, legend), id)| json!({"datasource": source, "expr": query, "legendFormat": legend, "refId": id.to_string()}),
        );
        json!({
            "id": i + 1,
            "type": "timeseries",
            "title": title,
            "datasource": source,
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
            "gridPos": {"x": i % 2 * 12, "y": i / 2 * 8, "w": 12, "h": 8},
            "targets": targets.collect::<Vec<_>>(),
        })
    };
    json!({
        "title": "Highwater: memory pressure by arm",
        "uid": "highwater",
        "schemaVersion": 39,
        "tags": ["highwater"],
        "time": {"from": "now-15m", "to": "now"},
        "templating": {"list": [
            {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
            {"name": "arm", "type": "query", "label": "Arm", "datasource": source, "multi": true, "includeAll": true,
             "query": "label_values(node_memory_MemFree_bytes, arm)", "refresh": 2},
        ]},
        "panels": PANELS.iter().enumerate().map(panel).collect::<Vec<_>>(),
    })
}
