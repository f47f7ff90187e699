//! The replica log, case by case.

use super::*;

fn counts() -> impl Strategy<Value = Count> {
    let permits = prop_oneof![0..4_u64, any::<u64>(), Just(u64::MAX)];
    (0..4_u32, permits).prop_map(|(epoch, permits)| Count { epoch: Epoch::from_raw(epoch), permits })
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn counts_merge_in_any_order_and_any_number_of_times(a in counts(), b in counts(), c in counts()) {
        prop_assert_eq!(a.merge(a), a);
        prop_assert_eq!(a.merge(b), b.merge(a));
        prop_assert_eq!(a.merge(b).merge(c), a.merge(b.merge(c)));
        prop_assert!(a.merge(b) >= a && a.merge(b) >= b);
        // A later life replaces an earlier one whatever its permits.
        if a.epoch > b.epoch {
            prop_assert_eq!(a.merge(b), a);
        }
    }
}

#[test]
fn what_is_published_is_counted_and_numbered() {
    let mut log = log(1);
    assert_eq!(log.publish(SCOPE, key(1), 3, at(1)), delta(1, 0, 3, 1));
    assert_eq!(log.publish(SCOPE, key(2), 1, at(1)), delta(2, 0, 1, 2));
    assert_eq!(log.publish(SCOPE, key(1), 4, at(2)), delta(1, 3, 7, 3));
    assert_eq!((log.cells(), log.keys(), log.own_version()), (2, 2, version(3)));
    check(&log, (0..4).map(key));
}

#[test]
fn a_baseline_makes_the_difference_news() {
    let mut log = log(1);
    let news = |recent, missed, secs| Applied::News(News { recent, missed, gap: Duration::from_secs(secs) });
    // Without one a delta tells its own permits, not those before.
    let first = log.apply_delta(run(2), &delta(1, 100, 103, 9), at(1));
    assert_eq!(first, Applied::NoBaseline(News { recent: 3, ..News::default() }));
    assert_eq!(log.apply_delta(run(2), &delta(1, 103, 105, 10), at(2)), news(2, 0, 1));
    // 105 -> 110 was lost.
    assert_eq!(log.apply_delta(run(2), &delta(1, 110, 112, 12), at(7)), news(2, 5, 5));
    // The lost one comes late, and again, and the last one again.
    for late in [delta(1, 105, 110, 11), delta(1, 105, 110, 11), delta(1, 110, 112, 12)] {
        assert_eq!(log.apply_delta(run(2), &late, at(8)), Applied::News(News::default()));
    }
    // A record tells nothing but the state.
    let cell = cell(2, 120, 15, 0);
    assert_eq!(log.apply_record(&record(1, &[cell]), &cell, at(9)), news(0, 8, 2));
    check(&log, [key(1)]);
}

#[test]
fn a_record_without_a_baseline_leaves_one() {
    let mut log = log(1);
    let told = cell(2, 120, 15, 30);
    assert_eq!(log.apply_record(&record(1, &[told]), &told, at(100)), Applied::NoBaseline(News::default()));
    // It keeps its age.
    assert_eq!(log.cells_of(key(1)).next().map(|cell| cell.heard), Some(at(70)));
    assert!(
        matches!(log.apply_delta(run(2), &delta(1, 120, 121, 16), at(101)), Applied::News(news) if news.charge(Duration::MAX) == 1)
    );
    check(&log, [key(1)]);
}

#[test]
fn what_was_missed_for_longer_than_a_refill_is_not_charged() {
    let news = News { recent: 3, missed: 10, gap: Duration::from_secs(5) };
    assert_eq!(news.charge(Duration::MAX), 13);
    assert_eq!(news.charge(Duration::from_secs(5)), 13);
    assert_eq!(news.charge(Duration::from_nanos(4_999_999_999)), 3);
    assert_eq!(News { recent: u64::MAX, missed: 5, gap: Duration::ZERO }.charge(Duration::MAX), u64::MAX);
    assert_eq!(News::default().charge(Duration::MAX), 0);
}

