//! Prometheus rules of a lab's alerts, and a unit test that replays an arm's samples through `promtool test rules`.

use crate::lab::{AlertRule, AlertWhen, Alerts, Span, one_line};
use crate::study::{AlertResult, RATE_WINDOW, Series, Telemetry, threshold};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Where the figures come from, verified in the sources of the releases named.
const SOURCES: &str = "\
# container_memory_swap and container_spec_memory_swap_limit_bytes: the kubelet's /metrics/cadvisor (google/cadvisor metrics/prometheus.go,
#   0.48.1 of Kubernetes 1.29 to lib 0.60.5 of 1.37). The limit is memory.swap.max; cAdvisor exports 0 where the file says max, so a container
#   under UnlimitedSwap has no share and this alert is blind to it.
# container_swap_usage_bytes and container_swap_limit_bytes: the kubelet's /metrics/resource (pkg/kubelet/metrics/collectors/resource_metrics.go;
#   the limit from 1.34). Not used here: the usage is always 0 in 1.34 and 1.35 (kubernetes issue 137093, mended by pull request 137098).
# node_memory_SwapFree_bytes, node_memory_SwapTotal_bytes: node exporter, /proc/meminfo.
# node_vmstat_pswpin, node_vmstat_pswpout: node exporter, /proc/vmstat, pages. No exporter counts swap I/O by container.
";

#[derive(Serialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Serialize)]
struct Group {
    name: &'static str,
    rules: Vec<Rule>,
}

#[derive(Serialize)]
struct Rule {
    alert: String,
    expr: String,
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    hold: Option<String>,
    labels: BTreeMap<&'static str, &'static str>,
    annotations: BTreeMap<&'static str, String>,
}

/// A rule file for a node whose swap devices do so many reads per second. A rule about the device is left out where there is none.
///
/// # Errors
/// None that an alert can cause; the YAML writer's otherwise.
pub fn rules(alerts: &Alerts, iops: Option<f64>) -> Result<String, String> {
    let rules = alerts.rules.iter().filter_map(|rule| {
        Some(Rule {
            alert: rule.name.clone(),
            expr: expression(rule, iops)?,
            hold: (rule.hold.0 > 0).then(|| duration(rule.hold)),
            labels: BTreeMap::from([("severity", "warning")]),
            annotations: annotations(rule),
        })
    });
    let group = Group { name: "highwater-swap", rules: rules.collect() };
    let mut text = String::from(
        "# Alerts on swap, written by Highwater. How the source names each figure, and which exported figure that is:\n",
    );
    for rule in &alerts.rules {
        let _ = writeln!(text, "# {}: {}", rule.name, one_line(&rule.reading));
    }
    text.push_str(SOURCES);
    Ok(text + &crate::yaml::emit(&Rules { groups: vec![group] })?)
}

fn expression(rule: &AlertRule, iops: Option<f64>) -> Option<String> {
    Some(match rule.when {
        AlertWhen::ContainerSwapAbove(share) => format!(
            r#"container_memory_swap{{container!=""}} / (container_spec_memory_swap_limit_bytes{{container!=""}} > 0) > {share}"#
        ),
        AlertWhen::NodeSwapFreeBelow(share) => {
            format!("node_memory_SwapFree_bytes / (node_memory_SwapTotal_bytes > 0) < {share}")
        }
        AlertWhen::SwapIoAboveDevice(times) => {
            let window = duration(Span(RATE_WINDOW));
            let bound = threshold(times, iops?);
            format!("rate(node_vmstat_pswpin[{window}]) + rate(node_vmstat_pswpout[{window}]) > {bound}")
        }
    })
}

fn annotations(rule: &AlertRule) -> BTreeMap<&'static str, String> {
    BTreeMap::from([("summary", one_line(&rule.says))])
}

