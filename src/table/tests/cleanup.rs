//! Buckets that go, and come back, between the look at them and the decision.

use std::{
    collections::HashMap,
    hint,
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
};

use super::*;

const DECIDERS: u64 = 4;
const KEYS: u64 = 32;
const BURST: u64 = 8;
const EPOCHS: u64 = 100;
/// Keys a turn that stay, so that the index grows under whoever has looked up a place in it.
const NEWCOMERS: u64 = 50;

fn quota() -> Quota {
    Quota::per_second(1_000).burst(BURST)
}

/// Turn after turn each key is full again when it begins, and four threads ask for four bursts of it, each with a pause
/// between its look at the bucket and its decision. In it they and others sweep all that is full, collect what was
/// admitted, and let the index grow. Whatever bucket goes or comes under the deciders' hands, each key gives one burst a
/// turn.
fn turns(publish: bool, seed: u64) {
    let (table, spec) = table_of(1 << 16, publish, quota());
    let slow = table.scopes().get_or_add(&DigestKey::PUBLIC, "slow", Quota::per_day(10));
    let digests: Vec<Digest> = (0..KEYS).map(|key| digest(&spec, key)).collect();
    let admitted: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let now = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    let turn = Barrier::new(DECIDERS as usize + 2);
    let time = || Timestamp::from_nanos(now.load(Ordering::SeqCst));
    let mut drained = Vec::new();
    let (sweeps, mut wrong) = (AtomicU64::new(0), Vec::new());
    thread::scope(|scope| {
        let mut deciders = Vec::new();
        for decider in 0..DECIDERS {
            let (table, spec, digests, admitted, turn, time) = (&table, &spec, &digests, &admitted, &turn, &time);
            deciders.push(scope.spawn(move || {
                let mut drained = Vec::new();
                let mut dice = Dice(seed.wrapping_mul(1_000).wrapping_add(decider));
                for _ in 0..EPOCHS {
                    turn.wait();
                    let first = dice.roll();
                    for call in 0..KEYS * BURST {
                        let key = ((first + call) % KEYS) as usize;
                        let place = table.place(digests[key]);
                        match dice.roll() % 128 {
                            0 => {
                                table.drain_dirty(time(), &mut drained);
                                sweep_all(table, Duration::ZERO, time());
                            }
                            1 => thread::yield_now(),
                            pause => (0..pause).for_each(|_| hint::spin_loop()),
                        }
                        let allowed = table.decide_at(&place, &spec.rule(), 1, time()).allowed;
                        admitted[key].fetch_add(allowed.into(), Ordering::Relaxed);
                    }
                    turn.wait();
                }
                drained
            }));
        }
        scope.spawn(|| {
            for epoch in 0..EPOCHS {
                turn.wait();
                for key in 0..NEWCOMERS {
                    let newcomer = digest(&slow, epoch * NEWCOMERS + key);
                    assert!(table.decide(&slow.rule(), newcomer, 1, time()).allowed);
                }
                turn.wait();
            }
        });
        let sweeper = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                sweep_all(&table, Duration::ZERO, time());
                sweeps.fetch_add(1, Ordering::Relaxed);
                thread::yield_now();
            }
        });
        let drainer = scope.spawn(|| {
            let mut drained = Vec::new();
            while !done.load(Ordering::Relaxed) {
                table.drain_dirty(time(), &mut drained);
                thread::yield_now();
            }
            drained
        });
        for epoch in 0..EPOCHS {
            now.store((1_000 + epoch * BURST) * 1_000_000, Ordering::SeqCst);
            turn.wait();
            turn.wait();
            let gave = admitted.iter().map(|permits| permits.swap(0, Ordering::Relaxed));
            wrong.extend(gave.enumerate().filter(|(_, gave)| *gave != BURST).map(|(key, gave)| (epoch, key, gave)));
        }
        done.store(true, Ordering::Relaxed);
        sweeper.join().expect("the sweeper panicked");
        drained = drainer.join().expect("the drainer panicked");
        for decider in deciders {
            drained.extend(decider.join().expect("a decider panicked"));
        }
    });
    assert!(wrong.is_empty(), "seed {seed}: in (turn, of key, admitted) {wrong:?} instead of {BURST}");

    let swept = table.stats().idle;
    assert!(swept >= EPOCHS, "only {swept} buckets went in {} sweeps", sweeps.into_inner());
    if publish {
        table.drain_dirty(Timestamp::ZERO, &mut drained);
        let mut told: HashMap<Digest, u64> = HashMap::new();
        for unsent in drained.iter().filter(|unsent| unsent.scope == spec.index()) {
            *told.entry(unsent.digest).or_default() += unsent.permits;
        }
        for digest in &digests {
            assert_eq!(told.get(digest), Some(&(EPOCHS * BURST)), "seed {seed}: told of {digest:?}");
        }
    }
}

