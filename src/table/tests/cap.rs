//! The most that a table holds.

use super::*;

/// Slow enough that nothing comes back during a test.
fn slow() -> Quota {
    Quota::per_day(10)
}

#[test]
fn a_flood_of_keys_stays_under_the_cap() {
    let cap = 1 << 12;
    let (table, spec) = table_of(cap, false, slow());
    let now = Timestamp::from_millis(1_000);
    for key in 0..10 * cap as u64 {
        assert!(table.decide(&spec.rule(), digest(&spec, key), 1, now).allowed);
        assert!(table.stats().keys <= cap as u64);
    }
    let stats = table.stats();
    assert!(stats.keys > cap as u64 * 9 / 10, "{stats:?}");
    assert_eq!(stats.recycled + stats.untracked + stats.keys, 10 * cap as u64);
}

#[test]
fn a_cap_that_is_no_multiple_of_the_shards_is_kept() {
    let cap = 1_025;
    let (table, spec) = table_of(cap, false, slow());
    for key in 0..10 * cap as u64 {
        assert!(table.decide(&spec.rule(), digest(&spec, key), 1, Timestamp::from_millis(1_000)).allowed);
    }
    assert!(table.stats().keys <= cap as u64, "{:?} at a cap of {cap}", table.stats());
}

#[test]
fn charges_from_peers_stay_under_the_cap_too() {
    let cap = 1 << 12;
    let (table, spec) = table_of(cap, true, slow());
    for key in 0..4 * cap as u64 {
        let charge = Charge::news(1, Timestamp::from_millis(1_000));
        table.charge(&spec.rule(), digest(&spec, key), charge, Timestamp::from_millis(1_000));
        assert!(table.stats().keys <= cap as u64);
    }
}

#[test]
fn a_spent_bucket_survives_a_flood() {
    let cap = 1 << 12;
    let (table, spec) = table_of(cap, false, slow());
    let now = Timestamp::from_millis(1_000);
    let spent: Vec<Digest> = (0..100).map(|key| digest(&spec, u64::MAX - key)).collect();
    for key in &spent {
        assert!(table.decide(&spec.rule(), *key, 10, now).allowed);
    }
    for key in 0..10 * cap as u64 {
        let _admitted = table.decide(&spec.rule(), digest(&spec, key), 1, now);
    }
    for key in &spent {
        assert!(!table.decide(&spec.rule(), *key, 1, now).allowed, "{key:?} was refunded");
    }
}

#[test]
fn full_buckets_go_before_those_in_use() {
    let cap = 1 << 12;
    let (table, spec) = table_of(cap, false, Quota::per_second(1).burst(10));
    let (start, later) = (Timestamp::from_millis(1_000), Timestamp::from_millis(100_000));
    // Fill the table, let all of it become full again, then use one key.
    for key in 0..4 * cap as u64 {
        let _admitted = table.decide(&spec.rule(), digest(&spec, key), 1, start);
    }
    let in_use = digest(&spec, u64::MAX);
    assert!(table.decide(&spec.rule(), in_use, 5, later).allowed);
    // As many newcomers as a quarter of the table: there is plenty that is full.
    for key in 0..cap as u64 / 4 {
        let _admitted = table.decide(&spec.rule(), digest(&spec, (1 << 40) + key), 1, later);
    }
    assert_eq!(table.peek(&spec.rule(), in_use, 1, later).remaining, 5);
}

