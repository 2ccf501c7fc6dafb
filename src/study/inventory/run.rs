//! The samples of a recorded arm: each model server holds a modelled device of its own, and its requests say how long a first token took.

use super::signals::{Gpu, Points, Samples, Signal};
use crate::record::{Order, Report, Request};
use crate::units::Quantity;
use std::collections::BTreeMap;

const NANOS_PER_MS: u64 = 1_000_000;

/// When a server reported, and what.
type Reported<'r> = (u64, BTreeMap<&'r str, f64>);

impl Samples {
    /// Adds an arm; its pods are named ARM/POD, and times count from the arm's beginning.
    pub fn add_arm(&mut self, order: &Order, reports: &[Report], requests: &[Request]) {
        let mut servers: BTreeMap<&str, Vec<Reported<'_>>> = BTreeMap::new();
        for report in reports {
            let values: BTreeMap<&str, f64> = report.values().collect();
            if values.contains_key("gpu_busy_s") {
                servers.entry(&report.pod).or_default().push((report.at_ns, values));
            }
        }
        for (server, reports) in servers {
            let pod = format!("{}/{server}", order.arm);
            let gpu = Gpu {
                pod: Some(pod.clone()),
                host: None,
                id: Some("modelled".to_owned()),
                model: None,
                instance: None,
                replica: None,
            };
            let of = |key: &str| -> Points {
                let values =
                    reports.iter().filter_map(|(at_ns, values)| Some(((at_ns / NANOS_PER_MS) as i64, *values.get(key)?)));
                values.collect()
            };
            let device = self.gpus.entry(gpu).or_default();
            device.insert(Signal::BusySeconds, of("gpu_busy_s"));
            let used = of("vram_used_bytes");
            if let Some(total) = vram(order, server) {
                device.insert(Signal::MemoryFree, used.iter().map(|(at, used)| (*at, (total - used).max(0.0))).collect());
                device.insert(Signal::MemoryUsed, used);
            }
            let engine = self.engines.entry(pod).or_default();
            let mut put = |signal, points| engine.insert((signal, String::new()), points);
            put(Signal::Waiting, of("waiting"));
            let first_tokens = first_tokens(order, server, requests);
            let until = |at_ms: i64| first_tokens.iter().take_while(move |(at, _)| *at <= at_ms).map(|(_, took)| took);
            let times = reports.iter().map(|(at_ns, _)| (at_ns / NANOS_PER_MS) as i64);
            put(Signal::TtftSum, times.clone().map(|at| (at, until(at).sum())).collect());
            put(Signal::TtftCount, times.map(|at| (at, until(at).count() as f64)).collect());
        }
    }
}

/// When a server's first tokens came and how many seconds after their requests were due, by time.
fn first_tokens(order: &Order, server: &str, requests: &[Request]) -> Vec<(i64, f64)> {
    let loads = order.phases.iter().flat_map(|phase| phase.load.iter().map(move |load| (&phase.name, load)));
    let loads: Vec<_> = loads.filter(|(_, load)| load.pod == server).map(|(phase, load)| (phase, &load.name)).collect();
    let own = requests.iter().filter(|request| loads.contains(&(&request.phase, &request.load)));
    let times = own.filter_map(|request| {
        let first = request.first_token_ns?;
        Some(((first / NANOS_PER_MS) as i64, first.saturating_sub(request.scheduled_ns) as f64 / 1e9))
    });
    let mut times: Vec<_> = times.collect();
    times.sort_by_key(|(at, _)| *at);
    times
}

/// What the server was told its device has.
fn vram(order: &Order, server: &str) -> Option<f64> {
    let pod = order.pods.iter().find(|pod| pod.name == server)?;
    let size = pod.containers.iter().flat_map(|container| &container.args).find_map(|arg| arg.strip_prefix("--vram="))?;
    size.parse::<Quantity>().ok().map(|quantity| quantity.ceil() as f64)
}
