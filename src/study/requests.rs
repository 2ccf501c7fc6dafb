//! Requests: counts by outcome and distributions, by load and for all.

use super::result::{Distribution, LoadResult};
use crate::lab::{Quantile, Slo};
use crate::record::{Outcome, Request};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Collects requests of one stretch of the script.
#[derive(Debug, Default)]
pub struct Requests {
    by_load: BTreeMap<Option<String>, Load>,
}

#[derive(Debug)]
struct Load {
    result: LoadResult,
    latency: Histogram<u64>,
    service: Histogram<u64>,
    ttft: Histogram<u64>,
    tpot: Histogram<u64>,
}

impl Default for Load {
    fn default() -> Load {
        // Three digits: a percentile is exact to 0.1 %.
        let histogram = || {
            let mut histogram = Histogram::new(3).expect("3 digits are allowed");
            histogram.auto(true);
            histogram
        };
        Load { result: LoadResult::default(), latency: histogram(), service: histogram(), ttft: histogram(), tpot: histogram() }
    }
}

impl Requests {
    /// Counts a request, for its load and for all.
    pub fn add(&mut self, request: &Request, slo: Option<&Slo>) {
        for key in [Some(request.load.clone()), None] {
            self.by_load.entry(key).or_default().add(request, slo);
        }
    }

    /// The results, all requests first.
    pub fn finish(self) -> Vec<LoadResult> {
        self.by_load.into_iter().map(|(load, l)| l.finish(load)).collect()
    }
}

impl Load {
    fn add(&mut self, request: &Request, slo: Option<&Slo>) {
        let result = &mut self.result;
        result.due += 1;
        *result.outcomes.entry(outcome(&request.outcome)).or_default() += 1;
        result.tokens += u64::from(request.tokens);
        if let Some(slo) = slo {
            *result.good.get_or_insert(0) += u64::from(good(request, slo));
        }
        if request.outcome != Outcome::Ok {
            return;
        }
        record(&mut self.latency, request.done_ns - request.scheduled_ns);
        if let Some(sent) = request.sent_ns {
            record(&mut self.service, request.done_ns - sent);
        }
        if let Some(first) = request.first_token_ns {
            record(&mut self.ttft, first - request.scheduled_ns);
        }
        if let Some(tpot) = tpot(request) {
            record(&mut self.tpot, tpot);
        }
    }

    fn finish(self, load: Option<String>) -> LoadResult {
        LoadResult {
            load,
            latency: distribution(&self.latency),
            service: distribution(&self.service),
            ttft: distribution(&self.ttft),
            tpot: distribution(&self.tpot),
            ..self.result
        }
    }
}

fn record(histogram: &mut Histogram<u64>, value: u64) {
    histogram.record(value).expect("the histogram grows with its values");
}

fn tpot(request: &Request) -> Option<u64> {
    let gaps = u64::from(request.tokens).checked_sub(1).filter(|n| *n > 0)?;
    Some((request.done_ns - request.first_token_ns?) / gaps)
}

fn good(request: &Request, slo: &Slo) -> bool {
    let within = |value: Option<u64>, most: Option<crate::lab::Span>| most.is_none_or(|most| value.is_some_and(|v| v <= most.0));
    request.outcome == Outcome::Ok
        && within(Some(request.done_ns - request.scheduled_ns), slo.latency)
        && within(request.first_token_ns.map(|t| t - request.scheduled_ns), slo.ttft)
        && (request.tokens < 2 || within(tpot(request), slo.tpot))
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ok => "ok".to_owned(),
        Outcome::Refused => "refused".to_owned(),
        Outcome::Reset => "reset".to_owned(),
        Outcome::Timeout => "timeout".to_owned(),
        Outcome::Status(code) => format!("status {code}"),
        Outcome::Unfinished => "unfinished".to_owned(),
    }
}

/// Ten samples beyond a percentile: below that it says more about chance than about the system.
const BEYOND: f64 = 10.0;

fn distribution(histogram: &Histogram<u64>) -> Distribution {
    let count = histogram.len();
    let some = |value: u64| (count > 0).then_some(value);
    let at = |quantile: Quantile| {
        let beyond = count as f64 * (1.0 - quantile.share());
        (beyond + 1e-9 >= BEYOND).then(|| histogram.value_at_quantile(quantile.share()))
    };
    Distribution {
        count,
        min: some(histogram.min()),
        p50: at(Quantile::P50),
        p90: at(Quantile::P90),
        p99: at(Quantile::P99),
        max: some(histogram.max()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{SloPreset, Span};

    fn request(seq: u32, latency: u64, outcome: Outcome) -> Request {
        Request {
            load: "l".into(),
            phase: "p".into(),
            seq,
            scheduled_ns: 1000,
            sent_ns: Some(1010),
            first_token_ns: Some(1000 + latency / 2),
            done_ns: 1000 + latency,
            outcome,
            tokens: 3,
            gaps_ns: vec![],
        }
    }

    #[test]
    fn percentiles_need_ten_samples_beyond_them() {
        for (n, p50, p90, p99) in
            [(19, false, false, false), (20, true, false, false), (100, true, true, false), (1000, true, true, true)]
        {
            let mut requests = Requests::default();
            (0..n).for_each(|i| requests.add(&request(i, 1_000_000 * u64::from(i + 1), Outcome::Ok), None));
            let all = &requests.finish()[0].latency;
            assert_eq!((all.p50.is_some(), all.p90.is_some(), all.p99.is_some()), (p50, p90, p99), "{n}");
        }
    }

    #[test]
    fn a_preset_s_bounds_hold_where_none_is_given() {
        let slo = |preset, ttft, latency| Slo { preset, ttft, latency, tpot: None }.resolved();
        let interactive = slo(Some(SloPreset::MlperfGptOssInteractive), None, None);
        assert_eq!((interactive.ttft, interactive.tpot), (Some(Span::from_millis(2000)), Some(Span::from_millis(15))));
        let own = slo(Some(SloPreset::MlperfGptOssServer), Some(Span(7)), Some(Span(9)));
        assert_eq!((own.ttft, own.tpot, own.latency), (Some(Span(7)), Some(Span::from_millis(80)), Some(Span(9))));
        // 3 tokens, the first after half of the time: two gaps share the other half.
        for (latency_ms, good) in [(60, 1), (61, 0)] {
            let mut requests = Requests::default();
            requests.add(&request(0, latency_ms * 1_000_000, Outcome::Ok), Some(&interactive));
            assert_eq!(requests.finish()[0].good, Some(good));
        }
    }

    #[test]
    fn failures_are_counted_and_have_no_latency() {
        let mut requests = Requests::default();
        requests
            .add(&request(0, 200, Outcome::Ok), Some(&Slo { preset: None, latency: Some(Span(100)), ttft: None, tpot: None }));
        requests.add(
            &request(1, 100, Outcome::Ok),
            Some(&Slo { preset: None, latency: Some(Span(100)), ttft: Some(Span(50)), tpot: Some(Span(25)) }),
        );
        requests.add(&request(2, 1, Outcome::Status(503)), None);
        requests.add(&request(3, 1, Outcome::Refused), None);
        let results = requests.finish();
        assert_eq!(results.len(), 2);
        let all = &results[0];
        assert_eq!((all.due, all.ok(), all.latency.count, all.good), (4, 2, 2, Some(1)));
        assert_eq!(all.outcomes["status 503"], 1);
        assert_eq!((all.latency.min, all.latency.max), (Some(100), Some(200)));
        assert_eq!(all.tpot.max, Some(50));
        assert_eq!(all.service.max, Some(190));
    }
}
