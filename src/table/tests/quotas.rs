//! Quotas that change in use.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use super::*;

const SLOW: Quota = Quota::per_minute(60).burst(100);
const FAST: Quota = Quota::per_minute(120).burst(200);

/// Permits missing of a key, as its bucket is measured now.
fn missing(table: &Table, spec: &ScopeSpec, key: u64, now: Timestamp) -> u64 {
    table.missing(&spec.rule(), digest(spec, key), now).raw() >> 16
}

fn spend(table: &Table, spec: &ScopeSpec, key: u64, cost: u64, now: Timestamp) -> bool {
    table.decide(&spec.rule(), digest(spec, key), cost, now).allowed
}

fn at(secs: u64) -> Timestamp {
    Timestamp::from_nanos(secs * 1_000_000_000)
}

#[test]
fn what_was_used_stays_used_when_a_quota_is_raised_and_when_it_is_lowered() {
    let (table, spec) = table_of(1000, false, SLOW);
    for key in 0..500 {
        assert!(spend(&table, &spec, key, 60, at(1)));
    }
    table.set_quota(&spec, FAST, at(1));
    for key in 0..500 {
        assert_eq!(missing(&table, &spec, key, at(1)), 60);
        assert_eq!(table.peek(&spec.rule(), digest(&spec, key), 1, at(1)).remaining, 140);
    }
    // From now on it comes back twice as fast.
    assert_eq!(missing(&table, &spec, 7, at(11)), 40);
    table.set_quota(&spec, SLOW, at(11));
    assert_eq!(missing(&table, &spec, 7, at(11)), 40);
    assert_eq!(missing(&table, &spec, 7, at(21)), 30);
}

#[test]
fn below_what_was_used_a_quota_refuses_until_the_debt_is_paid_and_says_how_long_that_takes() {
    let (table, spec) = table_of(1000, false, SLOW);
    assert!(spend(&table, &spec, 1, 30, at(1)) && spend(&table, &spec, 2, 90, at(1)));
    table.set_quota(&spec, Quota::per_minute(60).burst(20), at(1));
    let refused = table.decide(&spec.rule(), digest(&spec, 1), 1, at(1));
    assert!(!refused.allowed);
    assert_eq!((refused.limit, refused.remaining), (20, 0));
    assert_eq!(refused.retry_after, Some(Duration::from_secs(11)));
    assert!(!spend(&table, &spec, 1, 1, at(11)));
    assert!(spend(&table, &spec, 1, 1, at(12)));
    // No debt is beyond one more burst.
    assert_eq!(missing(&table, &spec, 2, at(1)), 40);
}

#[test]
fn a_quota_that_refuses_everything_keeps_what_was_used_and_forgets_it_at_its_rate() {
    let (table, spec) = table_of(1000, false, SLOW);
    assert!(spend(&table, &spec, 1, 60, at(1)));
    table.set_quota(&spec, SLOW.refuse_all(), at(1));
    for key in [1, 2] {
        let refused = table.decide(&spec.rule(), digest(&spec, key), 1, at(1));
        assert!(refused.is_impossible());
        assert_eq!((refused.limit, refused.remaining), (0, 0));
    }
    assert_eq!(table.stats().keys, 1, "a refused key takes no room");
    table.set_quota(&spec, SLOW, at(11));
    assert_eq!(missing(&table, &spec, 1, at(11)), 50);
    assert!(spend(&table, &spec, 1, 50, at(11)));
    assert!(!spend(&table, &spec, 1, 1, at(11)));
}

#[test]
fn a_bucket_that_a_change_did_not_meet_is_measured_anew_when_somebody_does() {
    let (table, spec) = table_of(1000, false, SLOW);
    // A decision that read its rule, and was interrupted until after the change.
    let late = spec.rule();
    assert!(spend(&table, &spec, 1, 60, at(1)));
    table.set_quota(&spec, FAST, at(1));
    assert!(table.decide(&late, digest(&spec, 2), 60, at(1)).allowed);
    assert!(table.decide(&late, digest(&spec, 1), 60, at(1)).allowed);
    assert_eq!((missing(&table, &spec, 1, at(1)), missing(&table, &spec, 2, at(1))), (120, 60));

    assert!(table.decide(&late, digest(&spec, 3), 60, at(1)).allowed);
    table.set_quota(&spec, SLOW, at(1));
    table.set_quota(&spec, FAST, at(1));
    assert_eq!(missing(&table, &spec, 3, at(1)), 60);
}

#[test]
fn news_of_peers_and_charges_find_the_present_quota() {
    let (table, spec) = table_of(1000, true, SLOW);
    let late = spec.rule();
    assert!(spend(&table, &spec, 1, 10, at(1)));
    table.set_quota(&spec, FAST, at(1));
    table.charge(&late, digest(&spec, 1), Charge::news(10, at(1)), at(1));
    let _state = table.spend(&late, digest(&spec, 1), 10, at(1));
    table.refunded(&late, digest(&spec, 1), 5, at(1));
    // Besides 20 of which nobody was told.
    assert_eq!(missing(&table, &spec, 1, at(1)), 5);
    assert_eq!(table.peek(&late, digest(&spec, 1), 1, at(1)).remaining, 200 - 25);
}

#[test]
fn many_threads_lose_no_permit_while_a_quota_changes_and_the_table_grows() {
    const KEYS: u64 = 5_000;
    const EACH: u64 = 60;
    let (table, spec) = table_of(1 << 14, false, SLOW);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|worker: u64| {
                let (table, spec) = (&table, &spec);
                scope.spawn(move || {
                    for step in 0..KEYS * EACH / 3 {
                        // All keys alike over all workers, in an order of each.
                        let key = (step * 3 + worker) * [1, 3, 7][worker as usize] % KEYS;
                        assert!(spend(table, spec, key, 1, at(1)));
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut changes = 0;
            while changes < 10 || !done.load(Relaxed) {
                table.set_quota(&spec, [FAST, SLOW][changes % 2], at(1));
                changes += 1;
            }
        });
        let passed = workers.into_iter().all(|worker| worker.join().is_ok());
        done.store(true, Relaxed);
        assert!(passed);
    });
    let total: u64 = (0..KEYS).map(|key| missing(&table, &spec, key, at(1))).sum();
    assert_eq!(total, KEYS * EACH / 3 * 3);
}