#[derive(Serialize)]
struct UnitTests {
    rule_files: [&'static str; 1],
    evaluation_interval: String,
    tests: [UnitTest; 1],
}

#[derive(Serialize)]
struct UnitTest {
    name: String,
    interval: String,
    input_series: Vec<Input>,
    alert_rule_test: Vec<AlertTest>,
    promql_expr_test: Vec<Count>,
}

#[derive(Serialize)]
struct Input {
    series: String,
    values: String,
}

#[derive(Serialize)]
struct AlertTest {
    eval_time: String,
    alertname: String,
    exp_alerts: Vec<Expected>,
}

#[derive(Serialize)]
struct Expected {
    exp_labels: BTreeMap<String, String>,
    exp_annotations: BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
struct Count {
    expr: String,
    eval_time: String,
    exp_samples: Vec<Sample>,
}

#[derive(Serialize)]
struct Sample {
    labels: &'static str,
    value: u64,
}

/// A unit test for `promtool test rules` beside the rule file `rules.yaml`: an arm's samples, and what our own evaluation found.
///
/// Each beginning and end of a firing is asked at its own evaluation and at the neighbour outside, and the number of evaluations at
/// which each alert fired is counted, so that any firing we did not find fails as well.
///
/// # Errors
/// None that an arm can cause; the YAML writer's otherwise.
pub fn unit_test(arm: &str, alerts: &Alerts, telemetry: &Telemetry, results: &[AlertResult]) -> Result<String, String> {
    let steps = telemetry.swap_free.len();
    let at = |step: usize| duration(Span(step as u64 * alerts.every.0));
    let mut inputs = Vec::new();
    for container in &telemetry.containers {
        let labels = selector(&container_labels(container));
        let limit: Series = container.swap.iter().map(|swap| swap.map(|_| container.limit)).collect();
        inputs.push(Input { series: format!("container_memory_swap{labels}"), values: values(&container.swap) });
        inputs.push(Input { series: format!("container_spec_memory_swap_limit_bytes{labels}"), values: values(&limit) });
    }
    for (name, series) in [
        ("node_memory_SwapFree_bytes", &telemetry.swap_free),
        ("node_memory_SwapTotal_bytes", &telemetry.swap_total),
        ("node_vmstat_pswpin", &telemetry.swapped_in),
        ("node_vmstat_pswpout", &telemetry.swapped_out),
    ] {
        inputs.push(Input { series: format!("{name}{}", selector(&node_labels())), values: values(series) });
    }
    let (mut tests, mut counts) = (Vec::new(), Vec::new());
    for (rule, result) in alerts.rules.iter().zip(results).filter(|(rule, _)| expression(rule, telemetry.iops).is_some()) {
        let step = |ns: u64| (ns / telemetry.step_ns) as usize;
        let edges = result.firings.iter().flat_map(|firing| {
            let (from, to) = (step(firing.from_ns), step(firing.to_ns));
            [from.checked_sub(1), Some(from), Some(to), Some(to + 1)]
        });
        let mut asked: Vec<usize> = edges.flatten().chain([steps.saturating_sub(1)]).filter(|step| *step < steps).collect();
        asked.sort_unstable();
        asked.dedup();
        for step in asked {
            let now = step as u64 * telemetry.step_ns;
            let firing = result.firings.iter().filter(|firing| (firing.from_ns..=firing.to_ns).contains(&now));
            let expected = firing.map(|firing| {
                let labels = match rule.when {
                    AlertWhen::ContainerSwapAbove(_) => container_labels(&telemetry.containers[firing.series]),
                    _ => node_labels(),
                };
                let mut exp_labels: BTreeMap<String, String> =
                    labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
                exp_labels.insert("severity".to_owned(), "warning".to_owned());
                Expected { exp_labels, exp_annotations: annotations(rule) }
            });
            tests.push(AlertTest { eval_time: at(step), alertname: rule.name.clone(), exp_alerts: expected.collect() });
        }
        let fired: u64 = result.firings.iter().map(|firing| (firing.to_ns - firing.from_ns) / telemetry.step_ns + 1).sum();
        let span = duration(Span(steps as u64 * alerts.every.0));
        counts.push(Count {
            expr: format!(r#"sum(count_over_time(ALERTS{{alertname="{}",alertstate="firing"}}[{span}]))"#, rule.name),
            eval_time: at(steps.saturating_sub(1)),
            exp_samples: if fired > 0 { vec![Sample { labels: "{}", value: fired }] } else { Vec::new() },
        });
    }
    let test = UnitTest {
        name: arm.to_owned(),
        interval: duration(alerts.every),
        input_series: inputs,
        alert_rule_test: tests,
        promql_expr_test: counts,
    };
    let file = UnitTests { rule_files: ["rules.yaml"], evaluation_interval: duration(alerts.every), tests: [test] };
    let head = format!(
        "# The samples of arm {arm}, replayed: `promtool test rules` here. One second of the lab stands for {} seconds: levels are as they were, \n\
         # rates are kept, so counters are multiplied by as much. {}\n",
        alerts.time_scale,
        one_line(&alerts.how)
    );
    Ok(head.replace(" \n", "\n") + &crate::yaml::emit(&file)?)
}

fn container_labels(container: &crate::study::ContainerSwap) -> Vec<(&'static str, String)> {
    vec![
        ("container", container.container.clone()),
        ("id", container.cgroup.clone()),
        ("namespace", "default".to_owned()),
        ("pod", container.pod.clone()),
    ]
}

fn node_labels() -> Vec<(&'static str, String)> {
    vec![("instance", "node".to_owned())]
}

fn selector(labels: &[(&'static str, String)]) -> String {
    let pairs: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    format!("{{{}}}", pairs.join(","))
}

/// promtool's notation: `a+0xn` is a value and n repetitions, `_` is no sample, `stale` says that a series has ended.
fn values(series: &[Option<f64>]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = series;
    let mut present = false;
    while let Some(first) = rest.first() {
        let same = rest.iter().take_while(|value| *value == first).count();
        match first {
            Some(value) => parts.push(format!("{value}+0x{}", same - 1)),
            None if present => {
                parts.push("stale".to_owned());
                parts.extend((same > 1).then(|| format!("_x{}", same - 1)));
            }
            None => parts.push(format!("_x{same}")),
        }
        present = first.is_some();
        rest = &rest[same..];
    }
    parts.join(" ")
}

/// A span as Prometheus writes durations; whole milliseconds.
fn duration(span: Span) -> String {
    match span.0 / 1_000_000 {
        ms if ms % 60_000 == 0 => format!("{}m", ms / 60_000),
        ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_written_short() {
        assert_eq!(values(&[None, None, Some(1.0), Some(1.0), Some(2.5), None, None]), "_x2 1+0x1 2.5+0x0 stale _x1");
        assert_eq!(duration(Span(90_000_000_000)), "90s");
        assert_eq!(duration(Span(300_000_000_000)), "5m");
    }
}
