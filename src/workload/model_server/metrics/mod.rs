//! The server's metrics: vLLM 0.33's names and buckets, and, apart from them, figures of the modelled device.
//!
//! Families that vLLM has only with certain options (LoRA, KV consumers, watermarks, NaN counting) are absent, as they are there. A family
//! of something that does not happen here (a multimodal cache of requests without images) stays 0, as it does there.

mod text;

use super::scheduler::{Finished, Step, Token};
use std::time::Duration;
use text::{Histogram, Text};

const TTFT: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0,
    2560.0,
];
const ITL: &[f64] = &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
const E2E: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0,
];
const ITERATION: &[f64] = &[1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];
const CHOICES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0];
const PREEMPTIONS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0];

/// Values that are read when they are asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Now {
    /// Requests running, waiting and swapped out.
    pub requests: (usize, usize, usize),
    /// Blocks used and total, on the device.
    pub device_blocks: (usize, usize),
    /// Blocks used and total, on the host.
    pub host_blocks: (usize, usize),
    /// Bytes used and total of the modelled device.
    pub device_memory: (u64, u64),
    /// Kernel time of the modelled device.
    pub busy: Duration,
    /// Bytes moved to the host and back.
    pub moved: (u64, u64),
}

/// What never changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Fixed {
    /// The model's name.
    pub model: String,
    /// Tokens of prompt and output together.
    pub max_model_len: u32,
    /// The labels of cache_config_info, beside the engine.
    pub cache_config: String,
    /// Also the names that left with V0.
    pub legacy: bool,
}

/// Everything counted since the start.
#[derive(Debug)]
pub struct Metrics {
    fixed: Fixed,
    prefix_queries: u64,
    host_hits: u64,
    preemptions: u64,
    prompt: u64,
    generated: u64,
    finished: u64,
    aborted: u64,
    ttft: Histogram,
    itl: Histogram,
    tpot: Histogram,
    e2e: Histogram,
    queue: Histogram,
    inference: Histogram,
    prefill: Histogram,
    decode: Histogram,
    prompt_tokens: Histogram,
    generation_tokens: Histogram,
    params_max_tokens: Histogram,
    params_n: Histogram,
    request_preemptions: Histogram,
    iteration: Histogram,
}

// 1, 2, 5, 10, … up to the longest request.
fn one_two_five(most: u32) -> Vec<f64> {
    let decades = (0..10).map(|power| 10u64.pow(power));
    decades.flat_map(|ten| [ten, 2 * ten, 5 * ten]).take_while(|bound| *bound <= u64::from(most)).map(|b| b as f64).collect()
}

impl Metrics {
    /// Nothing counted yet.
    pub fn new(fixed: Fixed) -> Metrics {
        let (tokens, e2e) = (Histogram::new(&one_two_five(fixed.max_model_len)), Histogram::new(E2E));
        Metrics {
            fixed,
            prefix_queries: 0,
            host_hits: 0,
            preemptions: 0,
            prompt: 0,
            generated: 0,
            finished: 0,
            aborted: 0,
            ttft: Histogram::new(TTFT),
            itl: Histogram::new(ITL),
            tpot: Histogram::new(ITL),
            e2e: e2e.clone(),
            queue: e2e.clone(),
            inference: e2e.clone(),
            prefill: e2e.clone(),
            decode: e2e,
            prompt_tokens: tokens.clone(),
            generation_tokens: tokens.clone(),
            params_max_tokens: tokens,
            params_n: Histogram::new(CHOICES),
            request_preemptions: Histogram::new(PREEMPTIONS),
            iteration: Histogram::new(ITERATION),
        }
    }

    /// A step was run; so many tokens were read back from the offload tier instead of being computed.
    pub fn step(&mut self, step: &Step, read_back: u64) {
        self.preemptions += step.preempted.len() as u64;
        self.prefix_queries += u64::from(step.tokens()) + read_back;
        self.host_hits += read_back;
        self.iteration.observe(f64::from(step.tokens()));
    }

