//! Mutation check: each formula, computed with a wrong order of arithmetic, must differ from the policy for at least one case.
//!
//! The golden vectors pin the right values; this file shows that they, or the cases here, would notice a plausible mistake: decimal
//! fractions instead of floats, exact rationals, multiplying before dividing, integers throughout, rounding at another place.

use highwater::kubelet::{
    ContainerPolicy, Effective, KubeletConfiguration, Limit, Node, NodeFacts, Pod, PodPolicy, QosSums, Version, quota_us,
    runtime_weight, shares,
};
use highwater::units::Quantity;
use serde_json::json;

/// One container on a node: what its files get.
struct Case {
    memory: u64,
    swap: u64,
    factor: f64,
    request: String,
    limit: Option<String>,
    reserved: Option<&'static str>,
}

impl Case {
    fn new(memory: u64, swap: u64, factor: f64, request: impl ToString, limit: Option<u64>) -> Self {
        let limit = limit.map(|limit| limit.to_string());
        Case { memory, swap, factor, request: request.to_string(), limit, reserved: None }
    }

    fn node(&self) -> Node {
        let mut config: KubeletConfiguration = serde_json::from_value(json!({
            "memoryThrottlingFactor": self.factor, "memoryReservationPolicy": "TieredReservation", "failSwapOn": false,
            "memorySwap": { "swapBehavior": "LimitedSwap" },
        }))
        .expect("a configuration");
        if let Some(reserved) = self.reserved {
            config.system_reserved.insert("memory".to_owned(), reserved.parse().expect("a quantity"));
        }
        Node::new(Effective::resolve(Version::V1_37, &config).expect("it is valid"), NodeFacts::new(self.memory, self.swap))
    }

    fn pod(&self, node: &Node) -> Pod {
        let mut resources = json!({ "requests": { "memory": self.request } });
        if let Some(limit) = &self.limit {
            resources["limits"] = json!({ "memory": limit });
        }
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "p", "uid": "u" }, "spec": { "containers": [{ "name": "c", "resources": resources }] },
        }))
        .expect("a pod");
        pod.set_defaults(&node.config.gates);
        pod
    }

    fn values(&self) -> ContainerPolicy {
        let node = self.node();
        let pod = self.pod(&node);
        ContainerPolicy::of(&node, &pod, &PodPolicy::of(&node, &pod), &pod.spec.containers[0])
    }

    fn request_bytes(&self) -> i128 {
        i128::from(self.request.parse::<Quantity>().expect("a quantity").ceil())
    }

    fn top(&self) -> i128 {
        self.limit.as_ref().map_or(i128::from(self.memory), |limit| limit.parse().expect("bytes"))
    }
}

fn number(value: Option<Limit>) -> i128 {
    match value {
        Some(Limit::Number(bytes)) => i128::from(bytes),
        other => panic!("expected a number, found {other:?}"),
    }
}