#[test]
fn a_bucket_that_goes_between_look_and_decision_loses_no_admission_and_grants_none() {
    for seed in 0..2 {
        turns(false, seed);
    }
}

#[test]
fn a_bucket_that_goes_between_look_and_decision_loses_nothing_that_is_to_be_told() {
    for seed in 0..2 {
        turns(true, seed);
    }
}

#[test]
fn a_place_that_was_looked_up_before_its_bucket_went_is_as_good_as_one_looked_up_after() {
    let (table, spec) = table_of(1 << 14, false, quota());
    let key = digest(&spec, 1);
    let start = Timestamp::from_millis(1_000);
    let full_again = start.saturating_add(quota().refill_time());
    assert!(table.decide(&spec.rule(), key, BURST, start).allowed);
    let before = table.place(key);
    sweep_all(&table, Duration::ZERO, full_again);
    assert_eq!(table.stats().keys, 0, "the bucket is there still");
    // Gone, back through another place, and with an index that has grown meanwhile.
    assert!(table.decide(&spec.rule(), key, 5, full_again).allowed);
    for other in 2..5_000 {
        assert!(table.decide(&spec.rule(), digest(&spec, other), BURST, full_again).allowed);
    }
    let decision = table.decide_at(&before, &spec.rule(), 1, full_again);
    assert_eq!((decision.allowed, decision.remaining), (true, BURST - 6));
    let keys = table.stats().keys;
    assert!(!table.decide_at(&before, &spec.rule(), BURST, full_again).allowed);
    assert_eq!(table.stats().keys, keys, "one key has two buckets");
}

#[test]
fn work_that_waits_for_one_group_keeps_nobody_from_the_others() {
    const GROUPS: usize = 100;
    let now = Timestamp::from_millis(1_000);
    let later = now.saturating_add(Duration::from_secs(10));
    // What sweeps, what collects, what merges: each is stopped half-way, by somebody who has the lock of one group.
    type Work = fn(&Table, &ScopeSpec, Digest, Timestamp);
    let works: [(&str, Work); 4] = [
        ("sweep", |table, _, _, now| sweep_all(table, Duration::ZERO, now)),
        ("drain", |table, _, _, now| table.drain_dirty(now, &mut Vec::new())),
        ("merge", |table, spec, key, now| table.charge(&spec.rule(), key, Charge::news(1, now), now)),
        ("check", |table, spec, key, now| {
            let _decision = table.decide(&spec.rule(), key, 1, now);
        }),
    ];
    for (what, work) in works {
        let (table, spec) = table_of(1 << 14, true, Quota::per_second(10));
        let keys: Vec<Digest> = (0..1_000).map(|key| digest(&spec, key)).collect();
        for key in &keys {
            assert!(table.decide(&spec.rule(), *key, 1, now).allowed);
        }
        let held = table.index.lock_home(GROUPS / 2);
        let inside = held.slots().next().expect("some key is in it").digest();
        let outside: Vec<Digest> = keys.iter().copied().filter(|key| held.find(*key).is_none()).collect();
        assert!(outside.len() > 950, "{} keys are in other groups", outside.len());
        let (table, spec, outside) = (&table, &spec, &outside);
        thread::scope(|scope| {
            let (done, is_done) = mpsc::channel();
            scope.spawn(move || {
                work(table, spec, inside, later);
                done.send(()).expect("somebody waits");
            });
            let stopped = is_done.recv_timeout(Duration::from_millis(20));
            let (passed, has_passed) = mpsc::channel();
            scope.spawn(move || {
                for key in outside {
                    let _decision = table.decide(&spec.rule(), *key, 1, later);
                    table.charge(&spec.rule(), *key, Charge::news(1, later), later);
                    let _level = table.missing(&spec.rule(), *key, later);
                }
                passed.send(()).expect("somebody waits");
            });
            let all_passed = has_passed.recv_timeout(Duration::from_secs(10));
            // In any case, or the scope would never end.
            drop(held);
            assert_eq!(stopped, Err(mpsc::RecvTimeoutError::Timeout), "{what} went through a locked group");
            assert_eq!(all_passed, Ok(()), "{what} keeps others waiting");
            assert_eq!(is_done.recv_timeout(Duration::from_secs(10)), Ok(()), "{what} does not go on");
        });
    }
}