    /// A token came.
    pub fn token(&mut self, token: &Token, prompt: u32) {
        self.generated += 1;
        if token.number == 1 {
            self.prompt += u64::from(prompt);
            self.ttft.observe(token.after.as_secs_f64());
        } else {
            self.itl.observe(token.after.as_secs_f64());
        }
    }

    /// A client went away.
    pub fn abort(&mut self) {
        self.aborted += 1;
    }

    /// A request is finished.
    pub fn finish(&mut self, done: &Finished) {
        let times = done.times;
        let scheduled = times.scheduled.unwrap_or(times.arrived);
        let first = times.first_token.unwrap_or(times.last_token);
        let seconds = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64();
        self.finished += 1;
        self.e2e.observe(seconds(times.arrived, times.last_token));
        self.queue.observe(seconds(times.arrived, scheduled));
        self.inference.observe(seconds(scheduled, times.last_token));
        self.prefill.observe(seconds(scheduled, first));
        self.decode.observe(seconds(first, times.last_token));
        if done.ask.output > 1 {
            self.tpot.observe(seconds(first, times.last_token) / f64::from(done.ask.output - 1));
        }
        self.prompt_tokens.observe(f64::from(done.ask.prompt));
        self.generation_tokens.observe(f64::from(done.ask.output));
        self.params_max_tokens.observe(f64::from(done.ask.output));
        self.params_n.observe(1.0);
        self.request_preemptions.observe(f64::from(done.preemptions));
    }

    /// Preemptions, finished and aborted requests, tokens generated.
    pub fn counts(&self) -> (u64, u64, u64, u64) {
        (self.preemptions, self.finished, self.aborted, self.generated)
    }

