//! Growth by one group at a time, and groups that overflow.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use super::*;

/// Nothing becomes full again during a test.
fn slow() -> Quota {
    Quota::per_day(1_000)
}

const NOW: Timestamp = Timestamp::from_millis(1_000);

#[test]
fn every_bucket_is_found_as_it_was_left_while_the_table_grows() {
    let (table, spec) = table_of(1 << 17, true, slow());
    let level = |key: u64| 1 + key % 1_000;
    for key in 0..100_000 {
        assert!(table.decide(&spec.rule(), digest(&spec, key), level(key), NOW).allowed);
        // One that was left long ago, and may have moved several times since.
        let earlier = key / 7;
        assert_eq!(table.peek(&spec.rule(), digest(&spec, earlier), 1, NOW).remaining, 1_000 - level(earlier));
    }
    assert_eq!(table.stats(), TableStats { keys: 100_000, ..TableStats::default() });
    for key in 0..100_000 {
        assert_eq!(table.peek(&spec.rule(), digest(&spec, key), 1, NOW).remaining, 1_000 - level(key), "key {key}");
    }
    // What nobody was told of has moved with its bucket, and is listed where it is now.
    let mut drained = Vec::new();
    table.drain_dirty(NOW, &mut drained);
    let told: HashMap<Digest, u64> = drained.iter().map(|unsent| (unsent.digest, unsent.permits)).collect();
    assert_eq!((drained.len(), told.len()), (100_000, 100_000));
    assert!((0..100_000).all(|key| told[&digest(&spec, key)] == level(key)));
}

#[test]
fn what_is_urgent_stays_urgent_when_it_moves() {
    let (table, spec) = table_of(1 << 14, true, slow());
    table.scopes().set_peers(3);
    // A thousand spent keys, then ten thousand that are far from it and make the table grow.
    for key in 0..1_000 {
        assert!(table.decide(&spec.rule(), digest(&spec, key), 1_000, NOW).allowed);
    }
    for key in 1_000..11_000 {
        assert!(table.decide(&spec.rule(), digest(&spec, key), 1, NOW).allowed);
    }
    let mut drained = Vec::new();
    table.drain_urgent(NOW, &mut drained);
    let mut permits: Vec<u64> = drained.iter().map(|unsent| unsent.permits).collect();
    permits.dedup();
    assert_eq!((drained.len(), permits), (1_000, vec![1_000]));
}

#[test]
fn memory_of_overflow_groups_comes_back_to_their_pool() {
    let (table, spec) = table_of(1 << 14, false, Quota::per_second(10));
    for round in 1..20 {
        let now = Timestamp::from_millis(round * 100_000);
        for key in 0..1 << 14 {
            assert!(table.decide(&spec.rule(), digest(&spec, round << 32 | key), 10, now).allowed);
        }
        assert_eq!(table.stats().keys, 1 << 14);
        sweep_all(&table, Duration::from_secs(1), now.saturating_add(Duration::from_secs(10)));
        assert_eq!(table.stats().keys, 0);
    }
    assert_eq!(table.stats().untracked, 0);
}

/// Digests that share a home group whatever the size of the table: what somebody may find who knows the digest key.
fn aimed(number: u64) -> Digest {
    let mut bytes = [0; Digest::LEN];
    bytes[6..14].copy_from_slice(&number.to_le_bytes());
    Digest::from_bytes(bytes)
}

#[test]
fn keys_aimed_at_one_group_cost_no_more_than_that_group() {
    let (table, spec) = table_of(1 << 14, false, slow());
    // Others fill half of the table, some of them in the same group.
    for key in 0..1 << 13 {
        assert!(table.decide(&spec.rule(), digest(&spec, key), 1_000, NOW).allowed);
    }
    let before = table.stats().keys;
    for number in 0..10_000 {
        assert!(table.decide(&spec.rule(), aimed(number), 1, NOW).allowed);
    }
    // Eight groups behind the home group.
    assert!(table.stats().keys - before <= 36, "{:?}", table.stats());
    for key in 0..1 << 13 {
        assert!(!table.decide(&spec.rule(), digest(&spec, key), 1, NOW).allowed, "key {key} was refunded");
    }
    // Spent ones of the group stay too, and what does not fit passes untracked.
    for number in 0..100 {
        assert!(table.decide(&spec.rule(), aimed(1 << 40 | number), 1_000, NOW).allowed);
    }
    assert!(table.stats().untracked >= 64, "{:?}", table.stats());
}

