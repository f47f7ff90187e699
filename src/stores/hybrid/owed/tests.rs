//! Shares add up to what the cluster admitted, and memory is bounded.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// A bucket of 100 permits, 10 a second, as a list of admissions would fill it.
#[derive(Default)]
struct Bucket {
    missing: f64,
    at: u64,
}

impl Bucket {
    const RATE: f64 = 10.0;

    fn pass(&mut self, now: u64) -> Level {
        self.missing = (self.missing - Self::RATE * (now - self.at) as f64 / 1_000.0).max(0.0);
        self.at = now;
        Level::new(self.missing, Self::RATE)
    }

    fn admit(&mut self, permits: u64, now: u64) -> Level {
        self.pass(now);
        self.missing += permits as f64;
        Level::new(self.missing, Self::RATE)
    }
}

fn share(owed: &Owed, key: &[u8]) -> Share {
    owed.next(owed.shard_of(key)).expect("a share").share
}

#[test]
fn a_share_of_a_key_that_nobody_else_uses_is_what_its_bucket_misses() {
    let (owed, mut bucket) = (Owed::new(16), Bucket::default());
    for (permits, now) in [(20, 0), (5, 500), (30, 1_000), (1, 4_000)] {
        assert!(owed.add(b"k", permits, bucket.admit(permits, now), at(now)));
    }
    let level = bucket.pass(5_000);
    // 56 admitted, 50 refilled.
    assert_eq!(share(&owed, b"k").now(level, at(5_000)).permits(), 6);
    let level = bucket.pass(6_000);
    assert_eq!(share(&owed, b"k").now(level, at(6_000)).permits(), 0);
}

#[test]
fn what_was_missing_before_is_refilled_first_as_it_is_at_the_primary() {
    let owed = Owed::new(16);
    // 60 were admitted by the primary, then 10 by the fallback.
    assert!(owed.add(b"k", 10, Level::new(70.0, 10.0), at(0)));
    assert_eq!(share(&owed, b"k").now(Level::new(30.0, 10.0), at(4_000)).permits(), 10);
    assert_eq!(share(&owed, b"k").now(Level::new(5.0, 10.0), at(6_500)).permits(), 5);
}

#[test]
fn the_shares_of_replicas_in_overload_sum_up_to_the_level_of_their_bucket() {
    let (replicas, mut bucket) = ([Owed::new(16), Owed::new(16), Owed::new(16)], Bucket::default());
    bucket.missing = 100.0;
    // A spent bucket: each permit that comes back is admitted by one in turn.
    let mut now = 0;
    for turn in 0..300 {
        now = (turn + 1) * 100;
        let level = bucket.admit(1, now);
        assert!(replicas[turn as usize % 3].add(b"k", 1, level, at(now)));
    }
    let level = bucket.pass(now);
    let sum: f64 = replicas.iter().map(|owed| share(owed, b"k").now(level, at(now)).permits() as f64).sum();
    assert!((sum - bucket.missing).abs() <= 3.0, "{sum} of {}", bucket.missing);
}

#[test]
fn there_is_a_cap_on_keys_and_on_their_bytes() {
    let (few, level) = (Owed::new(160), Level::new(1.0, 0.001));
    let taken = (0..10_000_u32).filter(|key| few.add(&key.to_le_bytes(), 1, level, at(0))).count();
    assert_eq!((taken, few.len()), (160, 160));
    let long = Owed::new(160);
    let taken = (0..10_000_u32).filter(|key| long.add(&key.to_le_bytes().repeat(64), 1, level, at(0))).count();
    // 64 bytes a key, and these have 256.
    assert!(taken <= 40, "{taken}");
    // One that is there is counted on.
    assert!(few.add(&share_key(&few), 1, level, at(1)));
}

fn share_key(owed: &Owed) -> Box<[u8]> {
    (0..SHARDS).find_map(|shard| owed.next(shard)).expect("a key").key
}

#[test]
fn at_the_cap_refilled_keys_make_room() {
    let (owed, level) = (Owed::new(16), Level::new(1.0, 1.0));
    let first = (0..1_000_u32).filter(|key| owed.add(&key.to_le_bytes(), 1, level, at(0))).count();
    assert_eq!(first, 16);
    let later = (1_000..2_000_u32).filter(|key| owed.add(&key.to_le_bytes(), 1, level, at(1_500))).count();
    assert_eq!((later, owed.len()), (16, 16));
}