    /// The text of `/metrics`.
    pub fn render(&self, now: &Now) -> String {
        let fixed = &self.fixed;
        let mut text = Text::new(format!(r#"model_name="{}",engine="0""#, fixed.model));
        let (running, waiting, swapped) = now.requests;
        let share = |(used, total): (usize, usize)| if total == 0 { 0.0 } else { used as f64 / total as f64 };
        text.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", running as f64);
        text.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", (waiting + swapped) as f64);
        let by_reason = [(r#"reason="capacity""#, (waiting + swapped) as f64), (r#"reason="deferred""#, 0.0)];
        text.gauges("vllm:num_requests_waiting_by_reason", "Number of requests waiting, by reason.", &by_reason);
        text.gauge("vllm:kv_cache_usage_perc", "KV cache usage. 1 means 100 percent usage.", share(now.device_blocks));
        let sleep = ["awake", "weights_offloaded", "discard_all"].map(|state| format!(r#"sleep_state="{state}""#));
        let states = [(sleep[0].as_str(), 1.0), (sleep[1].as_str(), 0.0), (sleep[2].as_str(), 0.0)];
        text.gauges("vllm:engine_sleep_state", "Engine sleep state.", &states);
        text.gauges("vllm:cache_config_info", "Information of the cache configuration.", &[(&fixed.cache_config, 1.0)]);

        let (prefix, hits) = (self.prefix_queries as f64, self.host_hits as f64);
        text.counter("vllm:prefix_cache_queries", "Prefix cache queries, in tokens. Never hit: not modelled.", prefix);
        text.counter("vllm:prefix_cache_hits", "Prefix cache hits, in tokens.", 0.0);
        text.counter("vllm:external_prefix_cache_queries", "Queries of the cache tier on the host, in tokens.", prefix);
        text.counter("vllm:external_prefix_cache_hits", "Hits in the cache tier on the host, in tokens.", hits);
        text.counter("vllm:mm_cache_queries", "Multimodal cache queries, in items.", 0.0);
        text.counter("vllm:mm_cache_hits", "Multimodal cache hits, in items.", 0.0);
        text.counter("vllm:num_preemptions", "Cumulative number of preemptions.", self.preemptions as f64);
        text.counter("vllm:prompt_tokens", "Number of prefill tokens processed.", self.prompt as f64);
        text.counter("vllm:generation_tokens", "Number of generation tokens processed.", self.generated as f64);
        let sources = [
            (r#"source="local_compute""#, self.prompt as f64),
            (r#"source="local_cache_hit""#, 0.0),
            (r#"source="external_kv_transfer""#, 0.0),
        ];
        text.counters("vllm:prompt_tokens_by_source", "Number of prompt tokens, by source.", &sources);
        text.counter("vllm:prompt_tokens_cached", "Number of cached prompt tokens.", 0.0);
        let cached = ["device", "host", "p2p", "disk", "external_unspecified"].map(|source| format!(r#"source="{source}""#));
        let cached: Vec<_> = cached.iter().map(|labels| (labels.as_str(), 0.0)).collect();
        text.counters("vllm:prompt_tokens_cached_by_source", "Number of cached prompt tokens, by source.", &cached);
        let reasons = [
            (r#"finished_reason="stop""#, 0.0),
            (r#"finished_reason="length""#, self.finished as f64),
            (r#"finished_reason="abort""#, self.aborted as f64),
            (r#"finished_reason="error""#, 0.0),
            (r#"finished_reason="repetition""#, 0.0),
        ];
        text.counters("vllm:request_success", "Count of finished requests.", &reasons);
        let rejections = [(r#"reason="max_num_queued_reqs""#, 0.0), (r#"reason="max_num_queued_tokens""#, 0.0)];
        text.counters("vllm:admission_rejections", "Requests refused at admission.", &rejections);

        for (name, help, histogram) in [
            ("time_to_first_token_seconds", "Time to first token in seconds.", &self.ttft),
            ("inter_token_latency_seconds", "Inter-token latency in seconds.", &self.itl),
            ("request_time_per_output_token_seconds", "Mean time per output token of a request in seconds.", &self.tpot),
            ("e2e_request_latency_seconds", "End-to-end request latency in seconds.", &self.e2e),
            ("request_queue_time_seconds", "Time spent in WAITING phase.", &self.queue),
            ("request_inference_time_seconds", "Time spent in RUNNING phase.", &self.inference),
            ("request_prefill_time_seconds", "Time spent in PREFILL phase.", &self.prefill),
            ("request_decode_time_seconds", "Time spent in DECODE phase.", &self.decode),
            ("request_prompt_tokens", "Number of prefill tokens processed.", &self.prompt_tokens),
            ("request_generation_tokens", "Number of generation tokens processed.", &self.generation_tokens),
            ("request_max_num_generation_tokens", "Most generation tokens of a request's choices.", &self.generation_tokens),
            ("request_params_max_tokens", "The max_tokens request parameter.", &self.params_max_tokens),
            ("request_prefill_kv_computed_tokens", "New KV tokens computed in prefill.", &self.prompt_tokens),
            ("request_params_n", "The n request parameter.", &self.params_n),
            ("request_num_preemptions", "Preemptions of a request.", &self.request_preemptions),
            ("iteration_tokens_total", "Number of tokens per engine step.", &self.iteration),
        ] {
            text.histogram(&format!("vllm:{name}"), help, histogram);
        }
        if fixed.legacy {
            text.gauge("vllm:gpu_cache_usage_perc", "V0's name of kv_cache_usage_perc.", share(now.device_blocks));
            text.gauge("vllm:cpu_cache_usage_perc", "CPU KV-cache usage, V0.", share(now.host_blocks));
            text.gauge("vllm:num_requests_swapped", "Number of requests swapped to CPU, V0.", swapped as f64);
            text.histogram("vllm:time_per_output_token_seconds", "V0's name of inter_token_latency_seconds.", &self.itl);
        }

        let (used, total) = now.device_memory;
        text.counter("highwater_gpu_busy_seconds", "Kernel time of the GPU; modelled, not measured.", now.busy.as_secs_f64());
        text.gauge("highwater_gpu_memory_used_bytes", "Allocated memory of the GPU; modelled.", used as f64);
        text.gauge("highwater_gpu_memory_total_bytes", "Memory of the GPU; modelled.", total as f64);
        text.gauge("highwater_host_kv_blocks_used", "KV blocks that the tier on the host holds.", now.host_blocks.0 as f64);
        text.gauge("highwater_host_kv_blocks_total", "KV blocks that the tier on the host can hold.", now.host_blocks.1 as f64);
        let moved = [(r#"direction="to_host""#, now.moved.0 as f64), (r#"direction="to_device""#, now.moved.1 as f64)];
        text.counters("highwater_link_bytes", "KV bytes moved between device and host; the link is modelled.", &moved);
        text.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::model_server::sequence::{Ask, Times};
    use std::collections::BTreeSet;

    fn metrics(legacy: bool) -> Metrics {
        let cache_config = r#"block_size="16""#.to_owned();
        Metrics::new(Fixed { model: "m".into(), max_model_len: 4096, cache_config, legacy })
    }

    // "TYPE NAME [BOUND…]" for every family.
    fn families(text: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let (name, kind) = line.split_once(' ').unwrap();
            let bucket = format!("{name}_bucket{{");
            let bounds = text.lines().filter(|line| line.starts_with(&bucket));
            let bounds = bounds.filter_map(|line| line.split("le=\"").nth(1)?.split('"').next()).filter(|bound| *bound != "+Inf");
            let bounds: Vec<_> = bounds.map(|bound| bound.trim_end_matches(".0")).collect();
            found.insert([kind, name, &bounds.join(" ")].join(" ").trim_end().to_owned());
        }
        found
    }

    #[test]
    fn families_types_and_buckets_are_vllms() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/vllm/families-0.33.0.txt");
        let list = std::fs::read_to_string(path).unwrap();
        let expected: BTreeSet<_> = list.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
        let ours = families(&metrics(false).render(&Now::default()));
        let (own, vllm): (BTreeSet<_>, BTreeSet<_>) = ours.into_iter().partition(|family| family.contains(" highwater_"));
        assert_eq!(vllm, expected);
        assert_eq!(own.len(), 6);
        let legacy = families(&metrics(true).render(&Now::default()));
        assert!(legacy.contains("gauge vllm:gpu_cache_usage_perc") && legacy.contains("gauge vllm:num_requests_swapped"));
    }

    #[test]
    fn a_request_is_counted_once_everywhere() {
        let mut metrics = metrics(false);
        let ask = Ask { id: 0, prompt: 30, output: 3 };
        let ms = Duration::from_millis;
        metrics.token(&Token { id: 0, number: 1, after: ms(90), last: false }, 30);
        metrics.token(&Token { id: 0, number: 2, after: ms(20), last: false }, 30);
        metrics.token(&Token { id: 0, number: 3, after: ms(40), last: true }, 30);
        let times = Times { arrived: ms(5), scheduled: Some(ms(15)), first_token: Some(ms(95)), last_token: ms(155) };
        metrics.finish(&Finished { ask, times, preemptions: 1 });
        let text = metrics.render(&Now { requests: (1, 2, 3), ..Now::default() });
        let value = |name: &str| {
            let line = text.lines().find(|line| line.split('{').next() == Some(name)).unwrap();
            line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
        };
        assert_eq!(value("vllm:num_requests_waiting"), 5.0);
        assert_eq!((value("vllm:prompt_tokens_total"), value("vllm:generation_tokens_total")), (30.0, 3.0));
        assert_eq!(value("vllm:time_to_first_token_seconds_sum"), 0.09);
        assert_eq!(value("vllm:inter_token_latency_seconds_count"), 2.0);
        assert!((value("vllm:request_time_per_output_token_seconds_sum") - 0.03).abs() < 1e-12);
        assert!((value("vllm:e2e_request_latency_seconds_sum") - 0.15).abs() < 1e-12);
        assert!((value("vllm:request_queue_time_seconds_sum") - 0.01).abs() < 1e-12);
        assert!(text.contains(r#"vllm:request_success_total{model_name="m",engine="0",finished_reason="length"} 1.0"#));
    }
}
