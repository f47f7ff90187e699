//! When a key wants its peers to know at once.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

fn counted(table: &Table) -> Arc<AtomicU64> {
    let wakes = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&wakes);
    table.on_urgent(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    wakes
}

#[test]
fn a_key_is_urgent_once_its_unsent_permits_outweigh_what_remains() {
    let now = Timestamp::from_millis(1_000);
    for (burst, peers) in [(100, 5_u64), (100, 1), (10, 50), (1_000, 3), (1, 1)] {
        let (table, spec) = table_of(1 << 12, true, Quota::per_day(1_000).burst(burst));
        table.scopes().set_peers(peers as usize);
        let (key, mut unsent, mut remaining, mut drained) = (digest(&spec, 1), 0, burst, Vec::new());
        while remaining > 0 {
            assert!(table.decide(&spec.rule(), key, 1, now).allowed);
            unsent += 1;
            remaining -= 1;
            // unsent >= max(1, remaining / (2 * peers))
            let urgent = unsent * 2 * peers >= remaining;
            assert_eq!(table.is_urgent(), urgent, "{unsent} unsent, {remaining} remain, {peers} peers");
            if urgent {
                drained.clear();
                table.drain_urgent(Timestamp::ZERO, &mut drained);
                assert_eq!(drained.iter().map(|unsent| unsent.permits).collect::<Vec<_>>(), [unsent]);
                unsent = 0;
            }
        }
        assert_eq!(unsent, 0, "the last permit is always urgent");
    }
}

#[test]
fn without_peers_nothing_is_urgent_and_everything_is_dirty() {
    let (table, spec) = table_of(1 << 12, true, Quota::per_second(10));
    let wakes = counted(&table);
    for _ in 0..10 {
        assert!(table.decide(&spec.rule(), digest(&spec, 1), 1, Timestamp::from_millis(1_000)).allowed);
    }
    let mut drained = Vec::new();
    assert!(!table.is_urgent());
    table.drain_urgent(Timestamp::ZERO, &mut drained);
    assert!(drained.is_empty());
    table.drain_dirty(Timestamp::ZERO, &mut drained);
    assert_eq!(drained.len(), 1);
    assert_eq!((drained[0].permits, drained[0].digest), (10, digest(&spec, 1)));
    assert_eq!(wakes.load(Ordering::Relaxed), 0);
}

#[test]
fn one_rise_of_urgency_is_one_wake() {
    let (table, spec) = table_of(1 << 12, true, Quota::per_second(10));
    table.scopes().set_peers(2);
    let wakes = counted(&table);
    table.on_urgent(|| panic!("the first waker stays"));
    let now = Timestamp::from_millis(1_000);
    for key in 0..20 {
        assert!(table.decide(&spec.rule(), digest(&spec, key), 10, now).allowed);
    }
    assert_eq!(wakes.load(Ordering::Relaxed), 1);
    let mut drained = Vec::new();
    table.drain_urgent(Timestamp::ZERO, &mut drained);
    assert_eq!(drained.len(), 20);
    // A refusal, a peek and a cost of nothing are nothing to tell.
    assert!(!table.decide(&spec.rule(), digest(&spec, 0), 1, now).allowed);
    let _peeked = table.peek(&spec.rule(), digest(&spec, 50), 1, now);
    assert!(table.decide(&spec.rule(), digest(&spec, 51), 0, now).allowed);
    assert!(!table.is_urgent());
    assert_eq!(wakes.load(Ordering::Relaxed), 1);
    assert!(table.decide(&spec.rule(), digest(&spec, 50), 10, now).allowed);
    assert_eq!(wakes.load(Ordering::Relaxed), 2);
    drained.clear();
    table.drain_dirty(Timestamp::ZERO, &mut drained);
    table.drain_urgent(Timestamp::ZERO, &mut drained);
    assert_eq!(drained.len(), 1, "a flush has told everything");
    assert!(!table.is_urgent());
    assert!(table.decide(&spec.rule(), digest(&spec, 52), 10, now).allowed);
    assert_eq!(wakes.load(Ordering::Relaxed), 3);
}

#[test]
fn a_scope_that_comes_later_knows_the_peers() {
    let (table, _) = table_of(1 << 12, true, Quota::per_second(10));
    table.scopes().set_peers(2);
    let late = table.scopes().get_or_add(&DigestKey::PUBLIC, "late", Quota::per_second(10));
    assert!(table.decide(&late.rule(), digest(&late, 1), 10, Timestamp::from_millis(1_000)).allowed);
    assert!(table.is_urgent());
}

#[test]
fn without_a_gossip_task_nothing_is_kept_to_tell() {
    let (table, spec) = table_of(1 << 12, false, Quota::per_second(10));
    table.scopes().set_peers(2);
    let wakes = counted(&table);
    let now = Timestamp::from_millis(1_000);
    assert!(table.decide(&spec.rule(), digest(&spec, 1), 10, now).allowed);
    let mut drained = Vec::new();
    table.drain_urgent(Timestamp::ZERO, &mut drained);
    table.drain_dirty(Timestamp::ZERO, &mut drained);
    assert!(drained.is_empty());
    assert_eq!((table.is_urgent(), wakes.load(Ordering::Relaxed)), (false, 0));
    assert_eq!(table.missing(&spec.rule(), digest(&spec, 1), now).raw(), 10 << 16);
}

#[test]
fn a_level_leaves_out_what_travels_as_a_delta() {
    let (table, spec) = table_of(1 << 12, true, Quota::per_second(10));
    let (key, now) = (digest(&spec, 1), Timestamp::from_millis(1_000));
    table.charge(&spec.rule(), key, Charge::news(3, now), now);
    assert!(table.decide(&spec.rule(), key, 4, now).allowed);
    assert_eq!(table.missing(&spec.rule(), key, now).raw(), 3 << 16);
    table.drain_dirty(Timestamp::ZERO, &mut Vec::new());
    assert_eq!(table.missing(&spec.rule(), key, now).raw(), 7 << 16);
    assert_eq!(table.missing(&spec.rule(), digest(&spec, 2), now).raw(), 0);
}
