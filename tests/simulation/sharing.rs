//! One quota, however unevenly and seldom it is used.

use std::time::Duration;

use peerlimit::{Quota, gossip::Sweeping};

use crate::{
    promises::nobody_is_refused_wrongly,
    sim::{
        play, play_long,
        scenario::{Load, Outcome, Scenario, Spread},
    },
};

/// Six replicas, of which the first gets half of the requests, the next a quarter, and so on.
fn uneven(name: &'static str, rate: f64) -> Scenario {
    let quota = Quota::new(400, Duration::from_secs(10)).expect("a good quota");
    let scenario = Scenario { quota, ..Scenario::new(name, 6, 75) };
    (0..6).fold(scenario, |scenario, node| {
        let part = rate / f64::from(1 << (node + 1).min(5));
        scenario.load(Load::even("key", part, 5, 75).spread(Spread::Node(node)))
    })
}

#[test]
fn uneven_load_over_six_replicas_admits_one_quota_and_not_one_each() {
    // Four times 400 in ten seconds.
    let scenario = Scenario {
        check: |outcome| {
            // Once the burst of the first window is spent.
            for window in (15..65).step_by(10) {
                let admitted = outcome.admitted("key", window..window + 10);
                let seed = outcome.seed;
                assert!((392..=408).contains(&admitted), "seed {seed}: {admitted} in ten seconds from {window} s");
            }
            outcome.check_bound();
            let ratio = outcome.tally().ratio();
            assert!((0.99..=1.01).contains(&ratio), "seed {}: {ratio} of central", outcome.seed);
        },
        ..uneven("uneven_load_over_six_replicas_admits_one_quota_and_not_one_each", 160.0)
    };
    play_long(&scenario);
}

#[test]
fn uneven_load_below_the_quota_is_refused_by_no_replica() {
    // Nine tenths of 400 in ten seconds, so the first replica has far more than a sixth of them.
    let scenario = Scenario {
        check: |outcome| {
            nobody_is_refused_wrongly(outcome);
            assert_eq!(outcome.tally().refused(), 0, "seed {}", outcome.seed);
        },
        ..uneven("uneven_load_below_the_quota_is_refused_by_no_replica", 36.0)
    };
    play(&scenario);
}

#[test]
fn one_replica_may_use_the_whole_quota_while_the_others_are_idle() {
    let quota = Quota::new(400, Duration::from_secs(10)).expect("a good quota");
    let scenario = Scenario {
        quota,
        check: |outcome| {
            let tally = outcome.tally();
            // Its clock is not that of the central bucket: a permit may come back a moment before a request or after.
            assert!(tally.admitted.abs_diff(tally.central) <= 2, "seed {}: {tally:?}", outcome.seed);
        },
        ..Scenario::new("one_replica_may_use_the_whole_quota_while_the_others_are_idle", 6, 75)
    }
    .load(Load::even("key", 160.0, 5, 75).spread(Spread::Node(3)));
    play_long(&scenario);
}

/// 1/s, burst 10: spent, idle for 30 s, then a thousand requests within a second, over and over.
fn idle_spells(name: &'static str) -> Scenario {
    let quota = Quota::per_second(1).burst(10);
    let scenario = Scenario { quota, check: one_credit_a_spell, ..Scenario::new(name, 5, 170) };
    (0..5).fold(scenario, |scenario, spell| {
        let from = 10 + 31 * spell;
        scenario.load(Load::even("key", 1_000.0, from, from + 1))
    })
}

fn one_credit_a_spell(outcome: &mut Outcome) {
    for spell in 0..5 {
        let from = 10 + 31 * spell;
        let admitted = outcome.admitted("key", from..from + 1);
        // One bucket gives 10 or 11. What is spent elsewhere within a millisecond and a half is not known yet.
        let seed = outcome.seed;
        assert!((10..=16).contains(&admitted), "seed {seed}: {admitted} after spell {spell}, of one credit of 10");
    }
    outcome.check_bound();
}

#[test]
fn credit_for_an_idle_spell_is_granted_once_by_all_nodes_together() {
    play_long(&idle_spells("credit_for_an_idle_spell_is_granted_once_by_all_nodes_together"));
}

#[test]
fn credit_for_an_idle_spell_is_granted_once_also_if_the_key_is_evicted_meanwhile() {
    let scenario = Scenario {
        tune: |config| {
            config.sweeping = Some(Sweeping { key_ttl: Duration::from_secs(5), interval: Duration::from_secs(1) });
        },
        check: |outcome| {
            one_credit_a_spell(outcome);
            let evicted = (0..5).map(|node| outcome.cluster.table(node).stats().idle).min();
            assert!(evicted >= Some(4), "seed {}: the key was evicted {evicted:?} times", outcome.seed);
        },
        ..idle_spells("credit_for_an_idle_spell_is_granted_once_also_if_the_key_is_evicted_meanwhile")
    };
    play_long(&scenario);
}
