//! Clocks that lie, and processes that do not run.

use peerlimit::Quota;

use crate::{
    promises::{BELOW, everybody_sees_everybody, nobody_is_refused_wrongly},
    sim::{
        play, play_long,
        scenario::{Load, Outcome, Scenario, Spread, Step},
    },
};

fn refuses_nothing_and_is_one_cluster(outcome: &mut Outcome) {
    nobody_is_refused_wrongly(outcome);
    everybody_sees_everybody(outcome);
}

#[test]
fn a_process_that_was_stopped_for_a_minute_refuses_nothing_for_what_waited() {
    let scenario = Scenario {
        check: refuses_nothing_and_is_one_cluster,
        ..Scenario::new("a_process_that_was_stopped_for_a_minute_refuses_nothing_for_what_waited", 5, 110)
    }
    .load(Load::even("key", BELOW, 2, 110))
    .at(20.0, Step::Freeze(1))
    .at(80.0, Step::Thaw(1));
    play_long(&scenario);
}

#[test]
fn a_process_that_was_stopped_for_less_than_a_suspicion_refuses_nothing_for_what_waited() {
    let mut scenario = Scenario {
        check: refuses_nothing_and_is_one_cluster,
        ..Scenario::new("a_process_that_was_stopped_for_less_than_a_suspicion_refuses_nothing_for_what_waited", 5, 40)
    }
    .load(Load::even("key", BELOW, 2, 40));
    for stop in 0..6 {
        let at = 10.0 + 4.0 * f64::from(stop);
        scenario = scenario.at(at, Step::Freeze(1)).at(at + 1.3, Step::Thaw(1));
    }
    play(&scenario);
}

#[test]
fn a_process_that_was_stopped_admits_no_more_than_one_burst_beyond_the_quota() {
    let scenario = Scenario {
        check: |outcome| {
            everybody_sees_everybody(outcome);
            // The stopped one comes back with a bucket that time has filled.
            let excess = outcome.tally().excess;
            assert!(excess <= 1.2, "seed {}: {excess} bursts above", outcome.seed);
        },
        ..Scenario::new("a_process_that_was_stopped_admits_no_more_than_one_burst_beyond_the_quota", 5, 60)
    }
    .load(Load::even("key", 400.0, 2, 60))
    .at(10.0, Step::Freeze(1))
    .at(40.0, Step::Thaw(1));
    play_long(&scenario);
}

#[test]
fn a_stopped_process_remembers_a_slow_key_and_learns_what_was_spent_meanwhile() {
    let scenario = Scenario {
        quota: Quota::per_hour(10),
        check: |outcome| {
            assert_eq!(outcome.tally().admitted, 10, "seed {}", outcome.seed);
        },
        ..Scenario::new("a_stopped_process_remembers_a_slow_key_and_learns_what_was_spent_meanwhile", 5, 110)
    }
    .load(Load::exactly("key", 3, 5.0).spread(Spread::Node(1)))
    .at(20.0, Step::Freeze(1))
    .load(Load::exactly("key", 4, 50.0).spread(Spread::Node(2)))
    .at(80.0, Step::Thaw(1))
    .load(Load::exactly("key", 20, 90.0).spread(Spread::Node(1)));
    play_long(&scenario);
}

#[test]
fn a_clock_that_jumps_by_an_hour_refuses_nothing() {
    let scenario = Scenario {
        check: refuses_nothing_and_is_one_cluster,
        ..Scenario::new("a_clock_that_jumps_by_an_hour_refuses_nothing", 5, 60)
    }
    .load(Load::even("key", BELOW, 2, 60))
    .at(20.0, Step::ClockJumps(1, 3600));
    play_long(&scenario);
}

#[test]
fn a_clock_that_jumps_by_an_hour_passes_one_burst_more_at_most() {
    let scenario = Scenario {
        check: |outcome| {
            everybody_sees_everybody(outcome);
            let excess = outcome.tally().excess;
            assert!(excess <= 1.2, "seed {}: {excess} bursts above", outcome.seed);
        },
        ..Scenario::new("a_clock_that_jumps_by_an_hour_passes_one_burst_more_at_most", 5, 60)
    }
    .load(Load::even("key", 400.0, 2, 60))
    .at(20.0, Step::ClockJumps(1, 3600));
    play_long(&scenario);
}

/// As `net::clock` shows a clock that goes back: it stands still until it would be ahead again.
#[test]
fn a_clock_that_goes_back_by_less_than_two_seconds_refuses_nothing_of_an_idle_key() {
    let scenario = Scenario {
        check: refuses_nothing_and_is_one_cluster,
        ..Scenario::new("a_clock_that_goes_back_by_less_than_two_seconds_refuses_nothing_of_an_idle_key", 5, 60)
    }
    .load(Load::even("key", 15.0, 2, 60))
    .at(20.0, Step::ClockStops(1))
    .at(21.6, Step::ClockGoesOn(1));
    play_long(&scenario);
}
