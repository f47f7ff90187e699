//! A share of a quota.

use std::time::Duration;

use crate::bucket::{Gcra, Quota, Tat, Timestamp};

const QUOTA: Quota = Quota::per_second(100).burst(50);

/// Permits of `cost` each that pass between `from` and `until`, asked for every millisecond.
fn admitted(gcra: &Gcra, tat: &mut Tat, from: u64, until: u64, cost: u64) -> u64 {
    let mut admitted = 0;
    for now in (from..until).map(Timestamp::from_millis) {
        if let Some(after) = gcra.admit(*tat, now, cost) {
            *tat = after;
            admitted += cost;
        }
    }
    admitted
}

#[test]
fn a_share_is_a_share_of_rate_and_burst() {
    let gcra = Gcra::new(&QUOTA).with_share(2, 5);
    let mut tat = Tat::FULL;
    assert_eq!(gcra.allowed(tat, Timestamp::ZERO).remaining, 20);
    let first = admitted(&gcra, &mut tat, 0, 10_000, 1);
    assert!((419..=421).contains(&first), "{first}");
}

#[test]
fn shares_of_all_parts_add_up_to_the_quota() {
    for all in 1..20 {
        for seen in 1..all {
            let parts = [seen, all - seen].map(|seen| {
                let gcra = Gcra::new(&QUOTA).with_share(seen, all);
                let mut tat = Tat::FULL;
                admitted(&gcra, &mut tat, 0, 10_000, 1)
            });
            let sum: u64 = parts.iter().sum();
            assert!((1045..=1051).contains(&sum), "{seen} of {all}: {parts:?}");
        }
    }
}

#[test]
fn what_the_quota_allows_is_possible_at_any_share() {
    let gcra = Gcra::new(&QUOTA).with_share(1, 100);
    let spent = gcra.admit(Tat::FULL, Timestamp::ZERO, 50).expect("a full bucket");
    let refused = gcra.refused(spent, Timestamp::ZERO, 50);
    let wait = refused.retry_after.expect("possible");
    assert!(gcra.admit(spent, Timestamp::ZERO.saturating_add(wait), 50).is_some());
    assert!(gcra.admit(spent, Timestamp::ZERO.saturating_add(wait - Duration::from_nanos(1)), 50).is_none());
    assert!(gcra.refused(spent, Timestamp::ZERO, 51).is_impossible());
}

#[test]
fn a_share_that_changes_keeps_the_level() {
    let (whole, half) = (Gcra::new(&QUOTA), Gcra::new(&QUOTA).with_share(1, 2));
    let now = Timestamp::from_millis(1_000);
    let tat = whole.admit(Tat::FULL, now, 30).expect("a full bucket");
    assert_eq!(whole.missing(tat, now), half.missing(tat, now));
    assert_eq!((whole.allowed(tat, now).remaining, half.allowed(tat, now).remaining), (20, 10));
    assert_eq!(half.with_share(2, 2), whole);
}
