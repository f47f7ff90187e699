//! Many threads at once.

use std::{
    collections::HashMap,
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use super::*;
use crate::table::Unsent;

const THREADS: u64 = 8;

/// What the deciders admitted of each key, and what concurrent drains yielded of it.
struct Outcome {
    admitted: Vec<u64>,
    drained: HashMap<Digest, u64>,
    spec: Arc<ScopeSpec>,
    wakes: u64,
}

/// `THREADS` deciders over `keys` keys at one fixed time, `calls` calls each, while one thread drains both lists in
/// turn and another sweeps.
fn storm(quota: Quota, keys: u64, calls: u64, cost: u64) -> Outcome {
    let (table, spec) = table_of(1 << 14, true, quota);
    table.scopes().set_peers(4);
    let wakes = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&wakes);
    table.on_urgent(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let admitted: Vec<AtomicU64> = (0..keys).map(|_| AtomicU64::new(0)).collect();
    let digests: Vec<Digest> = (0..keys).map(|key| digest(&spec, key)).collect();
    let now = Timestamp::from_millis(1_000);
    let done = AtomicBool::new(false);
    let start = Barrier::new(THREADS as usize + 2);
    let mut drained: Vec<Unsent> = Vec::new();
    thread::scope(|scope| {
        let deciders: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (table, spec, admitted, digests, start) = (&table, &spec, &admitted, &digests, &start);
                scope.spawn(move || {
                    let mut dice = Dice(thread);
                    let rule = spec.rule();
                    start.wait();
                    for _ in 0..calls {
                        let key = (dice.roll() % keys) as usize;
                        if table.decide(&rule, digests[key], cost, now).allowed {
                            admitted[key].fetch_add(cost, Ordering::Relaxed);
                        }
                    }
                })
            })
            .collect();
        let drainer = scope.spawn(|| {
            let mut drained = Vec::new();
            start.wait();
            while !done.load(Ordering::Relaxed) {
                table.drain_urgent(Timestamp::ZERO, &mut drained);
                table.drain_urgent(Timestamp::ZERO, &mut drained);
                table.drain_dirty(Timestamp::ZERO, &mut drained);
                thread::yield_now();
            }
            drained
        });
        let sweeper = scope.spawn(|| {
            start.wait();
            while !done.load(Ordering::Relaxed) {
                sweep_all(&table, Duration::ZERO, now);
            }
        });
        for decider in deciders {
            decider.join().expect("a decider panicked");
        }
        done.store(true, Ordering::Relaxed);
        drained = drainer.join().expect("the drainer panicked");
        sweeper.join().expect("the sweeper panicked");
    });
    table.drain_dirty(Timestamp::ZERO, &mut drained);
    let mut left = Vec::new();
    table.drain_urgent(Timestamp::ZERO, &mut left);
    table.drain_dirty(Timestamp::ZERO, &mut left);
    assert!(left.is_empty(), "a drain left {left:?}");
    let mut sums = HashMap::new();
    for unsent in drained {
        assert_ne!(unsent.permits, 0);
        *sums.entry(unsent.digest).or_default() += unsent.permits;
    }
    let admitted = admitted.into_iter().map(AtomicU64::into_inner).collect();
    Outcome { admitted, drained: sums, spec, wakes: wakes.load(Ordering::Relaxed) }
}

fn nothing_is_lost_or_doubled(outcome: &Outcome) {
    for (key, admitted) in outcome.admitted.iter().enumerate() {
        let drained = outcome.drained.get(&digest(&outcome.spec, key as u64)).copied().unwrap_or_default();
        assert_eq!(drained, *admitted, "key {key}: what was drained is not what was admitted");
    }
    let strangers = outcome.drained.len() > outcome.admitted.len();
    assert!(!strangers, "keys were drained that nobody asked for");
}

#[test]
fn eight_threads_on_one_key_admit_exactly_its_burst() {
    let outcome = storm(Quota::per_second(5_000), 1, 5_000, 1);
    assert_eq!(outcome.admitted, [5_000]);
    nothing_is_lost_or_doubled(&outcome);
    assert!(outcome.wakes > 0);
}

#[test]
fn eight_threads_with_a_cost_never_split_a_permit() {
    // 7 does not divide the burst: the rest stays.
    let outcome = storm(Quota::per_second(1_000), 1, 2_000, 7);
    assert_eq!(outcome.admitted, [994]);
    nothing_is_lost_or_doubled(&outcome);
}

#[test]
fn eight_threads_on_a_thousand_keys_admit_no_more_than_the_burst_of_each() {
    let outcome = storm(Quota::per_second(10), 1_000, 5_000, 1);
    for (key, admitted) in outcome.admitted.iter().enumerate() {
        assert!(*admitted <= 10, "key {key} was admitted {admitted}");
    }
    // 40,000 calls over 10,000 permits: nearly every key is spent.
    assert!(outcome.admitted.iter().sum::<u64>() > 9_500);
    nothing_is_lost_or_doubled(&outcome);
}

#[test]
fn charges_from_peers_are_not_lost_among_decisions() {
    // At one fixed time the permits admitted and the permits charged share one burst; whatever the order, a charge
    // that comes last still shows.
    let (table, spec) = table_of(1 << 12, true, Quota::per_second(1_000));
    let digest = digest(&spec, 1);
    let now = Timestamp::from_millis(1_000);
    let admitted = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let allowed = table.decide(&spec.rule(), digest, 1, now).allowed;
                    admitted.fetch_add(allowed.into(), Ordering::Relaxed);
                }
            });
            scope.spawn(|| {
                for _ in 0..100 {
                    table.charge(&spec.rule(), digest, Charge::news(1, now), now);
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 400);
    assert_eq!(table.peek(&spec.rule(), digest, 1, now).remaining, 200);
    // What was charged is not this node's to tell.
    let mut drained = Vec::new();
    table.drain_dirty(Timestamp::ZERO, &mut drained);
    assert_eq!(drained.iter().map(|unsent| unsent.permits).sum::<u64>(), 400);
}
