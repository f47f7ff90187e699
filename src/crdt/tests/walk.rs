//! Walks over what a peer lacks.

use super::*;

/// A log with cells of three runs over shared and own keys.
fn mixed(seed: &[(u64, u64)]) -> ReplicaLog {
    let mut log = log(1);
    let mut versions = BTreeMap::from([(2, 0), (3, 0)]);
    let mut counts: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for (of, number) in seed {
        let (of, number) = (of % 3 + 1, *number);
        if of == 1 {
            log.publish(SCOPE, key(number), 1, at(1));
            continue;
        }
        let at_version = versions.entry(of).or_default();
        let count = counts.entry((of, number)).or_default();
        let told = delta(number, *count, *count + 1, *at_version + 1);
        let _news = log.apply_delta(run(of), &told, at(1));
        log.cover(run(of), version(*at_version), version(*at_version + 1), at(1));
        *at_version += 1;
        *count += 1;
    }
    log
}

/// Everything from a walk, at most `piece` records a step.
fn collect(walk: &mut Walk, log: &ReplicaLog, piece: usize) -> Vec<KeyRecord> {
    let mut all = Vec::new();
    for _ in 0..10_000 {
        let mut left = piece;
        let more = walk.step(
            log,
            at(5),
            |_, _| None,
            |record| {
                if left == 0 {
                    return false;
                }
                left -= 1;
                all.push(record);
                true
            },
        );
        if !more {
            return all;
        }
    }
    panic!("the walk never ends");
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn a_walk_brings_each_key_once_in_whatever_pieces(
        seed in prop::collection::vec((0..3_u64, 0..80_u64), 0..300),
        held in (0..40_u64, 0..40_u64, 0..40_u64),
        piece in 1..50_usize,
    ) {
        let log = mixed(&seed);
        check(&log, (0..80).map(key));
        let theirs: BTreeMap<RunId, Version> =
            [(1, held.0), (2, held.1), (3, held.2)].into_iter().map(|(id, raw)| (run(id), version(raw))).collect();
        let mut whole = collect(&mut walk_over(&log, theirs.clone()), &log, usize::MAX);
        let mut pieces = collect(&mut walk_over(&log, theirs.clone()), &log, piece);
        // In which order the runs take turns depends on where a step ended.
        whole.sort_by_key(|record| record.digest);
        pieces.sort_by_key(|record| record.digest);
        prop_assert_eq!(&whole, &pieces);
        // Exactly the keys with a cell that the peer lacks, and of each exactly the cells that it lacks.
        let mut expected = BTreeMap::new();
        for number in 0..80 {
            let lacking: BTreeSet<(RunId, Version)> =
                log.cells_of(key(number)).map(|cell| (cell.run, cell.version)).filter(|(id, at)| *at > theirs[id]).collect();
            if !lacking.is_empty() {
                expected.insert(key(number), lacking);
            }
        }
        let mut brought = BTreeMap::new();
        for record in &whole {
            let cells = record.cells.iter().map(|cell| (cell.run, cell.version)).collect();
            prop_assert_eq!(brought.insert(record.digest, cells), None, "a key came twice");
        }
        prop_assert_eq!(brought, expected);
    }

    #[test]
    fn a_walk_over_a_log_that_goes_on_loses_nothing(
        seed in prop::collection::vec((0..3_u64, 0..40_u64), 1..150),
        again in prop::collection::vec(0..40_u64, 0..60),
        piece in 1..10_usize,
    ) {
        let mut ours = mixed(&seed);
        let mut theirs = log(9);
        let mut walk = walk_over(&ours, theirs.versions().collect());
        let covers: Vec<_> = walk.covers().collect();
        let mut again = again.into_iter();
        let mut late = Vec::new();
        let first = ours.own_version();
        loop {
            let mut left = piece;
            let more = walk.step(&ours, at(5), |_, _| None, |record| {
                if left == 0 {
                    return false;
                }
                left -= 1;
                for cell in &record.cells {
                    assert_ne!(theirs.apply_record(&record, cell, at(5)), Applied::Refused);
                }
                true
            });
            if !more {
                break;
            }
            // Between two steps one key is published again. Its datagram is late.
            if let Some(number) = again.next() {
                late.push(ours.publish(SCOPE, key(number), 1, at(5)));
            }
        }
        for (id, low, high) in covers {
            theirs.cover(id, low, high, at(5));
        }
        for number in 0..40 {
            for cell in ours.cells_of(key(number)) {
                let there = theirs.cells_of(key(number)).find(|there| there.run == cell.run);
                let arrived = there.is_some_and(|there| there.version == cell.version && there.count == cell.count);
                let will_come = cell.run == run(1) && cell.version > first;
                prop_assert!(arrived || will_come, "{cell:?} of key {number} is lost: {there:?}");
            }
        }
        for delta in &late {
            assert_ne!(theirs.apply_delta(run(1), delta, at(6)), Applied::Refused);
        }
        if let (Some(_), Some(last)) = (late.first(), late.last()) {
            theirs.cover(run(1), first, last.version, at(6));
        }
        for number in 0..40 {
            let of = |log: &ReplicaLog| {
                let mut cells: Vec<_> = log.cells_of(key(number)).map(|cell| (cell.run, cell.version, cell.count)).collect();
                cells.sort_unstable();
                cells
            };
            prop_assert_eq!(of(&theirs), of(&ours), "key {}", number);
        }
        prop_assert!(walk_over(&ours, theirs.versions().collect()).covers().next().is_none());
        check(&theirs, (0..40).map(key));
    }
}

