//! Networks and members at their worst.

use std::time::Duration;

use peerlimit::gossip::Sweeping;

use crate::{
    promises::{BELOW, everybody_sees_everybody, nobody_is_refused_wrongly},
    sim::{
        network::Link,
        play_long,
        scenario::{Load, Scenario, Step},
    },
};

#[test]
fn three_lost_datagrams_of_ten_refuse_nothing() {
    let scenario = Scenario {
        link: Link::LAN.with_loss(0.3),
        check: nobody_is_refused_wrongly,
        ..Scenario::new("three_lost_datagrams_of_ten_refuse_nothing", 10, 90)
    }
    .load(Load::even("key", BELOW, 10, 90));
    play_long(&scenario);
}

#[test]
fn three_lost_datagrams_of_ten_keep_the_quota() {
    let scenario = Scenario {
        link: Link::LAN.with_loss(0.3),
        check: |outcome| {
            let ratio = outcome.tally().ratio();
            assert!((0.98..=1.02).contains(&ratio), "seed {}: {ratio} of central", outcome.seed);
        },
        ..Scenario::new("three_lost_datagrams_of_ten_keep_the_quota", 10, 60)
    }
    .load(Load::even("key", 1_000.0, 10, 60));
    play_long(&scenario);
}

#[test]
fn three_hundred_restarts_of_ten_nodes_leave_the_living_and_their_cells() {
    let mut scenario = Scenario {
        tune: |config| {
            config.sweeping = Some(Sweeping { key_ttl: Duration::from_secs(30), interval: Duration::from_secs(5) });
        },
        check: |outcome| {
            everybody_sees_everybody(outcome);
            for node in 0..10 {
                let stats = outcome.cluster.engine(node).stats();
                assert!(stats.runs <= 10, "seed {}: node {node} remembers {} runs", outcome.seed, stats.runs);
                assert!(stats.cells <= 10, "seed {}: node {node} holds {} cells", outcome.seed, stats.cells);
            }
        },
        ..Scenario::new("three_hundred_restarts_of_ten_nodes_leave_the_living_and_their_cells", 10, 420)
    }
    .load(Load::even("key", BELOW, 2, 320));
    for restart in 0..300 {
        // Each in turn, one a second.
        let (at, node) = (10.0 + f64::from(restart), restart as usize % 10);
        scenario = scenario.at(at, Step::Crash(node)).at(at + 0.2, Step::Start(node));
    }
    play_long(&scenario);
}

#[test]
fn runs_of_the_dead_go_also_while_a_key_is_never_at_rest() {
    let mut scenario = Scenario {
        tune: |config| {
            config.sweeping = Some(Sweeping { key_ttl: Duration::from_secs(30), interval: Duration::from_secs(5) });
        },
        check: |outcome| {
            nobody_is_refused_wrongly(outcome);
            for node in 0..4 {
                let stats = outcome.cluster.engine(node).stats();
                // Those that went within the time to live and a round of the sweep may be there still: one in two seconds.
                assert!(stats.runs <= 4 + 25, "seed {}: node {node} remembers {} runs", outcome.seed, stats.runs);
            }
        },
        ..Scenario::new("runs_of_the_dead_go_also_while_a_key_is_never_at_rest", 4, 220)
    }
    .load(Load::even("key", BELOW, 2, 220));
    for restart in 0..100 {
        let (at, node) = (10.0 + 2.0 * f64::from(restart), restart as usize % 4);
        scenario = scenario.at(at, Step::Crash(node)).at(at + 0.2, Step::Start(node));
    }
    play_long(&scenario);
}

#[test]
fn a_member_that_lies_silences_a_key_for_two_refill_times_and_no_other() {
    let mut scenario = Scenario {
        check: |outcome| {
            let seed = outcome.seed;
            everybody_sees_everybody(outcome);
            assert_eq!(outcome.refused("victim", 2..20), 0, "seed {seed}: before the lies");
            assert!(outcome.refused("victim", 20..40) > 0, "seed {seed}: the lies are heard");
            // The last lie is told within the second before 40, and a refill takes half a second.
            assert_eq!(outcome.refused("victim", 41..60), 0, "seed {seed}: after the lies");
            assert_eq!(outcome.refused("other", 0..60), 0, "seed {seed}: not lied about");
        },
        ..Scenario::new("a_member_that_lies_silences_a_key_for_two_refill_times_and_no_other", 5, 60)
    }
    .load(Load::even("victim", 40.0, 2, 60))
    .load(Load::even("other", 40.0, 2, 60));
    for lie in 0..40 {
        scenario = scenario.at(20.0 + 0.5 * f64::from(lie), Step::Lie(4, "victim"));
    }
    play_long(&scenario);
}

#[test]
fn a_member_that_hardly_runs_holds_up_nobody() {
    let mut scenario = Scenario {
        check: |outcome| {
            everybody_sees_everybody(outcome);
            let ratio = outcome.tally().ratio();
            assert!((0.98..=1.02).contains(&ratio), "seed {}: {ratio} of central", outcome.seed);
        },
        ..Scenario::new("a_member_that_hardly_runs_holds_up_nobody", 5, 60)
    }
    .load(Load::even("key", 400.0, 2, 60));
    for stop in 0..100 {
        // It runs for a fifth of the time.
        let at = 10.0 + 0.4 * f64::from(stop);
        scenario = scenario.at(at, Step::Freeze(2)).at(at + 0.32, Step::Thaw(2));
    }
    play_long(&scenario);
}

/// As in `churn`, ten times as often.
#[test]
#[ignore = "takes minutes: cargo test --release --test simulation a_hundred_times -- --ignored"]
fn all_nodes_restart_within_two_seconds_a_hundred_times() {
    let mut scenario = Scenario {
        check: everybody_sees_everybody,
        ..Scenario::new("all_nodes_restart_within_two_seconds_a_hundred_times", 8, 1_050)
    };
    for round in 0..100 {
        for node in 0..8 {
            let at = 10.0 + 10.0 * f64::from(round) + 0.25 * node as f64;
            scenario = scenario.at(at, Step::Crash(node)).at(at + 0.1, Step::Start(node));
        }
    }
    play_long(&scenario);
}
