//! What the cluster promises whatever happens to it: no wrong refusal, one quota, everybody sees everybody.

use std::time::Duration;

use peerlimit::Quota;

use crate::sim::{
    network::Link,
    play,
    scenario::{Load, Outcome, Scenario, Spread, Step},
};

/// 80 % of the quota of 100 per second.
pub const BELOW: f64 = 80.0;

pub fn nobody_is_refused_wrongly(outcome: &mut Outcome) {
    let total = outcome.total();
    assert!(total.offered > 0, "no load");
    assert_eq!(total.refused_wrongly, 0, "seed {}: {total:?}", outcome.seed);
}

pub fn everybody_sees_everybody(outcome: &mut Outcome) {
    assert!(outcome.cluster.all_see_all(), "seed {}: members differ", outcome.seed);
}

#[test]
fn all_nodes_find_each_other_and_agree_on_what_was_spent() {
    let scenario = Scenario {
        // Nothing to speak of comes back during the test, so that counts can be compared.
        quota: Quota::per_day(1000),
        link: Link::LAN.with_loss(0.1).with_duplicates(0.1),
        check: |outcome| {
            everybody_sees_everybody(outcome);
            let key = outcome.cluster.digest("key");
            let left = 1000 - outcome.tally().admitted;
            for node in 0..5 {
                // Never more than was admitted is charged. A permit or two may be missing: where a node meets a cell
                // of a run that it never was in step with, it takes the level, and a level does not add up with what
                // others had not heard.
                let remaining = outcome.cluster.remaining(node, key);
                let seed = outcome.seed;
                assert!(
                    (left..=left + 2).contains(&remaining),
                    "seed {seed}: node {node} believes {remaining}, not {left}"
                );
            }
        },
        ..Scenario::new("all_nodes_find_each_other_and_agree_on_what_was_spent", 5, 20)
    }
    .load(Load::even("key", 100.0, 5, 10));
    play(&scenario);
}

#[test]
fn a_newcomer_refuses_nothing_that_a_central_bucket_would_pass() {
    let scenario = Scenario {
        first: 0..4,
        check: |outcome| {
            nobody_is_refused_wrongly(outcome);
            everybody_sees_everybody(outcome);
        },
        ..Scenario::new("a_newcomer_refuses_nothing_that_a_central_bucket_would_pass", 5, 90)
    }
    .at(60.0, Step::Start(4))
    .load(Load::even("key", BELOW, 2, 90));
    play(&scenario);
}

#[test]
fn a_restarted_node_is_charged_nothing_for_its_past() {
    let scenario = Scenario {
        check: |outcome| {
            nobody_is_refused_wrongly(outcome);
            everybody_sees_everybody(outcome);
        },
        ..Scenario::new("a_restarted_node_is_charged_nothing_for_its_past", 5, 60)
    }
    .at(30.0, Step::Crash(2))
    .at(30.5, Step::Start(2))
    .load(Load::even("key", BELOW, 2, 60));
    play(&scenario);
}

#[test]
fn a_rolling_deploy_refuses_nothing() {
    let mut scenario = Scenario {
        check: |outcome| {
            nobody_is_refused_wrongly(outcome);
            everybody_sees_everybody(outcome);
        },
        ..Scenario::new("a_rolling_deploy_refuses_nothing", 5, 70)
    }
    .load(Load::even("key", BELOW, 2, 70));
    for node in 0..5 {
        let at = 20.0 + 6.0 * node as f64;
        scenario = scenario.at(at, Step::Leave(node)).at(at + 2.0, Step::Start(node));
    }
    play(&scenario);
}

#[test]
fn an_evicted_key_is_learned_anew_without_a_refusal() {
    let scenario = Scenario {
        tune: |config| {
            config.sweeping =
                Some(peerlimit::gossip::Sweeping { key_ttl: Duration::from_secs(5), interval: Duration::from_secs(1) });
        },
        check: |outcome| {
            nobody_is_refused_wrongly(outcome);
            for node in 0..3 {
                assert_eq!(outcome.cluster.table(node).stats().keys, 0, "seed {}: a bucket stayed", outcome.seed);
                assert_eq!(outcome.cluster.engine(node).stats().cells, 0, "seed {}: a cell stayed", outcome.seed);
            }
        },
        ..Scenario::new("an_evicted_key_is_learned_anew_without_a_refusal", 3, 60)
    }
    .load(Load::even("key", BELOW, 2, 12))
    .load(Load::even("key", BELOW, 22, 32))
    .load(Load::even("key", BELOW, 40, 50));
    play(&scenario);
}

#[test]
fn traffic_that_moves_from_one_member_to_another_is_not_refused() {
    let scenario = Scenario {
        check: nobody_is_refused_wrongly,
        ..Scenario::new("traffic_that_moves_from_one_member_to_another_is_not_refused", 3, 60)
    }
    .load(Load::even("key", BELOW, 2, 60).spread(Spread::Moving(Duration::from_secs(7))));
    play(&scenario);
}

#[test]
fn a_flash_stays_close_to_one_central_bucket() {
    let scenario = Scenario {
        check: |outcome| {
            let tally = outcome.tally();
            assert!((0.95..=1.05).contains(&tally.ratio()), "seed {}: {tally:?}", outcome.seed);
            assert!(tally.excess <= 0.5, "seed {}: {tally:?}", outcome.seed);
        },
        ..Scenario::new("a_flash_stays_close_to_one_central_bucket", 10, 20)
    }
    .load(Load::even("key", 1000.0, 5, 20));
    play(&scenario);
}

#[test]
fn a_quiet_key_is_told_while_another_is_hot() {
    let scenario = Scenario {
        quota: Quota::per_second(1000).burst(1000),
        check: |outcome| {
            let quiet = outcome.cluster.digest("quiet");
            let told = outcome.tally_of("quiet").admitted;
            for node in 1..3 {
                // All of the quiet key's permits were admitted at node 0, the last of them a second ago.
                let cells = outcome.cluster.engine(node).log().cells_of(quiet);
                let known: u64 = cells.map(|cell| cell.count.permits).sum();
                assert_eq!(known, told, "seed {}: node {node}", outcome.seed);
            }
        },
        ..Scenario::new("a_quiet_key_is_told_while_another_is_hot", 3, 12)
    }
    .load(Load::even("hot", 5000.0, 3, 12))
    .load(Load::even("quiet", 5.0, 5, 11).spread(Spread::Node(0)));
    play(&scenario);
}
