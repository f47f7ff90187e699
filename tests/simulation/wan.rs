//! Members in several regions, at the pace for that.

use std::time::Duration;

use peerlimit::{
    Quota,
    gossip::{EngineConfig, Pace},
};

use crate::{
    promises::nobody_is_refused_wrongly,
    sim::{
        cluster::Cluster,
        network::Link,
        play, play_seeds,
        scenario::{Load, Scenario},
    },
};

const QUOTA: Quota = Quota::per_second(100).burst(50);
/// Halfway around the world, one way, with 1 % lost.
const FAR: Link = Link { delay: Duration::from_millis(150), jitter: 0.2, loss: 0.01, duplicate: 0.0 };
const SECS: fn(u64) -> Duration = Duration::from_secs;

fn wan(config: &mut EngineConfig) {
    *config = config.clone().at_pace(Pace::WAN);
}

/// How often in ten minutes a member that is well was held down by somebody.
fn lost_members(seed: u64, trace: bool, tune: fn(&mut EngineConfig)) -> u32 {
    let mut cluster = Cluster::new(seed, 6, QUOTA, FAR, tune);
    cluster.trace = trace;
    (0..6).for_each(|node| cluster.start(node));
    cluster.run_until_it_holds("everybody sees everybody at first", SECS(60), Cluster::all_see_all);
    cluster.run_for(SECS(10));
    let mut lost = 0;
    for _ in 0..600 {
        cluster.run_for(SECS(1));
        lost += u32::from(!cluster.all_see_all());
    }
    lost
}

#[test]
fn members_half_a_world_apart_are_never_taken_for_dead() {
    play_seeds("members_half_a_world_apart_are_never_taken_for_dead", 10, |seed, trace| {
        assert_eq!(lost_members(seed, trace, wan), 0);
    });
}

#[test]
fn a_cluster_half_a_world_wide_refuses_nothing_wrongly_below_its_quota() {
    let scenario = Scenario {
        link: FAR,
        tune: wan,
        check: nobody_is_refused_wrongly,
        ..Scenario::new("a_cluster_half_a_world_wide_refuses_nothing_wrongly_below_its_quota", 6, 60)
    }
    .load(Load::even("key", 50.0, 10, 60));
    play(&scenario);
}
