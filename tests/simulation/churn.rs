//! What happens when members come and go.

use std::time::Duration;

use peerlimit::{Quota, gossip::Sweeping};

use crate::{
    promises::{BELOW, everybody_sees_everybody, nobody_is_refused_wrongly},
    sim::{
        network::Link,
        play, play_long,
        scenario::{Load, Scenario, Spread, Step},
    },
};

#[test]
fn a_node_that_restarts_two_hundred_times_is_one_member_and_leaves_no_cells() {
    let mut scenario = Scenario {
        tune: |config| {
            config.sweeping = Some(Sweeping { key_ttl: Duration::from_secs(30), interval: Duration::from_secs(5) });
        },
        check: |outcome| {
            nobody_is_refused_wrongly(outcome);
            everybody_sees_everybody(outcome);
            for node in 0..3 {
                let stats = outcome.cluster.engine(node).stats();
                assert!(stats.runs <= 3, "seed {}: node {node} remembers {} runs", outcome.seed, stats.runs);
                assert!(stats.cells <= 3, "seed {}: node {node} holds {} cells", outcome.seed, stats.cells);
            }
        },
        ..Scenario::new("a_node_that_restarts_two_hundred_times_is_one_member_and_leaves_no_cells", 3, 470)
    }
    .load(Load::even("key", BELOW, 2, 420));
    for restart in 0..200 {
        let at = 10.0 + 2.0 * restart as f64;
        scenario = scenario.at(at, Step::Crash(1)).at(at + 0.2, Step::Start(1));
    }
    play_long(&scenario);
}

#[test]
fn all_nodes_that_restart_within_two_seconds_find_each_other_again() {
    let mut scenario = Scenario {
        check: everybody_sees_everybody,
        ..Scenario::new("all_nodes_that_restart_within_two_seconds_find_each_other_again", 8, 120)
    };
    for round in 0..10 {
        for node in 0..8 {
            let at = 10.0 + 10.0 * f64::from(round) + 0.25 * node as f64;
            scenario = scenario.at(at, Step::Crash(node)).at(at + 0.1, Step::Start(node));
        }
    }
    play_long(&scenario);
}

#[test]
fn scaling_up_and_down_again_refuses_nothing() {
    let mut scenario = Scenario {
        first: 0..3,
        check: |outcome| {
            nobody_is_refused_wrongly(outcome);
            everybody_sees_everybody(outcome);
        },
        ..Scenario::new("scaling_up_and_down_again_refuses_nothing", 30, 80)
    }
    .load(Load::even("key", BELOW, 2, 80));
    for node in 3..30 {
        let step = 0.2 * node as f64;
        scenario = scenario.at(10.0 + step, Step::Start(node)).at(40.0 + step, Step::Leave(node));
    }
    play_long(&scenario);
}

#[test]
fn what_a_node_admitted_last_is_not_lost_when_it_leaves() {
    let scenario = Scenario {
        quota: Quota::per_day(1000),
        link: Link::LAN.with_loss(0.2),
        check: |outcome| {
            let key = outcome.cluster.digest("key");
            let left = 1000 - outcome.tally().admitted;
            for node in 1..4 {
                let remaining = outcome.cluster.remaining(node, key);
                let seed = outcome.seed;
                assert!(
                    (left..=left + 2).contains(&remaining),
                    "seed {seed}: node {node} believes {remaining}, not {left}"
                );
            }
        },
        ..Scenario::new("what_a_node_admitted_last_is_not_lost_when_it_leaves", 4, 20)
    }
    .load(Load::even("key", 200.0, 5, 8).spread(Spread::Node(0)))
    .at(8.0, Step::Leave(0));
    play(&scenario);
}

#[test]
fn replicas_that_are_all_replaced_one_by_one_without_traffic_remember_what_was_spent() {
    let mut scenario = Scenario {
        quota: Quota::per_hour(10),
        first: 0..3,
        tune: |config| {
            // Shorter than the key takes to refill: its cells have to stay all the same.
            config.sweeping = Some(Sweeping { key_ttl: Duration::from_secs(60), interval: Duration::from_secs(10) });
        },
        check: |outcome| {
            let tally = outcome.tally();
            assert_eq!((tally.offered, tally.admitted), (54, 10), "seed {}: {tally:?}", outcome.seed);
        },
        ..Scenario::new("replicas_that_are_all_replaced_one_by_one_without_traffic_remember_what_was_spent", 6, 330)
    }
    .load(Load::exactly("key", 4, 2.0))
    .load(Load::exactly("key", 50, 320.0));
    for node in 0..3 {
        let at = 200.0 + 30.0 * node as f64;
        scenario = scenario.at(at, Step::Start(node + 3)).at(at + 10.0, Step::Leave(node));
    }
    play(&scenario);
}

#[test]
fn duplicates_and_reordering_change_nothing_beyond_their_news() {
    let scenario = Scenario {
        link: Link { jitter: 1.0, delay: Duration::from_millis(10), ..Link::LAN.with_duplicates(0.5) },
        check: |outcome| {
            nobody_is_refused_wrongly(outcome);
            everybody_sees_everybody(outcome);
        },
        ..Scenario::new("duplicates_and_reordering_change_nothing_beyond_their_news", 5, 60)
    }
    .load(Load::even("key", BELOW, 2, 60));
    play(&scenario);
}
