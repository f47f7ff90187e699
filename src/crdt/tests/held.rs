//! Which versions of a run have arrived, against a plain set.

use super::*;
use crate::crdt::held::Held;

/// The last version up to which the set has all.
fn contiguous(covered: &BTreeSet<u64>) -> Version {
    version((1..).take_while(|version| covered.contains(version)).last().unwrap_or(0))
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn held_is_a_set_of_versions(ranges in prop::collection::vec((0..60_u64, 0..60_u64), 0..30)) {
        let (mut held, mut covered) = (Held::default(), BTreeSet::new());
        for (from, to) in ranges {
            // Some ranges are upside down: they cover nothing.
            let no_gap = from <= held.upto().raw();
            prop_assert_eq!(held.cover(version(from), version(to)), no_gap);
            covered.extend(from + 1..=to);
            prop_assert_eq!(held.upto(), contiguous(&covered));
        }
    }

    #[test]
    fn too_many_gaps_are_forgotten_and_never_claimed(ranges in prop::collection::vec((0..400_u64, 1..4_u64), 100..300)) {
        let (mut held, mut covered) = (Held::default(), BTreeSet::new());
        for (from, length) in ranges {
            held.cover(version(from), version(from + length));
            covered.extend(from + 1..=from + length);
            prop_assert!(held.upto() <= contiguous(&covered));
        }
        // Whatever was forgotten, a range over all of it repairs it.
        held.cover(Version::NONE, version(500));
        prop_assert_eq!((held.upto(), held.has_gap()), (version(500), false));
    }
}

#[test]
fn a_digest_speaks_of_what_is_contiguous_only() {
    let mut log = log(1);
    let upto = |log: &ReplicaLog| log.versions().find(|(id, _)| *id == run(2)).map(|(_, version)| version.raw());
    assert!(log.cover(run(2), version(0), version(3), at(1)));
    assert!(!log.cover(run(2), version(5), version(9), at(2)));
    assert!(log.has_gap(run(2)));
    assert_eq!(upto(&log), Some(3));
    assert!(!log.cover(run(2), version(20), version(30), at(3)));
    assert!(log.cover(run(2), version(3), version(5), at(4)));
    assert_eq!(upto(&log), Some(9));
    assert!(log.has_gap(run(2)));
    // Over and beyond the rest.
    assert!(log.cover(run(2), version(1), version(25), at(5)));
    assert_eq!((upto(&log), log.has_gap(run(2))), (Some(30), false));
    assert_eq!(log.version_of(run(2)), version(30));
    assert_eq!(log.version_of(run(3)), Version::NONE);
}

#[test]
fn a_delta_alone_claims_no_version() {
    let mut log = log(1);
    let _news = log.apply_delta(run(2), &delta(1, 0, 5, 1), at(1));
    assert_eq!(log.version_of(run(2)), Version::NONE);
}

#[test]
fn nobody_moves_our_own_version() {
    let mut log = log(1);
    log.publish(SCOPE, key(1), 1, at(1));
    assert!(log.cover(run(1), version(0), version(100), at(1)));
    assert_eq!(log.own_version(), version(1));
    assert_eq!(log.in_step_since(run(1), at(50)), Duration::ZERO);
}

#[test]
fn in_step_is_known_from_frames_and_from_the_word_of_peers() {
    let mut log = log(1);
    assert_eq!(log.in_step_since(run(2), at(10)), Duration::MAX);
    log.cover(run(2), version(0), version(3), at(10));
    assert_eq!(log.in_step_since(run(2), at(12)), Duration::from_secs(2));
    // A gap says that something was missed.
    log.cover(run(2), version(4), version(5), at(20));
    assert_eq!(log.in_step_since(run(2), at(20)), Duration::from_secs(10));
    // The word of a peer that holds more is no help; of one that holds as much it is. It never moves back.
    log.note_in_step(run(2), version(5), at(19));
    assert_eq!(log.in_step_since(run(2), at(20)), Duration::from_secs(10));
    log.note_in_step(run(2), version(3), at(15));
    assert_eq!(log.in_step_since(run(2), at(20)), Duration::from_secs(5));
    log.note_in_step(run(2), version(3), at(11));
    assert_eq!(log.in_step_since(run(2), at(20)), Duration::from_secs(5));
}

#[test]
fn a_frame_that_comes_twice_does_not_say_that_nothing_was_missed_meanwhile() {
    let mut log = log(1);
    log.cover(run(2), version(0), version(3), at(10));
    log.cover(run(2), version(4), version(5), at(20));
    // The first frame once more: version 4 is missing as before.
    log.cover(run(2), version(0), version(3), at(100));
    assert!(log.has_gap(run(2)));
    assert_eq!(log.in_step_since(run(2), at(100)), Duration::from_secs(90));
}