#[test]
fn the_newest_goes_first() {
    let mut log = log(1);
    for number in [1, 2, 3, 1, 4, 2] {
        log.publish(SCOPE, key(number), 1, at(1));
    }
    let all = collect(&mut walk_over(&log, BTreeMap::new()), &log, usize::MAX);
    let order: Vec<Digest> = all.iter().map(|record| record.digest).collect();
    assert_eq!(order, [2, 4, 1, 3].map(key));
}

#[test]
fn a_busy_run_does_not_keep_the_others_waiting() {
    let seed: Vec<(u64, u64)> = (0..1_000).map(|number| (0, number)).chain([(1, 5_000), (2, 5_001)]).collect();
    let log = mixed(&seed);
    let all = collect(&mut walk_over(&log, BTreeMap::new()), &log, usize::MAX);
    assert_eq!(all.len(), 1_002);
    for number in [5_000, 5_001] {
        let place = all.iter().position(|record| record.digest == key(number)).expect("is in it");
        assert!(place < 100, "key {number} came at {place}");
    }
}

#[test]
fn nothing_lacking_is_nothing_to_walk_over() {
    let log = mixed(&[(0, 1), (1, 2), (2, 3)]);
    let mut walk = walk_over(&log, log.versions().collect());
    assert!(walk.covers().next().is_none());
    assert!(collect(&mut walk, &log, 1).is_empty());
    // A peer that claims to hold more than there is lacks nothing.
    let most = log.versions().map(|(id, _)| (id, version(u64::MAX))).collect();
    assert!(walk_over(&log, most).covers().next().is_none());
}

#[test]
fn a_record_carries_the_level_and_the_age() {
    let mut log = log(1);
    log.publish(SCOPE, key(1), 1, Timestamp::from_millis(1_500));
    let mut walk = walk_over(&log, BTreeMap::new());
    assert_eq!(walk.covers().collect::<Vec<_>>(), [(run(1), Version::NONE, version(1))]);
    let mut records = Vec::new();
    let level = |scope, digest| {
        assert_eq!((scope, digest), (SCOPE, key(1)));
        Some(Missing::from_raw(5))
    };
    let more = walk.step(&log, at(3), level, |record| {
        records.push(record);
        true
    });
    // 1.5 s are rounded up.
    assert!(!more);
    let expected = KeyRecord { missing: Some(Missing::from_raw(5)), ..record(1, &[cell(1, 1, 1, 2)]) };
    assert_eq!(records, [expected]);
}

#[test]
fn keys_in_use_go_first_and_also_if_nothing_is_lacking() {
    let mut log = log(1);
    for number in 1..=5 {
        log.publish(SCOPE, key(number), 1, at(1));
    }
    // The peer lacks version 5 only. A key that went meanwhile is no record.
    let theirs = BTreeMap::from([(run(1), version(4))]);
    let hot = vec![key(2), key(99), key(3)];
    for piece in [1, 2, usize::MAX] {
        let mut walk = Walk::new(&log, theirs.clone(), hot.clone());
        let all = collect(&mut walk, &log, piece);
        assert_eq!(all.len(), 3, "in pieces of {piece}");
        let first: BTreeSet<Digest> = all[..2].iter().map(|record| record.digest).collect();
        assert_eq!(first, BTreeSet::from([key(2), key(3)]));
        assert!(all[..2].iter().all(|record| record.cells.is_empty()), "the peer holds these cells");
        assert_eq!((all[2].digest, all[2].cells.len()), (key(5), 1));
    }
}

#[test]
fn keys_in_use_are_some_of_the_newest_of_each_run() {
    let mut log = ReplicaLog::new(run(1), NO_LIMITS, TTL);
    for number in 1..=50 {
        log.publish(SCOPE, key(number), 1, at(number));
        let _news = log.apply_delta(run(2), &delta(100 + number, 0, 1, number), at(number));
    }
    let recent = log.hot_keys(at(46), 100);
    let expected: BTreeSet<Digest> = (46..=50).chain(146..=150).map(key).collect();
    assert_eq!(recent.iter().copied().collect::<BTreeSet<_>>(), expected);
    let few = log.hot_keys(at(1), 4);
    assert_eq!(few.iter().copied().collect::<BTreeSet<_>>(), BTreeSet::from([49, 50, 149, 150].map(key)));
    for most in 0..12 {
        assert!(log.hot_keys(at(1), most).len() <= most);
    }
    assert!(log.hot_keys(at(51), 100).is_empty());
}