#[test]
fn a_key_stays_until_it_is_paid() {
    let owed = Owed::new(16);
    assert!(owed.add(b"k", 10, Level::new(10.0, 0.001), at(0)));
    assert_eq!(owed.pay(b"k", Level::new(10.0, 0.001), at(0), 100), 10);
    assert!(owed.contains(b"k"));
    assert!(!owed.unpaid(b"k"));
    assert_eq!(owed.pay(b"k", Level::new(10.0, 0.001), at(0), 4), 4);
    owed.paid(b"k");
    assert_eq!(share(&owed, b"k").permits(), 6);
    // Admitted while the next charge is under way.
    assert_eq!(owed.pay(b"k", Level::new(6.0, 0.001), at(0), 100), 6);
    assert!(owed.add(b"k", 1, Level::new(7.0, 0.001), at(0)));
    owed.paid(b"k");
    assert_eq!(owed.pay(b"k", Level::new(1.0, 0.001), at(0), 100), 1);
    assert!(owed.add(b"k", 1, Level::new(2.0, 0.001), at(0)));
    owed.paid(b"k");
    assert_eq!((owed.contains(b"k"), owed.len()), (false, 0), "after three rounds it goes");
}

#[test]
fn a_key_that_cannot_be_charged_is_given_up() {
    let owed = Owed::new(16);
    assert!(owed.add(b"k", 10, Level::new(10.0, 0.001), at(0)));
    for attempt in 1..=5 {
        assert_eq!(owed.pay(b"k", Level::new(10.0, 0.001), at(0), 100), 10);
        assert_eq!(owed.unpaid(b"k"), attempt == 5);
    }
    assert_eq!(owed.len(), 0);
}

#[test]
fn refunds_of_the_fallback_are_not_charged() {
    let owed = Owed::new(16);
    assert!(owed.add(b"k", 10, Level::new(10.0, 0.001), at(0)));
    owed.give_back(b"k", 4);
    owed.give_back(b"other", 4);
    assert_eq!(share(&owed, b"k").permits(), 6);
    owed.give_back(b"k", 40);
    assert_eq!(owed.pay(b"k", Level::new(0.0, 0.001), at(0), 100), 0);
    assert_eq!(owed.len(), 0);
}

proptest! {
    /// Whatever two replicas admit of one bucket and when: neither is charged more than it admitted, and both together not more
    /// than what is missing.
    #[test]
    fn nobody_is_charged_more_than_what_is_missing(
        events in prop::collection::vec((any::<bool>(), 1..20_u64, 0..3_000_u64), 1..100),
        before in 0..100_u64,
    ) {
        let (one, other) = (Owed::new(16), Owed::new(16));
        let mut bucket = Bucket { missing: before as f64, at: 0 };
        let (mut now, mut admitted) = (0, [0, 0]);
        for (first, permits, pause) in events {
            now += pause;
            let level = bucket.admit(permits, now);
            let owed = if first { &one } else { &other };
            prop_assert!(owed.add(b"k", permits, level, at(now)));
            admitted[usize::from(!first)] += permits;
        }
        let level = bucket.pass(now);
        let mut sum = 0;
        for (owed, admitted) in [&one, &other].into_iter().zip(admitted) {
            let Some(due) = owed.next(owed.shard_of(b"k")) else { continue };
            let permits = due.share.now(level, at(now)).permits();
            prop_assert!(permits <= admitted);
            prop_assert!(permits as f64 <= bucket.missing + 1.0);
            sum += permits;
        }
        // Halves are rounded up, twice.
        prop_assert!(sum as f64 <= 1.5 * bucket.missing + 2.0, "{} of {}", sum, bucket.missing);
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_does_no_harm(steps in prop::collection::vec((0..50_u64, 0..100_u64), 1..50)) {
        let owed = Owed::new(16);
        for (permits, now) in steps {
            owed.add(b"k", permits, Level::new(1_000.0, 1.0), at(now));
            let permits = share(&owed, b"k").now(Level::new(0.0, 1.0), at(now)).permits();
            prop_assert_eq!(permits, 0);
        }
        prop_assert!(share(&owed, b"k").now(Level::new(1e9, 1.0), Timestamp::MAX.saturating_sub(Duration::ZERO)).permits() < 5_000);
    }
}