#[test]
fn nobody_tells_us_of_our_own_cells() {
    let mut log = log(1);
    log.publish(SCOPE, key(1), 3, at(1));
    assert_eq!(log.apply_delta(run(1), &delta(1, 0, u64::MAX, 9), at(2)), Applied::Refused);
    assert_eq!(log.apply_delta(run(1), &delta(2, 0, 9, 9), at(2)), Applied::Refused);
    let forged = cell(1, u64::MAX, 9, 0);
    assert_eq!(log.apply_record(&record(1, &[forged]), &forged, at(2)), Applied::Refused);
    assert_eq!((log.cells(), log.keys(), log.own_version()), (1, 1, version(1)));
    assert_eq!(log.publish(SCOPE, key(1), 1, at(3)), delta(1, 3, 4, 2));
    check(&log, (0..4).map(key));
}

#[test]
fn a_version_that_belongs_to_another_cell_is_refused() {
    let mut log = log(1);
    let _news = log.apply_delta(run(2), &delta(1, 0, 3, 5), at(1));
    let _news = log.apply_delta(run(2), &delta(2, 0, 3, 6), at(1));
    // For a key that is new, for one that is known but has no cell of the run, and for one that has one.
    let _news = log.apply_delta(run(3), &delta(4, 0, 3, 5), at(1));
    let before = [1, 2, 3, 4].map(|number| log.cells_of(key(number)).collect::<Vec<_>>());
    for forged in [delta(3, 0, 1, 5), delta(4, 0, 1, 5), delta(2, 3, 9, 5)] {
        assert_eq!(log.apply_delta(run(2), &forged, at(2)), Applied::Refused, "{forged:?}");
    }
    let forged = cell(2, 99, 5, 0);
    assert_eq!(log.apply_record(&record(2, &[forged]), &forged, at(2)), Applied::Refused);
    assert_eq!([1, 2, 3, 4].map(|number| log.cells_of(key(number)).collect::<Vec<_>>()), before);
    check(&log, (0..6).map(key));
}

#[test]
fn counts_saturate() {
    let mut ours = log(1);
    ours.publish(SCOPE, key(1), u64::MAX - 1, at(1));
    assert_eq!(ours.publish(SCOPE, key(1), 5, at(1)), delta(1, u64::MAX - 1, u64::MAX, 2));
    assert_eq!(ours.publish(SCOPE, key(1), u64::MAX, at(1)), delta(1, u64::MAX, u64::MAX, 3));
    let mut theirs = log(2);
    let _news = theirs.apply_delta(run(1), &delta(1, 0, 1, 1), at(1));
    let Applied::News(news) = theirs.apply_delta(run(1), &delta(1, u64::MAX, u64::MAX, 3), at(2)) else {
        panic!("the baseline is known");
    };
    assert_eq!((news.recent, news.missed), (0, u64::MAX - 1));
    // Upside down deltas do not leave the decoder, but would do no harm.
    assert!(
        matches!(theirs.apply_delta(run(1), &delta(2, 9, 3, 4), at(2)), Applied::NoBaseline(news) if news.recent == 0)
    );
    check(&theirs, (0..4).map(key));
}

#[test]
fn a_cell_that_starts_again_is_news_in_full() {
    let (mut ours, mut theirs) = (log(1), log(2));
    let told = ours.publish(SCOPE, key(1), 1_000, at(1));
    let _news = theirs.apply_delta(run(1), &told, at(1));
    let swept = ours.sweep(at(700), 100, |_| false);
    assert_eq!((swept.dropped, ours.cells(), ours.keys()), (1, 0, 0));
    let again = ours.publish(SCOPE, key(1), 3, at(701));
    assert!(again.epoch > told.epoch);
    assert_eq!((again.from, again.to), (0, 3));
    let Applied::News(news) = theirs.apply_delta(run(1), &again, at(701)) else { panic!("the baseline is known") };
    assert_eq!(news.charge(Duration::ZERO), 3);
    // What is late of the former life is no news any more.
    let late = Delta { from: 1_000, to: 2_000, version: version(9), ..told };
    assert_eq!(theirs.apply_delta(run(1), &late, at(702)), Applied::News(News::default()));
    // A cell of a key that was never dropped begins in the new epoch too; others' cells stay in theirs.
    assert_eq!(ours.publish(SCOPE, key(2), 1, at(703)).epoch, again.epoch);
    check(&theirs, (0..4).map(key));
    check(&ours, (0..4).map(key));
}

