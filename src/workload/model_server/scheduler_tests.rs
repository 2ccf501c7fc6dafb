//! Properties of the scheduler under any sequence of arrivals, steps and aborts.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn limits(blocks: u32, tier: HostTier) -> Limits {
    Limits { blocks, block_tokens: 16, batched_tokens: 64, sequences: 4, tier }
}

fn at(step: u64) -> Duration {
    Duration::from_millis(step)
}

fn ask(id: u64, prompt: u32, output: u32) -> Ask {
    Ask { id, prompt, output }
}

#[test]
fn long_prompts_come_in_chunks_and_decoding_goes_first() {
    let mut engine = Scheduler::new(limits(100, HostTier::None));
    engine.submit(ask(1, 10, 3), at(0));
    engine.submit(ask(2, 100, 1), at(0));
    let step = engine.plan(at(1)).unwrap();
    assert_eq!(step.work, [(1, 10), (2, 54)], "the budget is 64");
    let brought = engine.commit(&step, at(2));
    assert_eq!(brought.tokens, [Token { id: 1, number: 1, after: at(2), last: false }]);
    let step = engine.plan(at(2)).unwrap();
    assert_eq!(step.work, [(1, 1), (2, 46)]);
    let brought = engine.commit(&step, at(5));
    assert_eq!(brought.tokens[0], Token { id: 1, number: 2, after: at(3), last: false });
    assert_eq!(brought.finished[0].ask.id, 2);
    assert_eq!(brought.finished[0].times.scheduled, Some(at(1)));
}

#[test]
fn the_last_admitted_is_preempted_and_recomputed_first() {
    let mut engine = Scheduler::new(limits(4, HostTier::None));
    engine.submit(ask(1, 31, 20), at(0));
    engine.submit(ask(2, 31, 20), at(0));
    engine.submit(ask(3, 1, 1), at(0));
    let step = engine.plan(at(0)).unwrap();
    assert_eq!(step.work, [(1, 31), (2, 31)], "no third: every block is taken");
    engine.commit(&step, at(1));
    let step = engine.plan(at(1)).unwrap();
    assert_eq!(step.work, [(1, 1), (2, 1)]);
    engine.commit(&step, at(2));
    let step = engine.plan(at(2)).unwrap();
    assert_eq!((step.work, step.preempted), (vec![(1, 1)], vec![2]));
    assert_eq!(engine.counts(), (1, 2, 0), "and nobody was admitted in that step");
}

#[test]
fn swapping_keeps_what_was_computed_until_the_pool_is_full() {
    let mut engine = Scheduler::new(limits(4, HostTier::SwapPool(2)));
    for id in [1, 2] {
        engine.submit(ask(id, 32, 20), at(0));
    }
    let step = engine.plan(at(0)).unwrap();
    engine.commit(&step, at(1));
    let step = engine.plan(at(1)).unwrap();
    assert_eq!((&step.work, step.out.len(), engine.host_blocks()), (&vec![(1, 1)], 2, (2, 2)));
    engine.commit(&step, at(2));
    let mut now = 2;
    while engine.counts().2 > 0 {
        let step = engine.plan(at(now)).unwrap();
        now += 1;
        if engine.counts().2 == 0 {
            assert_eq!((step.back.len(), step.work.last()), (2, Some(&(2, 1))), "one token is missing, nothing is recomputed");
        }
        engine.commit(&step, at(now));
    }
    let mut small = Scheduler::new(limits(4, HostTier::SwapPool(1)));
    for id in [1, 2] {
        small.submit(ask(id, 32, 20), at(0));
    }
    let step = small.plan(at(0)).unwrap();
    small.commit(&step, at(1));
    assert_eq!(small.plan(at(1)), Err(NoSwapSpace));
}

#[test]
fn the_offload_tier_shortens_recomputation() {
    let mut engine = Scheduler::new(limits(4, HostTier::Offload(8)));
    for id in [1, 2] {
        engine.submit(ask(id, 32, 20), at(0));
    }
    let step = engine.plan(at(0)).unwrap();
    assert_eq!(engine.commit(&step, at(1)).stores.len(), 4);
    let mut now = 1;
    let returned = loop {
        let step = engine.plan(at(now)).unwrap();
        now += 1;
        engine.commit(&step, at(now));
        if !step.back.is_empty() {
            break step;
        }
    };
    assert_eq!(returned.back.len(), 2);
    assert_eq!(returned.work.last(), Some(&(2, 1)), "33 tokens are known, 32 of them were read back");
}

