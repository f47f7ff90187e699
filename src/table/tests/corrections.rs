//! Charges and refunds.

use super::*;

const QUOTA: Quota = Quota::per_minute(60).burst(100);

fn at(secs: u64) -> Timestamp {
    Timestamp::from_nanos(secs * 1_000_000_000)
}

fn remaining(table: &Table, spec: &ScopeSpec, key: u64, now: Timestamp) -> u64 {
    table.peek(&spec.rule(), digest(spec, key), 1, now).remaining
}

/// What peers are told: permits, and refunds, over all keys.
fn told(table: &Table, now: Timestamp) -> (u64, u64) {
    let mut unsent = Vec::new();
    table.drain_dirty(now, &mut unsent);
    (unsent.iter().map(|unsent| unsent.permits).sum(), table.drain_refunds().iter().map(|refund| refund.permits).sum())
}

#[test]
fn a_charge_takes_what_is_not_there_down_to_the_debt_floor() {
    let (table, spec) = table_of(1000, true, QUOTA);
    let (rule, key) = (spec.rule(), digest(&spec, 1));
    let state = table.spend(&rule, key, 30, at(1));
    assert_eq!((state.allowed, state.remaining), (true, 70));
    let state = table.spend(&rule, key, 100, at(1));
    assert_eq!((state.allowed, state.remaining, state.retry_after), (false, 0, Some(Duration::from_secs(30))));
    let state = table.spend(&rule, key, u64::MAX, at(1));
    assert_eq!(state.retry_after, Some(Duration::from_secs(100)), "one more burst");
    assert_eq!(remaining(&table, &spec, 1, at(102)), 1);
    assert!(table.decide(&rule, key, 1, at(102)).allowed);
}

#[test]
fn a_charge_is_told_to_peers() {
    let (table, spec) = table_of(1000, true, QUOTA);
    let _state = table.spend(&spec.rule(), digest(&spec, 1), 30, at(1));
    let _state = table.spend(&spec.rule(), digest(&spec, 2), 0, at(1));
    assert_eq!(told(&table, at(1)), (30, 0));
    assert_eq!(table.stats().keys, 1, "a charge of nothing takes no room");
}

#[test]
fn a_refund_gives_back_what_is_missing_and_no_more() {
    let (table, spec) = table_of(1000, false, QUOTA);
    let (rule, key) = (spec.rule(), digest(&spec, 1));
    let _state = table.spend(&rule, key, 130, at(1));
    assert_eq!(table.refund(&rule, key, 40, at(1)).remaining, 10);
    assert!(table.decide(&rule, key, 10, at(1)).allowed);
    assert_eq!(table.refund(&rule, key, 150, at(1)).remaining, 100);
    // Nothing is left over for later.
    assert!(table.decide(&rule, key, 100, at(2)).allowed);
    assert!(!table.decide(&rule, key, 1, at(2)).allowed);
    assert_eq!(table.refund(&rule, key, 1, at(2)).remaining, 1);
}

#[test]
fn an_unknown_key_has_nothing_to_be_given_back() {
    let (table, spec) = table_of(1000, true, QUOTA);
    assert_eq!(table.refund(&spec.rule(), digest(&spec, 1), 50, at(1)).remaining, 100);
    assert_eq!((table.stats().keys, told(&table, at(1))), (0, (0, 0)));
    assert!(!table.decide(&spec.rule(), digest(&spec, 1), 101, at(1)).allowed);
}

#[test]
fn what_nobody_was_told_of_is_given_back_without_a_word() {
    let (table, spec) = table_of(1000, true, QUOTA);
    let (rule, key) = (spec.rule(), digest(&spec, 1));
    assert!(table.decide(&rule, key, 10, at(1)).allowed);
    assert_eq!(told(&table, at(1)), (10, 0));
    assert!(table.decide(&rule, key, 5, at(1)).allowed);
    let _state = table.refund(&rule, key, 8, at(1));
    assert!(table.has_untold_refund(key));
    assert_eq!(told(&table, at(1)), (0, 3));
    assert!(!table.has_untold_refund(key));
}

#[test]
fn a_refund_of_half_a_permit_that_came_back_is_told_as_one() {
    let (table, spec) = table_of(1000, true, QUOTA);
    let (rule, key) = (spec.rule(), digest(&spec, 1));
    assert!(table.decide(&rule, key, 1, at(1)).allowed);
    assert_eq!(told(&table, at(1)), (1, 0));
    let half = Timestamp::from_nanos(1_500_000_000);
    assert_eq!(table.refund(&rule, key, 7, half).remaining, 100);
    assert_eq!(told(&table, half), (0, 1));
}

#[test]
fn refunds_that_nobody_collects_are_bounded() {
    let (table, spec) = table_of(1 << 18, true, QUOTA);
    let rule = spec.rule();
    for key in 0..70_000 {
        assert!(table.decide(&rule, digest(&spec, key), 1, at(1)).allowed);
    }
    assert_eq!(told(&table, at(1)).0, 70_000);
    for key in 0..70_000 {
        let _state = table.refund(&rule, digest(&spec, key), 1, at(1));
    }
    assert_eq!(table.drain_refunds().len(), 1 << 16);
}