#[test]
fn a_lost_part_of_a_new_life_is_news_too() {
    let mut theirs = log(2);
    let _news = theirs.apply_delta(run(1), &delta(1, 0, 1_000, 1), at(1));
    let fresh = Delta { epoch: Epoch::from_raw(5), ..delta(1, 10, 12, 8) };
    let Applied::News(news) = theirs.apply_delta(run(1), &fresh, at(2)) else { panic!("the baseline is known") };
    assert_eq!((news.recent, news.missed), (2, 10));
}

#[test]
fn a_cell_that_began_since_its_run_was_in_step_is_news_in_full() {
    let mut log = log(1);
    log.cover(run(2), version(0), version(3), at(10));
    let missed = |missed, secs| News { recent: 2, missed, gap: Duration::from_secs(secs) };
    assert_eq!(log.apply_delta(run(2), &delta(1, 5, 7, 9), at(14)), Applied::News(missed(5, 4)));
    // Where one was dropped, nobody can tell.
    assert_eq!(log.sweep(at(1_000), 100, |_| false).dropped, 1);
    let again = delta(1, 9, 11, 12);
    assert_eq!(log.apply_delta(run(2), &again, at(1_001)), Applied::NoBaseline(News { recent: 2, ..News::default() }));
    // But of a later life, all came after.
    let later = Delta { epoch: Epoch::from_raw(1), ..delta(2, 5, 7, 13) };
    assert_eq!(log.apply_delta(run(2), &later, at(1_010)), Applied::News(missed(5, 1_000)));
}

#[test]
fn an_own_cell_that_is_past_its_time_starts_again_whoever_swept() {
    let mut log = log(1);
    let first = log.publish(SCOPE, key(1), 5, at(1));
    let soon = log.publish(SCOPE, key(1), 5, at(600));
    assert_eq!((soon.epoch, soon.from, soon.to), (first.epoch, 5, 10));
    let late = log.publish(SCOPE, key(1), 5, at(1_200));
    assert!(late.epoch > first.epoch);
    assert_eq!((late.from, late.to, log.cells()), (0, 5, 1));
    check(&log, [key(1)]);
}

/// A log with cells of the runs 1 (its own), 2 and 3, heard of at the second that is their key's number.
fn aged() -> ReplicaLog {
    let mut log = ReplicaLog::new(run(1), NO_LIMITS, Duration::from_secs(100));
    for number in 1..=10 {
        log.publish(SCOPE, key(number), 1, at(number));
        let _news = log.apply_delta(run(2), &delta(number, 0, 1, number), at(number));
        let _news = log.apply_delta(run(3), &delta(number + 100, 0, 1, number), at(number));
    }
    for id in [2, 3] {
        log.cover(run(id), version(0), version(10), at(10));
    }
    log
}

#[test]
fn a_sweep_drops_what_is_idle_and_not_wanted() {
    let mut log = aged();
    let swept = log.sweep(at(105), usize::MAX >> 1, |digest| digest == key(2) || digest == key(103));
    // Idle are the keys 1 to 5, in three runs; kept are two cells of key 2 and one of key 103.
    assert_eq!((swept.dropped, swept.more), (12, false));
    assert_eq!(log.cells(), 18);
    assert_eq!((log.cells_of(key(2)).count(), log.cells_of(key(103)).count()), (2, 1));
    assert!(log.cells_of(key(1)).next().is_none() && log.cells_of(key(105)).next().is_none());
    assert_eq!(log.cells_of(key(6)).count(), 2);
    check(&log, (0..200).map(key));
    // What they said stays held: it must not be asked for again.
    assert_eq!(log.version_of(run(2)), version(10));
    // Kept cells do not hide those behind them in the next round.
    let swept = log.sweep(at(109), usize::MAX >> 1, |digest| digest == key(2));
    assert_eq!(swept.dropped, 3 * 4 + 1);
    check(&log, (0..200).map(key));
}