/// A wrong formula by name.
type Mutant = (&'static str, fn(&Case) -> i128);

/// Every mutant must be told apart by at least one case, and the right formula by none.
fn killed(what: &str, cases: &[Case], right: fn(&Case) -> i128, policy: fn(&Case) -> i128, mutants: &[Mutant]) {
    for (index, case) in cases.iter().enumerate() {
        assert_eq!(policy(case), right(case), "{what}: case {index} with the right formula");
    }
    for (name, mutant) in mutants {
        let alive = cases.iter().all(|case| mutant(case) == policy(case));
        assert!(!alive, "{what}: no case tells {name:?} from the right formula");
    }
}

/// The factor as an exact decimal: numerator and denominator of its shortest text.
fn decimal(factor: f64) -> (i128, i128) {
    let text = factor.to_string();
    let frac = text.split_once('.').map_or("", |(_, frac)| frac);
    let denominator = 10i128.pow(frac.len() as u32);
    (text.replace('.', "").parse().expect("digits"), denominator)
}

/// The factor as the exact rational that the float stands for.
fn rational(factor: f64) -> (i128, i128) {
    let bits = factor.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1075;
    let mantissa = i128::from(bits & ((1 << 52) - 1) | 1 << 52);
    (mantissa, 1i128 << -exponent)
}

const PAGE: i128 = 4096;

#[test]
fn memory_high() {
    let gi = 1u64 << 30;
    let mut cases = vec![
        Case::new(16 * gi, 0, 0.9, 0, Some(40_960)),
        Case::new(16 * gi, 0, 0.9, 0, None),
        Case::new(16 * gi, 0, 0.1, 3 * 4096, Some(13 * 4096)),
        Case::new(16 * gi, 0, 0.7, 10 * 4096, Some(20 * 4096)),
        Case::new(64 * gi, 0, 0.3, 4096, Some(4096 * 100_001)),
        Case::new(2049 * gi + 1, 0, 0.123_456_789, "1500m", None),
    ];
    // Where a product falls just beside a page, decimal and float differ.
    for pages in 1..300u64 {
        cases.push(Case::new(16 * gi, 0, 0.7, 0, Some(pages * 40_960)));
        cases.push(Case::new(16 * gi, 0, 0.29, 4096 * 7, Some(4096 * (7 + pages * 100))));
    }
    let policy: fn(&Case) -> i128 = |case| number(case.values().high.value);
    let right: fn(&Case) -> i128 = |case| {
        let (request, top) = (case.request_bytes() as f64, case.top() as f64);
        ((request + (top - request) * case.factor).floor() / PAGE as f64) as i128 * PAGE
    };
    let mutants: [Mutant; 7] = [
        ("exact decimal", |case| {
            let ((n, d), request) = (decimal(case.factor), case.request_bytes());
            (request + (case.top() - request) * n / d) / PAGE * PAGE
        }),
        ("exact rational of the float", |case| {
            let ((n, d), request) = (rational(case.factor), case.request_bytes());
            (request + (case.top() - request) * n / d) / PAGE * PAGE
        }),
        ("integer percent", |case| {
            let request = case.request_bytes();
            (request + (case.top() - request) * (case.factor * 100.0) as i128 / 100) / PAGE * PAGE
        }),
        ("factor of the whole", |case| (case.top() as f64 * case.factor) as i128 / PAGE * PAGE),
        ("weights multiplied first", |case| {
            let (request, top) = (case.request_bytes() as f64, case.top() as f64);
            (request * (1.0 - case.factor) + top * case.factor) as i128 / PAGE * PAGE
        }),
        ("rounded up to a page", |case| {
            let (request, top) = (case.request_bytes() as f64, case.top() as f64);
            ((request + (top - request) * case.factor).floor() / PAGE as f64).ceil() as i128 * PAGE
        }),
        ("not rounded to a page", |case| {
            let (request, top) = (case.request_bytes() as f64, case.top() as f64);
            (request + (top - request) * case.factor).floor() as i128
        }),
    ];
    killed("memory.high", &cases, right, policy, &mutants);
}

#[test]
fn memory_swap_max() {
    let gi = 1u64 << 30;
    let mut cases =
        vec![Case::new(16 * gi, 4 * gi, 0.9, 128 << 20, None), Case::new(16_374_636_544, 2_147_479_552, 0.9, 128 << 20, None)];
    // Here the exact result is a whole number, and a quotient rounded down first falls short of it.
    for i in 1..40u64 {
        cases.push(Case::new(100 * gi, 30 * gi, 0.9, 839_680 * i, None));
        cases.push(Case::new(1_000_000_000, 100_000_000, 0.9, 61_440 * i, None));
    }
    let policy: fn(&Case) -> i128 = |case| number(case.values().swap_max.value);
    let right: fn(&Case) -> i128 = |case| (case.request_bytes() as f64 / case.memory as f64 * case.swap as f64) as i128;
    let mutants: [Mutant; 5] = [
        ("multiply first, in float", |case| (case.request_bytes() as f64 * case.swap as f64 / case.memory as f64) as i128),
        ("integers, multiply first", |case| case.request_bytes() * i128::from(case.swap) / i128::from(case.memory)),
        ("rounded to nearest", |case| (case.request_bytes() as f64 / case.memory as f64 * case.swap as f64).round() as i128),
        ("floored to a page", |case| (case.request_bytes() as f64 / case.memory as f64 * case.swap as f64) as i128 / PAGE * PAGE),
        ("ratio of swap to memory first", |case| (case.swap as f64 / case.memory as f64 * case.request_bytes() as f64) as i128),
    ];
    killed("memory.swap.max", &cases, right, policy, &mutants);
}

#[test]
fn oom_score_adj() {
    let memory = 16_374_636_544;
    let requests = (1..120u64).map(|i| i * 136_455_310).chain([memory]);
    let cases: Vec<Case> = requests.map(|request| Case::new(memory, 0, 0.9, request, None)).collect();
    let policy: fn(&Case) -> i128 = |case| i128::from(case.values().oom_score_adj.value);
    let right: fn(&Case) -> i128 = |case| (1000 - 1000 * case.request_bytes() / i128::from(case.memory)).clamp(3, 999);
    let mutants: [Mutant; 4] = [
        ("float, truncated", |case| ((1000.0 - 1000.0 * case.request_bytes() as f64 / case.memory as f64) as i128).clamp(3, 999)),
        ("divide first", |case| (1000 - 1000 * (case.request_bytes() / i128::from(case.memory))).clamp(3, 999)),
        ("rounded to nearest", |case| {
            ((1000.0 - 1000.0 * case.request_bytes() as f64 / case.memory as f64).round() as i128).clamp(3, 999)
        }),
        ("lower bound 2", |case| (1000 - 1000 * case.request_bytes() / i128::from(case.memory)).clamp(2, 999)),
    ];
    killed("oom_score_adj", &cases, right, policy, &mutants);
}

#[test]
fn allocatable_rounds_the_exact_difference_up() {
    let cases: Vec<Case> = ["1500m", "0.3Gi", "1", "100Mi", "0.1Gi", "1e9"]
        .into_iter()
        .map(|reserved| Case { reserved: Some(reserved), ..Case::new(1_000_000_007, 0, 0.9, 1, None) })
        .collect();
    let reserved = |case: &Case| case.reserved.expect("set").parse::<Quantity>().expect("a quantity");
    let policy: fn(&Case) -> i128 = |case| i128::from(case.node().allocatable_absolute);
    for case in &cases {
        let exact = i128::from(case.memory) * 1_000_000_000 - reserved(case).nanos();
        assert_eq!(policy(case), (exact + 999_999_999) / 1_000_000_000, "{:?}", case.reserved);
    }
    let mutants: [Mutant; 2] = [
        ("reservation rounded up first", |case| {
            let reserved = case.reserved.expect("set").parse::<Quantity>().expect("a quantity");
            i128::from(case.memory) - i128::from(reserved.ceil())
        }),
        ("through float", |case| {
            let reserved = case.reserved.expect("set").parse::<Quantity>().expect("a quantity");
            (case.memory as f64 - reserved.nanos() as f64 / 1e9) as i128
        }),
    ];
    for (name, mutant) in mutants {
        assert!(cases.iter().any(|case| mutant(case) != policy(case)), "{name}");
    }
}

#[test]
fn pod_sums_are_exact_and_rounded_once() {
    let node = Case::new(1 << 34, 0, 0.9, 0, None).node();
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "p", "uid": "u" },
        "spec": { "containers": (0..4).map(|i| json!({ "name": format!("c{i}"), "resources": { "requests": { "memory": "1500m" } } }))
            .collect::<Vec<_>>() },
    }))
    .expect("a pod");
    pod.set_defaults(&node.config.gates);
    let policy = PodPolicy::of(&node, &pod);
    assert_eq!(number(policy.low.value), 6, "4 × 1.5 bytes");
    let each: i128 = pod.containers().map(|c| i128::from(c.resources.requests.memory_bytes())).sum();
    assert_eq!(each, 8, "rounding each container first gives another sum");
    assert_eq!(QosSums::of(&[policy]).burstable, 6);
}