#[test]
fn a_digest_of_nothing_but_zeros_is_a_key_like_any_other() {
    let (table, spec) = table_of(1 << 12, false, slow());
    let zero = Digest::from_bytes([0; Digest::LEN]);
    assert_eq!(table.peek(&spec.rule(), zero, 1, NOW).remaining, 1_000);
    assert!(table.decide(&spec.rule(), zero, 1_000, NOW).allowed);
    assert!(!table.decide(&spec.rule(), zero, 1, NOW).allowed);
    assert_eq!(table.stats().keys, 1);
}

/// One thread's keys beside a plain map of them, while other threads use the same groups, and the table grows, is swept
/// and drained. Time stands still: a bucket that is full by one thread's clock may not be by another's. Prints the seed that
/// repeats its choices.
fn differs_from_a_map(table: &Table, spec: &ScopeSpec, seed: u64) -> u64 {
    println!("seed {seed}");
    let mut dice = Dice(seed);
    let mut model: HashMap<u64, Tat> = HashMap::new();
    let gcra = spec.gcra();
    let mut admitted = 0;
    for step in 0..60_000_u64 {
        let now = NOW;
        // More and more keys.
        let key = (seed << 32) | (dice.roll() % (step / 4 + 1));
        let tat = model.get(&key).copied().unwrap_or_default();
        let cost = dice.roll() % 400;
        match dice.roll() % 8 {
            0 => {
                let charge = Charge::news(cost, now);
                table.charge(&spec.rule(), digest(spec, key), charge, now);
                model.insert(key, gcra.charge(tat, now, cost));
            }
            1 => {
                let remaining = table.peek(&spec.rule(), digest(spec, key), 1, now).remaining;
                assert_eq!(remaining, gcra.allowed(tat, now).remaining, "seed {seed}, step {step}");
            }
            _ => {
                let allowed = table.decide(&spec.rule(), digest(spec, key), cost, now).allowed;
                let after = gcra.admit(tat, now, cost);
                assert_eq!(allowed, after.is_some(), "seed {seed}, step {step}");
                if let (Some(after), 1..) = (after, cost) {
                    model.insert(key, after);
                    admitted += cost;
                }
            }
        }
    }
    admitted
}

#[test]
fn with_many_threads_each_key_is_as_in_a_plain_map() {
    let (table, spec) = table_of(1 << 17, true, Quota::per_second(1_000));
    table.scopes().set_peers(3);
    let done = AtomicBool::new(false);
    let (admitted, mut drained) = thread::scope(|scope| {
        let deciders: Vec<_> = (1..=6)
            .map(|seed| {
                let (table, spec) = (&table, &spec);
                scope.spawn(move || differs_from_a_map(table, spec, seed))
            })
            .collect();
        let collector = scope.spawn(|| {
            let mut drained = Vec::new();
            while !done.load(Ordering::Relaxed) {
                table.drain_urgent(NOW, &mut drained);
                table.drain_dirty_from(0, drained.len() + 100, NOW, &mut drained);
                thread::yield_now();
            }
            drained
        });
        let sweeper = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                sweep_all(&table, Duration::ZERO, NOW);
            }
        });
        let outcomes: Vec<_> = deciders.into_iter().map(|decider| decider.join()).collect();
        done.store(true, Ordering::Relaxed);
        let admitted: u64 = outcomes.into_iter().map(|outcome| outcome.expect("a decider failed")).sum();
        sweeper.join().expect("the sweeper failed");
        (admitted, collector.join().expect("the collector failed"))
    });
    table.drain_dirty(NOW, &mut drained);
    assert_eq!(drained.iter().map(|unsent| unsent.permits).sum::<u64>(), admitted, "news is lost or doubled");
}