#[test]
fn cells_of_the_dead_go_also_while_their_key_is_busy() {
    let limits = LogLimits { max_keys: 100, ..NO_LIMITS };
    let mut log = ReplicaLog::new(run(1), limits, TTL);
    let heard = at(100);
    for dead in 2..50 {
        let delta =
            Delta { scope: SCOPE, digest: key(1), epoch: Epoch::default(), from: 0, to: 5, version: version(1) };
        log.apply_delta(run(dead), &delta, heard);
    }
    let later = heard.saturating_add(TTL);
    // The bucket is never full. As long as nobody uses the key, all of its cells stay.
    assert_eq!(log.sweep(later, 1_000, |_| true).dropped, 0);
    // Then somebody does, and its cell is enough.
    log.publish(SCOPE, key(1), 1, later);
    assert_eq!(log.sweep(later, 1_000, |_| true).dropped, 48);
    log.forget_runs(|_| false);
    assert_eq!((log.cells(), log.runs()), (1, 1));
    check(&log, [key(1)]);
}

#[test]
fn cells_beyond_the_limit_are_charged_and_not_kept() {
    let mut log = ReplicaLog::new(run(1), LogLimits { max_cells: 20, ..NO_LIMITS }, TTL);
    for (sender, number) in (2..12).flat_map(|sender| (0..10).map(move |number| (sender, number))) {
        let applied = log.apply_delta(run(sender), &delta(number, 7, 9, number + 1), at(1));
        assert_eq!(applied, Applied::NoBaseline(News { recent: 2, ..News::default() }));
    }
    assert_eq!(log.cells(), 20);
    // Known cells go on as before, and our own are not in question.
    assert!(matches!(log.apply_delta(run(2), &delta(0, 9, 10, 11), at(1)), Applied::News(news) if news.recent == 1));
    log.publish(SCOPE, key(1), 1, at(1));
    assert_eq!(log.cells(), 21);
    check(&log, (0..20).map(key));
    // When there is room again, it is taken.
    log.sweep(at(1).saturating_add(TTL), 1_000, |_| false);
    assert_eq!(log.cells(), 0);
    log.apply_delta(run(11), &delta(0, 9, 10, 20), at(200));
    assert_eq!(log.cells(), 1);
}

#[test]
fn a_sweep_goes_on_where_it_ended() {
    for budget in 1..20 {
        let mut log = aged();
        let (mut calls, mut dropped) = (0, 0);
        loop {
            let swept = log.sweep(at(109), budget, |digest| digest == key(3));
            assert!(swept.dropped <= budget);
            check(&log, (0..200).map(key));
            dropped += swept.dropped;
            calls += 1;
            assert!(calls < 100, "a round with a budget of {budget} never ends");
            if !swept.more {
                break;
            }
        }
        assert_eq!(dropped, 3 * 9 - 2, "with a budget of {budget}");
    }
}

#[test]
fn a_sweep_survives_changes_between_its_steps() {
    let mut log = aged();
    assert!(log.sweep(at(200), 3, |_| true).more);
    // The cell at the cursor is published anew, and a run that the cursor may stand in goes.
    log.publish(SCOPE, key(3), 1, at(200));
    let keep = |digest| digest == key(3) || digest == key(4);
    let mut rounds = 0;
    while log.sweep(at(200), 3, keep).more {
        log.forget_runs(|_| false);
        rounds += 1;
        assert!(rounds < 100, "a round never ends");
    }
    while log.sweep(at(200), 3, keep).more {}
    // The one that is in use needs no other cell.
    assert_eq!((log.cells_of(key(3)).count(), log.cells_of(key(4)).count()), (1, 2));
    assert_eq!(log.cells(), 3);
    check(&log, (0..200).map(key));
}

#[test]
fn a_touch_keeps_a_cell() {
    let mut log = aged();
    log.publish(SCOPE, key(1), 1, at(100));
    let _news = log.apply_delta(run(2), &delta(1, 1, 2, 11), at(100));
    log.sweep(at(150), 1_000, |_| false);
    assert_eq!((log.cells(), log.cells_of(key(1)).count()), (2, 2));
    check(&log, (0..200).map(key));
}

#[test]
fn a_run_goes_when_nothing_of_it_is_left() {
    let mut log = aged();
    log.forget_runs(|_| false);
    assert_eq!(log.versions().count(), 3, "runs with cells stay");
    log.sweep(at(500), 1_000, |_| false);
    assert_eq!(log.cells(), 0);
    log.forget_runs(|id| id == run(3));
    assert_eq!(log.versions().map(|(id, _)| id).collect::<Vec<_>>(), [run(1), run(3)]);
    assert_eq!(log.version_of(run(2)), Version::NONE);
    log.forget_runs(|_| false);
    assert_eq!(log.versions().map(|(id, _)| id).collect::<Vec<_>>(), [run(1)]);
    // Our own versions go on.
    assert_eq!(log.publish(SCOPE, key(1), 1, at(501)).version, version(11));
}

