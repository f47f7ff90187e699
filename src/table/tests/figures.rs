//! What a table says of itself.

use super::*;

const QUOTA: Quota = Quota::per_second(10);

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

#[test]
fn unsent_permits_are_those_that_nobody_collected() {
    let (table, spec) = table_of(1 << 16, true, QUOTA);
    for key in 0..1_000 {
        assert!(table.decide(&spec.rule(), digest(&spec, key), 1 + key % 3, at(1)).allowed);
    }
    let admitted = (0..1_000).map(|key| 1 + key % 3).sum::<u64>();
    assert_eq!(table.unsent(), admitted);
    // To look changes nothing.
    assert_eq!(table.unsent(), admitted);
    let mut taken = Vec::new();
    table.drain_dirty(at(2), &mut taken);
    assert_eq!((table.unsent(), taken.len()), (0, 1_000));
    assert!(table.decide(&spec.rule(), digest(&spec, 7), 2, at(2)).allowed);
    assert_eq!(table.unsent(), 2);
}

#[test]
fn excess_is_what_news_take_a_bucket_below_empty() {
    let (table, spec) = table_of(1 << 10, true, QUOTA);
    let news = |key, permits| {
        table.charge(&spec.rule(), digest(&spec, key), Charge::news(permits, at(1)), at(1));
        table.stats().excess
    };
    assert!(table.decide(&spec.rule(), digest(&spec, 1), 6, at(1)).allowed);
    assert_eq!(news(1, 4), 0, "empty, and no more");
    assert_eq!(news(1, 3), 3);
    assert_eq!(news(1, 2), 5);
    // A bucket that was not there.
    assert_eq!(news(2, 12), 7);
    // What is charged here on purpose is none.
    let _state = table.spend(&spec.rule(), digest(&spec, 3), 15, at(1));
    assert_eq!(table.stats().excess, 7);
}

#[test]
fn a_level_of_a_peer_below_empty_counts_once() {
    let (table, spec) = table_of(1 << 10, true, QUOTA);
    let missing = spec.gcra().missing(spec.gcra().charge(Tat::FULL, at(1), 13), at(1));
    for _ in 0..3 {
        let charge = Charge { permits: 0, missing, as_of: at(1) };
        table.charge(&spec.rule(), digest(&spec, 1), charge, at(1));
        assert_eq!(table.stats().excess, 3);
    }
}