#[test]
fn percentages_of_eviction_go_through_float32() {
    let amount = |percent: &str, memory: u64| {
        let config = serde_json::from_value(json!({ "evictionHard": { "memory.available": percent } })).expect("a configuration");
        let effective = Effective::resolve(Version::V1_37, &config).expect("it is valid");
        memory as i64 - Node::new(effective, NodeFacts::new(memory, 0)).status_allocatable
    };
    let memory = 270_188_728_320u64;
    let right = (memory as f64 * f64::from(33.3f32 / 100.0)) as i64;
    assert_eq!(amount("33.3%", memory), right);
    assert_ne!(right, (memory as f64 * 0.333) as i64, "float64 throughout");
    assert_ne!(right, (memory as i128 * 333 / 1000) as i64, "integers");
    assert_ne!(right, (memory as f32 * (33.3f32 / 100.0)) as i64, "float32 throughout");
}

#[test]
fn cpu_shares_quota_and_weight() {
    assert_eq!(shares(0), 2);
    assert_eq!(shares(1), 2);
    assert_eq!(shares(100), 102);
    assert_ne!(shares(999), (std::hint::black_box(999) / 1000 * 1024) as u64, "divide first");
    assert_eq!((quota_us(0), quota_us(1), quota_us(10), quota_us(1500)), (0, 1000, 1000, 150_000));
    // The minimum, the default and the maximum of the quadratic fit, and a value between them.
    let weight = |version: Version, shares| runtime_weight(version.rules(), shares);
    assert_eq!([2, 102, 1024, 262_144].map(|s| weight(Version::V1_37, s)), [1, 17, 100, 10_000]);
    assert_eq!([2, 102, 1024, 262_144].map(|s| weight(Version::V1_35, s)), [1, 4, 39, 10_000]);
}
