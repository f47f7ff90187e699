//! What happens when members cannot reach each other.

use std::time::Duration;

use peerlimit::{PartitionPolicy, gossip::EngineConfig};

use crate::{
    promises::{BELOW, everybody_sees_everybody, nobody_is_refused_wrongly},
    sim::{
        network::{Cut, Link},
        play, play_long,
        scenario::{Load, Scenario, Step},
    },
};

#[test]
fn a_healed_partition_refuses_nothing_for_what_was_consumed_meanwhile() {
    let scenario = Scenario {
        cuts: vec![Cut::between(20, 80, 0..2, 2..5)],
        check: |outcome| {
            nobody_is_refused_wrongly(outcome);
            everybody_sees_everybody(outcome);
        },
        ..Scenario::new("a_healed_partition_refuses_nothing_for_what_was_consumed_meanwhile", 5, 120)
    }
    .load(Load::even("key", BELOW, 2, 120));
    play(&scenario);
}

#[test]
fn an_overloaded_partition_admits_one_quota_a_part_and_heals_into_one() {
    let scenario = Scenario {
        cuts: vec![Cut::between(20, 80, 0..2, 2..5)],
        check: |outcome| {
            everybody_sees_everybody(outcome);
            let during = outcome.admitted("key", 20..80);
            assert!(during <= 2 * 6000 + 2 * 50, "seed {}: {during} in 60 s", outcome.seed);
            // Members meet within some three seconds, and one refill time later there is one quota again.
            // The rate over five seconds: one second has a flash's few permits more or less.
            for second in 84..115 {
                let admitted = outcome.admitted("key", second..second + 5);
                assert!((490..=510).contains(&admitted), "seed {}: {admitted} in 5 s from {second} s", outcome.seed);
            }
        },
        ..Scenario::new("an_overloaded_partition_admits_one_quota_a_part_and_heals_into_one", 5, 120)
    }
    .load(Load::even("key", 400.0, 2, 120));
    play(&scenario);
}

fn conservative(config: &mut EngineConfig) {
    config.on_partition = PartitionPolicy::Conservative;
}

#[test]
fn conservative_parts_together_stay_within_the_quota_once_the_loss_is_noticed() {
    let scenario = Scenario {
        cuts: vec![Cut::between(20, 80, 0..4, 4..10)],
        tune: conservative,
        check: |outcome| {
            everybody_sees_everybody(outcome);
            // A probe of each of the others, and the time to contradict.
            let during = outcome.admitted("key", 35..80);
            assert!(during as f64 <= 1.1 * 4500.0, "seed {}: {during} in 45 s", outcome.seed);
            assert!(during as f64 >= 0.9 * 4500.0, "seed {}: {during} in 45 s", outcome.seed);
            let after = outcome.admitted("key", 100..120);
            assert!((1960..=2040).contains(&after), "seed {}: {after} in 20 s", outcome.seed);
        },
        ..Scenario::new("conservative_parts_together_stay_within_the_quota_once_the_loss_is_noticed", 10, 120)
    }
    .load(Load::even("key", 400.0, 2, 120));
    play_long(&scenario);
}

#[test]
fn a_planned_departure_shrinks_no_quota() {
    let scenario = Scenario {
        tune: conservative,
        check: |outcome| {
            let after = outcome.admitted("key", 20..40);
            assert!((1960..=2040).contains(&after), "seed {}: {after} in 20 s", outcome.seed);
        },
        ..Scenario::new("a_planned_departure_shrinks_no_quota", 6, 40)
    }
    .load(Load::even("key", 400.0, 2, 40));
    let scenario = (0..4).fold(scenario, |scenario, node| scenario.at(10.0 + node as f64, Step::Leave(node)));
    play(&scenario);
}

#[test]
fn a_member_that_crashed_is_given_up_in_the_end() {
    let scenario = Scenario {
        tune: conservative,
        check: |outcome| {
            let missed = outcome.admitted("key", 100..110);
            assert!((480..=520).contains(&missed), "seed {}: {missed} in 10 s while half is missed", outcome.seed);
            let given_up = outcome.admitted("key", 340..350);
            assert!((980..=1020).contains(&given_up), "seed {}: {given_up} in 10 s after that", outcome.seed);
        },
        ..Scenario::new("a_member_that_crashed_is_given_up_in_the_end", 4, 350)
    }
    .at(10.0, Step::Crash(0))
    .at(10.0, Step::Crash(1))
    .load(Load::even("key", 300.0, 95, 110))
    .load(Load::even("key", 300.0, 335, 350));
    play_long(&scenario);
}

#[test]
fn one_way_loss_between_two_nodes_neither_splits_the_cluster_nor_stops_the_news() {
    let scenario = Scenario {
        cuts: vec![Cut { one_way: true, ..Cut::between(10, 70, [0], [1]) }],
        check: |outcome| {
            nobody_is_refused_wrongly(outcome);
            everybody_sees_everybody(outcome);
        },
        ..Scenario::new("one_way_loss_between_two_nodes_neither_splits_the_cluster_nor_stops_the_news", 5, 90)
    }
    .load(Load::even("key", BELOW, 2, 90));
    play(&scenario);
}

#[test]
fn a_cut_that_outlasts_the_memory_of_the_dead_heals_without_help() {
    let scenario = Scenario {
        cuts: vec![Cut::between(20, 140, 0..2, 2..5)],
        tune: |config| config.swim.forget_after = Duration::from_secs(30),
        check: |outcome| {
            nobody_is_refused_wrongly(outcome);
            everybody_sees_everybody(outcome);
        },
        ..Scenario::new("a_cut_that_outlasts_the_memory_of_the_dead_heals_without_help", 5, 160)
    }
    .load(Load::even("key", BELOW, 2, 160));
    play_long(&scenario);
}

#[test]
fn a_link_that_flaps_leaves_one_cluster_behind() {
    let flap = |begin: u64| Cut::between(begin, begin + 4, [0, 1], [2, 3, 4]);
    let scenario = Scenario {
        link: Link::LAN.with_loss(0.05),
        cuts: (10..60).step_by(7).map(flap).collect(),
        check: |outcome| {
            nobody_is_refused_wrongly(outcome);
            everybody_sees_everybody(outcome);
        },
        ..Scenario::new("a_link_that_flaps_leaves_one_cluster_behind", 5, 90)
    }
    .load(Load::even("key", BELOW, 2, 90));
    play_long(&scenario);
}