#[test]
fn where_everything_is_spent_newcomers_pass_untracked_and_are_counted() {
    let cap = 1 << 10;
    let (table, spec) = table_of(cap, true, Quota::per_second(1).burst(10));
    let start = Timestamp::from_millis(1_000);
    for key in 0..16 * cap as u64 {
        assert!(table.decide(&spec.rule(), digest(&spec, key), 10, start).allowed);
    }
    let full = table.stats();
    assert_eq!((full.keys, full.recycled, full.untracked), (cap as u64, 0, 15 * cap as u64));
    let newcomer = digest(&spec, u64::MAX);
    for _ in 0..3 {
        let decision = table.decide(&spec.rule(), newcomer, 10, start);
        assert!(decision.allowed, "an untracked key is let through");
    }
    assert_eq!(table.stats().untracked, full.untracked + 3);
    // A peek and an impossible cost keep no bucket, so they are not counted.
    let _peeked = table.peek(&spec.rule(), newcomer, 1, start);
    assert!(table.decide(&spec.rule(), newcomer, 11, start).is_impossible());
    assert_eq!(table.stats().untracked, full.untracked + 3);

    // Told and full again, they make room at once, without a sweep.
    table.drain_dirty(Timestamp::ZERO, &mut Vec::new());
    let later = Timestamp::from_millis(60_000);
    assert!(table.decide(&spec.rule(), newcomer, 10, later).allowed);
    assert!(!table.decide(&spec.rule(), newcomer, 1, later).allowed);
    assert_eq!(table.stats().recycled, 1);
    assert_eq!(table.stats().keys, cap as u64);
}

#[test]
fn permits_that_nobody_was_told_of_are_not_recycled() {
    let cap = 1 << 10;
    let (table, spec) = table_of(cap, true, slow());
    let now = Timestamp::from_millis(1_000);
    let mut admitted = 0;
    for key in 0..4 * cap as u64 {
        assert!(table.decide(&spec.rule(), digest(&spec, key), 1, now).allowed);
        admitted += 1;
    }
    let mut drained = Vec::new();
    table.drain_dirty(Timestamp::ZERO, &mut drained);
    let told: u64 = drained.iter().map(|unsent| unsent.permits).sum();
    assert_eq!(told + table.stats().untracked, admitted);
}

#[test]
fn memory_comes_back_after_a_flood() {
    let (table, spec) = table_of(1 << 14, false, Quota::per_second(10));
    for round in 0..3_u64 {
        let now = Timestamp::from_millis(1_000 + round * 100_000);
        for key in 0..1 << 13 {
            assert!(table.decide(&spec.rule(), digest(&spec, round << 20 | key), 10, now).allowed);
        }
        sweep_all(&table, Duration::from_secs(1), now.saturating_add(Duration::from_secs(10)));
        assert_eq!(table.stats().keys, 0);
    }
    // Shrinking moved buckets about; those that were in use are found.
    let now = Timestamp::from_millis(1_000_000);
    for key in 0..1 << 13 {
        assert!(table.decide(&spec.rule(), digest(&spec, key), if key % 100 == 0 { 10 } else { 1 }, now).allowed);
    }
    // After 500 ms those with one permit gone are full, those spent are not.
    let later = now.saturating_add(Duration::from_millis(500));
    sweep_all(&table, Duration::ZERO, later);
    for key in 0..1 << 13 {
        let remaining = table.peek(&spec.rule(), digest(&spec, key), 1, later).remaining;
        assert_eq!(remaining, if key % 100 == 0 { 5 } else { 10 }, "key {key}");
    }
}

#[test]
fn a_table_that_nobody_drives_any_more_still_recycles() {
    let cap = 1 << 12;
    let (table, spec) = table_of(cap, true, Quota::per_second(10));
    let now = Timestamp::from_millis(1_000);
    for key in 0..4 * cap as u64 {
        assert!(table.decide(&spec.rule(), digest(&spec, key), 1, now).allowed);
    }
    assert!(table.stats().untracked > 0, "what waits to be told is not recycled");
    table.detach();
    let (later, before) = (Timestamp::from_millis(2_000), table.stats().untracked);
    for key in 0..4 * cap as u64 {
        assert!(table.decide(&spec.rule(), digest(&spec, u64::MAX - key), 1, later).allowed);
    }
    assert_eq!(table.stats().untracked, before);
    assert!(table.stats().keys <= cap as u64);
}
