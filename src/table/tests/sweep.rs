//! What a sweep drops, and what it must not.

use super::*;

#[test]
fn only_what_is_idle_and_full_goes() {
    let (table, spec) = table_of(1 << 12, false, Quota::per_second(1).burst(10));
    let rule = spec.rule();
    let start = Timestamp::from_millis(100_000);
    assert!(table.decide(&rule, digest(&spec, 1), 1, start).allowed);
    assert!(table.decide(&rule, digest(&spec, 2), 10, start).allowed);
    // Key 1 is full again after 1 s, key 2 after 10 s.
    let idle = Duration::from_secs(5);
    for (second, keys) in [(0, 2), (5, 2), (6, 1), (14, 1), (15, 0)] {
        sweep_all(&table, idle, start.saturating_add(Duration::from_secs(second)));
        assert_eq!(table.stats().keys, keys, "after {second} s");
    }
    assert_eq!(table.stats().idle, 2);
}

#[test]
fn a_sweep_with_an_old_now_spares_what_was_touched_since() {
    let (table, spec) = table_of(1 << 12, false, Quota::per_second(1_000_000).burst(1));
    let captured = Timestamp::from_millis(100_000);
    for (key, later) in [(1, Duration::from_millis(1)), (2, Duration::from_nanos(1))] {
        let touched = captured.saturating_add(later);
        assert!(table.decide(&spec.rule(), digest(&spec, key), 1, touched).allowed);
        sweep_all(&table, Duration::ZERO, captured);
        assert_eq!(table.stats().keys, key, "the key touched {later:?} later is gone");
        assert!(!table.decide(&spec.rule(), digest(&spec, key), 1, touched).allowed);
    }
}

#[test]
fn a_sweep_refunds_nothing_whatever_its_times() {
    let (table, spec) = table_of(1 << 12, false, Quota::per_day(3));
    let start = Timestamp::from_millis(1_000);
    assert!(table.decide(&spec.rule(), digest(&spec, 1), 3, start).allowed);
    for hour in 0..8 {
        let now = start.saturating_add(Duration::from_secs(hour * 3_600 - hour.min(1)));
        sweep_all(&table, Duration::ZERO, now);
        assert!(!table.decide(&spec.rule(), digest(&spec, 1), 1, now).allowed, "after {hour} h");
    }
}

#[test]
fn what_nobody_was_told_of_stays() {
    let (table, spec) = table_of(1 << 12, true, Quota::per_second(10));
    assert!(table.decide(&spec.rule(), digest(&spec, 1), 1, Timestamp::from_millis(1_000)).allowed);
    let later = Timestamp::from_millis(100_000);
    sweep_all(&table, Duration::from_secs(1), later);
    assert_eq!(table.stats().keys, 1);
    let mut drained = Vec::new();
    table.drain_dirty(Timestamp::ZERO, &mut drained);
    assert_eq!(drained.len(), 1);
    sweep_all(&table, Duration::from_secs(1), later);
    assert_eq!(table.stats().keys, 0);
}

#[test]
fn a_bucket_that_went_while_it_was_listed_comes_back_whole() {
    let (table, spec) = table_of(1 << 12, true, Quota::per_second(10));
    table.scopes().set_peers(1);
    let key = digest(&spec, 1);
    let mut drained = Vec::new();
    // Urgent, so drained early; its place on the dirty list stays when the bucket goes.
    assert!(table.decide(&spec.rule(), key, 10, Timestamp::from_millis(1_000)).allowed);
    table.drain_urgent(Timestamp::ZERO, &mut drained);
    sweep_all(&table, Duration::ZERO, Timestamp::from_millis(10_000));
    assert_eq!(table.stats().keys, 0);
    assert!(table.decide(&spec.rule(), key, 4, Timestamp::from_millis(10_000)).allowed);
    table.drain_dirty(Timestamp::ZERO, &mut drained);
    table.drain_dirty(Timestamp::ZERO, &mut drained);
    let permits: Vec<u64> = drained.iter().map(|unsent| unsent.permits).collect();
    assert_eq!(permits, [10, 4]);
}

#[test]
fn one_call_of_a_sweep_is_bounded() {
    let (table, spec) = table_of(1 << 14, false, Quota::per_second(10));
    for key in 0..10_000 {
        assert!(table.decide(&spec.rule(), digest(&spec, key), 1, Timestamp::from_millis(1_000)).allowed);
    }
    let now = Timestamp::from_millis(100_000);
    let (mut at, mut calls) = (SweepPosition::default(), 0);
    loop {
        let before = table.stats().idle;
        at = table.sweep(at, 16, Duration::from_secs(1), now);
        calls += 1;
        // One group more to finish, with all that may overflow from it.
        assert!(table.stats().idle - before < 16 + 20);
        if at.is_start() {
            break;
        }
    }
    assert_eq!((table.stats().keys, table.stats().idle), (0, 10_000));
    assert!(calls >= 10_000 / 20, "{calls} calls");
}

#[test]
fn a_sweep_before_anything_can_be_idle_does_nothing() {
    let (table, spec) = table_of(1 << 12, false, Quota::per_second(10));
    assert!(table.decide(&spec.rule(), digest(&spec, 1), 1, Timestamp::ZERO).allowed);
    sweep_all(&table, Duration::MAX, Timestamp::MAX);
    sweep_all(&table, Duration::from_secs(10), Timestamp::from_millis(9_000));
    assert_eq!(table.stats().keys, 1);
}

#[test]
fn a_scope_that_refills_soon_loses_its_buckets_and_leaves_those_of_a_slow_one_with_the_same_keys() {
    let (table, soon) = table_of(1 << 12, false, Quota::per_second(10));
    let late = table.scopes().get_or_add(&DigestKey::PUBLIC, "late", Quota::per_day(3));
    let start = Timestamp::from_millis(100_000);
    for key in 0..100 {
        assert!(table.decide(&soon.rule(), digest(&soon, key), 1, start).allowed);
        assert!(table.decide(&late.rule(), digest(&late, key), 3, start).allowed);
    }
    let later = start.saturating_add(Duration::from_secs(3_600));
    sweep_all(&table, Duration::from_secs(1), later);
    assert_eq!(table.stats().keys, 100);
    for key in 0..100 {
        assert!(!table.decide(&late.rule(), digest(&late, key), 1, later).allowed, "key {key} was given back");
    }
}
