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