#[derive(Debug, Clone)]
enum Act {
    Submit { prompt: u32, output: u32 },
    Step,
    Abort(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        3 => (1u32..120, 1u32..60).prop_map(|(prompt, output)| Act::Submit { prompt, output }),
        6 => Just(Act::Step),
        1 => any::<usize>().prop_map(Act::Abort),
    ];
    proptest::collection::vec(act, 1..80)
}

fn tiers() -> impl Strategy<Value = HostTier> {
    prop_oneof![Just(HostTier::None), Just(HostTier::SwapPool(400)), (1u32..20).prop_map(HostTier::Offload)]
}

// What must hold between any two calls.
fn check(engine: &Scheduler) {
    let held: Vec<u32> = engine.running.iter().flat_map(|s| s.blocks.iter().copied()).collect();
    let distinct: std::collections::BTreeSet<_> = held.iter().collect();
    assert_eq!(distinct.len(), held.len(), "a block has one holder");
    assert_eq!(engine.device.used(), held.len(), "no block is lost");
    let slots: usize = engine.swapped.iter().map(|s| s.swapped.len()).sum();
    assert_eq!(engine.pool.used(), slots, "no slot is lost");
    assert!(engine.waiting.iter().chain(&engine.swapped).all(|s| s.blocks.is_empty()));
    assert!(engine.running.len() <= engine.limits.sequences as usize);
    for sequence in &engine.running {
        assert!(sequence.blocks.len() >= engine.blocks_for(sequence.computed));
    }
}

proptest! {
    #[test]
    fn whatever_comes(acts in acts(), tier in tiers(), blocks in 12u32..40) {
        let mut engine = Scheduler::new(limits(blocks, tier));
        let (mut now, mut next) = (0, 0);
        let mut wanted = BTreeMap::new();
        let mut got: BTreeMap<u64, u32> = BTreeMap::new();
        let mut first_scheduled = Vec::new();
        let mut acts = acts.into_iter();
        loop {
            let act = acts.next().unwrap_or(Act::Step);
            let idle = engine.counts() == (0, 0, 0);
            match act {
                Act::Submit { prompt, output } => {
                    let ask = ask(next, prompt, output);
                    next += 1;
                    // At most 178 tokens, and at least 192 fit.
                    engine.submit(ask, at(now));
                    wanted.insert(ask.id, output);
                }
                Act::Abort(n) if !wanted.is_empty() => {
                    let id = *wanted.keys().nth(n % wanted.len()).unwrap();
                    engine.abort(id);
                    wanted.remove(&id);
                    got.remove(&id);
                }
                Act::Abort(_) => {}
                Act::Step => {
                    let step = engine.plan(at(now)).unwrap();
                    check(&engine);
                    prop_assert!(step.tokens() <= 64, "the budget holds");
                    prop_assert!(idle || !step.work.is_empty(), "there is progress while there is a request");
                    for (id, _) in &step.work {
                        if !first_scheduled.contains(id) {
                            first_scheduled.push(*id);
                        }
                    }
                    now += 1;
                    for token in engine.commit(&step, at(now)).tokens {
                        let count = got.entry(token.id).or_default();
                        *count += 1;
                        prop_assert_eq!(token.number, *count, "in order, none twice");
                        if token.last {
                            prop_assert_eq!(wanted.remove(&token.id), got.remove(&token.id));
                        }
                    }
                }
            }
            check(&engine);
            if acts.len() == 0 && engine.counts() == (0, 0, 0) {
                break;
            }
            prop_assert!(now < 100_000, "everything ends");
        }
        prop_assert!(wanted.is_empty());
        prop_assert!(first_scheduled.is_sorted(), "first come, first served");
        prop_assert_eq!(engine.device_blocks().0, 0);
    }
}