#[test]
fn keys_beyond_the_limit_are_charged_and_not_kept() {
    let mut log = ReplicaLog::new(run(1), LogLimits { max_keys: 5, ..NO_LIMITS }, TTL);
    for number in 0..10 {
        let applied = log.apply_delta(run(2), &delta(number, 7, 9, number + 1), at(1));
        assert_eq!(applied, Applied::NoBaseline(News { recent: 2, ..News::default() }));
        let told = cell(3, 9, number + 1, 0);
        let _news = log.apply_record(&record(number, &[told]), &told, at(1));
        assert!(log.keys() <= 5);
    }
    assert_eq!((log.keys(), log.cells()), (5, 10));
    check(&log, (0..20).map(key));
    // Known keys go on as before, and our own cells are not in question.
    assert!(matches!(log.apply_delta(run(2), &delta(0, 9, 10, 11), at(1)), Applied::News(news) if news.recent == 1));
    log.publish(SCOPE, key(19), 1, at(1));
    assert_eq!(log.cells_of(key(19)).count(), 1);
    check(&log, (0..20).map(key));
}

#[test]
fn runs_beyond_the_limit_are_neither_kept_nor_charged() {
    let mut log = ReplicaLog::new(run(1), LogLimits { max_runs: 4, ..NO_LIMITS }, TTL);
    for id in 2..20 {
        let applied = log.apply_delta(run(id), &delta(1, 0, 2, 1), at(1));
        // Twice or not at all: nobody could tell a duplicate.
        let expected = if log.versions().any(|(known, _)| known == run(id)) { 2 } else { 0 };
        assert!(matches!(applied, Applied::NoBaseline(news) if news.recent == expected), "{applied:?}");
        log.cover(run(id), version(0), version(1), at(1));
        log.cover(run(id + 100), version(0), version(1), at(1));
        log.note_in_step(run(id + 200), Version::NONE, at(1));
        assert!(log.versions().count() <= 4);
    }
    check(&log, (0..20).map(key));
    assert!(!log.has_gap(run(19)) && !log.has_cells_of(run(19)));
}

#[test]
fn our_own_cells_have_a_cap_and_the_oldest_gives_way() {
    let mut log = ReplicaLog::new(run(1), LogLimits { max_keys: 5, ..NO_LIMITS }, TTL);
    let mut peer = ReplicaLog::new(run(2), NO_LIMITS, TTL);
    for number in 0..100 {
        let delta = log.publish(SCOPE, key(number), 3, at(1));
        assert!(log.keys() <= 5 && log.cells() <= 5);
        let _news = peer.apply_delta(run(1), &delta, at(1));
        peer.cover(run(1), version(number), version(number + 1), at(1));
    }
    check(&log, (0..100).map(key));
    // What gave way and begins anew is news in full where the old count is still known.
    let delta = log.publish(SCOPE, key(0), 2, at(1));
    assert_eq!((delta.from, delta.to), (0, 2));
    assert_eq!(peer.apply_delta(run(1), &delta, at(1)), Applied::News(News { recent: 2, ..News::default() }));
    check(&log, (0..100).map(key));
}

#[test]
fn what_a_third_node_dropped_is_not_taken_for_new() {
    let (mut log, origin) = (log(1), run(2));
    // A transfer covers everything, but its sender had dropped cells of that epoch.
    log.fill(origin, version(0), version(100), Some(Epoch::default()));
    log.note_in_step(origin, version(100), at(10));
    let applied = log.apply_delta(origin, &delta(7, 40, 42, 101), at(11));
    assert_eq!(applied, Applied::NoBaseline(News { recent: 2, ..News::default() }));
}

#[test]
fn a_cell_without_a_version_is_refused() {
    let mut log = log(1);
    assert_eq!(log.apply_delta(run(2), &delta(1, 0, 1, 0), at(1)), Applied::Refused);
    assert_eq!(log.cells(), 0);
}
