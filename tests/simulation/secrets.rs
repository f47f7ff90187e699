//! Secrets that come, change and go while a cluster is under load.

use std::time::Duration;

use peerlimit::{
    Sealing, Secrets,
    gossip::{Drops, EngineConfig},
};

use crate::{
    promises::{BELOW, everybody_sees_everybody},
    sim::{
        network::Link,
        play_long,
        scenario::{Load, Outcome, Scenario, Step},
    },
};

const NODES: usize = 5;

fn of(bytes: &[u8]) -> Secrets {
    Secrets::new(bytes.iter().map(|byte| [*byte; 32])).expect("good secrets")
}

fn with_the_old(config: &mut EngineConfig) {
    config.secrets = Some(of(&[1]));
}

/// Stages of a roll-out, each of which goes from node to node, and is through before the next one.
fn rolled_out(mut scenario: Scenario, stages: &[fn() -> Secrets]) -> Scenario {
    for (stage, secrets) in stages.iter().enumerate() {
        for node in 0..NODES {
            let at = 10.0 + 20.0 * stage as f64 + 3.0 * node as f64;
            scenario = scenario.at(at, Step::Secrets(node, *secrets));
        }
    }
    scenario
}

fn no_frame_and_no_member_is_lost(outcome: &mut Outcome) {
    assert_eq!(outcome.tally_of("key").refused_wrongly, 0, "seed {}", outcome.seed);
    let ratio = outcome.tally_of("over").ratio();
    assert!((0.995..=1.005).contains(&ratio), "seed {}: {ratio}", outcome.seed);
    everybody_sees_everybody(outcome);
    for node in 0..NODES {
        let stats = outcome.cluster.engine(node).stats();
        assert_eq!(stats.drops, Drops::default(), "seed {}: node {node}", outcome.seed);
        assert_eq!(stats.syncs_failed, 0, "seed {}: node {node}", outcome.seed);
        assert!(stats.syncs > 50, "seed {}: node {node} had {} exchanges", outcome.seed, stats.syncs);
    }
    assert_eq!(outcome.cluster.members_lost, 0, "seed {}", outcome.seed);
}

/// One key below its quota, told of in flushes, and one far above it, told of in pushes and echoes.
fn under_load(name: &'static str, tune: fn(&mut EngineConfig)) -> Scenario {
    let check = no_frame_and_no_member_is_lost;
    Scenario { tune, check, ..Scenario::new(name, NODES, 80) }
        .load(Load::even("key", BELOW, 2, 80))
        .load(Load::even("over", 500.0, 2, 80))
}

#[test]
fn a_secret_is_replaced_under_load_without_a_frame_or_a_member_lost() {
    let stages: [fn() -> Secrets; 3] = [|| of(&[1, 2]), || of(&[2, 1]), || of(&[2])];
    let name = "a_secret_is_replaced_under_load_without_a_frame_or_a_member_lost";
    play_long(&rolled_out(under_load(name, with_the_old), &stages));
}

#[test]
fn a_live_cluster_gets_its_first_secret_under_load_without_a_frame_or_a_member_lost() {
    let stages: [fn() -> Secrets; 3] =
        [|| of(&[1]).at_stage(Sealing::Prepared), || of(&[1]).at_stage(Sealing::Preferred), || of(&[1])];
    let name = "a_live_cluster_gets_its_first_secret_under_load_without_a_frame_or_a_member_lost";
    play_long(&rolled_out(under_load(name, |_| {}), &stages));
}

#[test]
fn a_secret_is_replaced_where_datagrams_are_lost_doubled_and_overtake_each_other() {
    let stages: [fn() -> Secrets; 3] = [|| of(&[1, 2]), || of(&[2, 1]), || of(&[2])];
    let name = "a_secret_is_replaced_where_datagrams_are_lost_doubled_and_overtake_each_other";
    let link = Link { jitter: 1.0, delay: Duration::from_millis(10), ..Link::LAN.with_duplicates(0.3).with_loss(0.05) };
    let scenario = Scenario {
        check: |outcome| {
            everybody_sees_everybody(outcome);
            for node in 0..NODES {
                let stats = outcome.cluster.engine(node).stats();
                assert_eq!(stats.drops, Drops::default(), "seed {}: node {node}", outcome.seed);
                assert!(stats.duplicates > 0, "seed {}: node {node}", outcome.seed);
            }
        },
        ..under_load(name, with_the_old).on(link)
    };
    play_long(&rolled_out(scenario, &stages));
}

/// The roll-out that the guide warns of: a node that seals before another one knows the secret.
#[test]
fn a_stage_that_is_skipped_shows_in_the_counters() {
    let scenario = Scenario {
        tune: with_the_old,
        check: |outcome| {
            let stats: Vec<_> = (0..NODES).map(|node| outcome.cluster.engine(node).stats()).collect();
            assert!(stats.iter().all(|stats| stats.drops.unknown_secret > 0), "seed {}: {stats:?}", outcome.seed);
            // Given what it lacks, the cluster is whole again.
            everybody_sees_everybody(outcome);
        },
        ..Scenario::new("a_stage_that_is_skipped_shows_in_the_counters", NODES, 90)
    };
    let mut scenario = scenario.at(10.0, Step::Secrets(0, || of(&[2])));
    for node in 0..NODES {
        scenario = scenario.at(40.0, Step::Secrets(node, || of(&[1, 2])));
    }
    play_long(&scenario);
}
