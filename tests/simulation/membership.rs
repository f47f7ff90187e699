//! Who is a member, from moment to moment: not only in the end.

use std::{collections::BTreeSet, time::Duration};

use peerlimit::{
    Quota,
    crdt::DigestKey,
    gossip::{
        EngineConfig,
        wire::{ClusterId, NodeName},
    },
};

use crate::sim::{
    cluster::{Cluster, addr_of},
    network::{Cut, Link},
    play_seeds,
};

const QUOTA: Quota = Quota::per_second(100).burst(50);
/// Comes back so slowly that counts can be compared.
const SLOW: Quota = Quota::every(Duration::from_secs(30 * 60)).burst(100_000);
const SECS: fn(u64) -> Duration = Duration::from_secs;

/// So many nodes, the first `started` of which know each other.
fn cluster(seed: u64, trace: bool, nodes: usize, started: usize, tune: fn(&mut EngineConfig)) -> Cluster {
    let mut cluster = Cluster::new(seed, nodes, QUOTA, Link::LAN, tune);
    cluster.trace = trace;
    (0..started).for_each(|node| cluster.start(node));
    cluster.run_until_it_holds("everybody sees everybody at first", SECS(20), Cluster::all_see_all);
    // What is new about members has to die down.
    cluster.run_for(SECS(5));
    cluster
}

/// Lets time pass, and looks all the while that nobody lists two members at one address.
fn watched(cluster: &mut Cluster, time: Duration) {
    let end = cluster.now + time;
    while cluster.now < end {
        cluster.run_for(Duration::from_millis(100).min(end - cluster.now));
        for node in cluster.running_nodes() {
            let members = cluster.engine(node).members();
            let addrs: BTreeSet<_> = members.iter().map(|member| member.addr).collect();
            assert_eq!(addrs.len(), members.len(), "node {node} at {:?} lists {members:?}", cluster.now);
        }
    }
}

/// Cuts the cluster into these parts for so long, and returns how long it takes after the heal until all see all.
fn heals(cluster: &mut Cluster, parts: &[&[usize]], time: Duration) -> Duration {
    let (from, until) = (cluster.now, cluster.now + time);
    let pairs = (0..parts.len()).flat_map(|a| (a + 1..parts.len()).map(move |b| (a, b)));
    cluster.cuts =
        pairs.map(|(a, b)| Cut { from, until, a: parts[a].to_vec(), b: parts[b].to_vec(), one_way: false }).collect();
    watched(cluster, time);
    // Whoever is cut off for long is known to be.
    if time >= SECS(60) {
        for part in parts {
            assert!(cluster.see_each_other(part), "{part:?} sees somebody else after {time:?}");
        }
    }
    cluster.run_until_it_holds("everybody sees everybody again", SECS(30), Cluster::all_see_all)
}

const HALVES: &[&[usize]] = &[&[0, 1, 2], &[3, 4, 5]];
const ONE_OFF: &[&[usize]] = &[&[0, 1, 2, 3, 4], &[5]];
const THREE: &[&[usize]] = &[&[0], &[1, 2, 3], &[4, 5]];
const ALL_APART: &[&[usize]] = &[&[0], &[1], &[2], &[3], &[4], &[5]];

#[test]
fn a_cut_of_any_length_is_healed_within_seconds() {
    play_seeds("a_cut_of_any_length_is_healed_within_seconds", 10, |seed, trace| {
        for parts in [HALVES, ONE_OFF, THREE, ALL_APART] {
            let mut cluster = cluster(seed, trace, 6, 6, |_| {});
            for time in [2, 10, 120] {
                let took = heals(&mut cluster, parts, SECS(time));
                assert!(took <= SECS(5), "{took:?} after {parts:?} were apart for {time} s");
                cluster.run_for(SECS(5));
            }
        }
    });
}

#[test]
fn a_cut_that_outlasts_the_memory_of_the_dead_is_healed_by_the_next_discovery() {
    play_seeds("a_cut_that_outlasts_the_memory_of_the_dead_is_healed_by_the_next_discovery", 10, |seed, trace| {
        for parts in [HALVES, ONE_OFF, THREE, ALL_APART] {
            let mut cluster = cluster(seed, trace, 6, 6, |config| config.swim.forget_after = SECS(30));
            let took = heals(&mut cluster, parts, SECS(120));
            // Discovery comes every ten seconds.
            assert!(took <= SECS(12), "{took:?} after {parts:?} were apart");
        }
    });
}

#[test]
fn of_many_that_join_at_once_none_is_ready_without_what_was_spent() {
    play_seeds("of_many_that_join_at_once_none_is_ready_without_what_was_spent", 20, |seed, trace| {
        for (old, new) in [(1, 1), (2, 10), (5, 5)] {
            let mut cluster = cluster(seed, trace, old + new, old, |_| {});
            cluster.add_scope("slow", SLOW);
            assert!(cluster.spend(0, "slow", "key", 60_000));
            cluster.run_for(SECS(10));
            (old..old + new).for_each(|node| cluster.start(node));
            cluster.add_scope("slow", SLOW);
            let began = cluster.now;
            let mut ready = BTreeSet::new();
            while ready.len() < new {
                cluster.run_for(Duration::from_millis(1));
                let took = cluster.now - began;
                assert!(took < SECS(3), "{} of {new} are ready after {took:?}", ready.len());
                for node in cluster.serving().into_iter().filter(|node| *node >= old) {
                    if ready.insert(node) {
                        let left = cluster.remaining_in(node, "slow", "key");
                        assert!(
                            left <= 40_001,
                            "{old} + {new}: node {node} is ready after {took:?}, and has {left} left"
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn a_cluster_that_starts_as_a_whole_is_ready_within_a_second() {
    play_seeds("a_cluster_that_starts_as_a_whole_is_ready_within_a_second", 20, |seed, trace| {
        let mut cluster = Cluster::new(seed, 8, QUOTA, Link::LAN, |_| {});
        cluster.trace = trace;
        (0..8).for_each(|node| cluster.start(node));
        let took = cluster.run_until_it_holds("all are ready", SECS(3), |cluster| cluster.serving().len() == 8);
        assert!(took <= SECS(1), "{took:?}");
    });
}

#[test]
fn a_restart_is_a_newcomer_at_once_and_nobody_keeps_it_dead() {
    play_seeds("a_restart_is_a_newcomer_at_once_and_nobody_keeps_it_dead", 20, |seed, trace| {
        // All of one name.
        let mut cluster = cluster(seed, trace, 5, 5, |config| config.name = NodeName::default());
        // While the others hold it alive, suspect it, and hold it dead; and after a good-bye.
        for (round, pause) in [0.0, 0.05, 1.0, 2.5, 4.0, 15.0, 90.0].into_iter().enumerate() {
            for leaves in [false, true] {
                let node = round % 5;
                if leaves {
                    cluster.leave(node);
                    let most = SECS(2);
                    let is_gone = |cluster: &Cluster| !cluster.running_nodes().contains(&node);
                    cluster.run_until_it_holds("it has left", most, is_gone);
                } else {
                    cluster.crash(node);
                }
                watched(&mut cluster, Duration::from_secs_f64(pause));
                cluster.start(node);
                let what = format!("{pause} s after node {node} went, good-bye {leaves}, all see its new run");
                cluster.run_until_it_holds(&what, SECS(2), Cluster::all_see_all);
                watched(&mut cluster, SECS(10));
                assert!(cluster.all_see_all(), "somebody has second thoughts of node {node}");
            }
        }
    });
}

#[test]
fn a_node_that_comes_back_at_another_address_under_its_name_is_there_at_once() {
    play_seeds("a_node_that_comes_back_at_another_address_under_its_name_is_there_at_once", 20, |seed, trace| {
        let mut cluster = cluster(seed, trace, 12, 5, |config| config.name = NodeName::default());
        for fresh in 5..12 {
            let gone = fresh - 5;
            let before = cluster.engine(gone).identity().run;
            cluster.crash(gone);
            cluster.start(fresh);
            let running = cluster.running_nodes();
            cluster.run_until_it_holds("all see the newcomer", SECS(2), |cluster| {
                let run = cluster.engine(fresh).identity().run;
                let sees = |node: &usize, run| cluster.engine(*node).members().iter().any(|member| member.run == run);
                running.iter().filter(|node| **node != fresh).all(|node| sees(node, run))
            });
            // And in a while nobody sees the one that is gone.
            let took = cluster.run_until_it_holds("all see the living", SECS(20), Cluster::all_see_all);
            assert!(took > Duration::ZERO || running.len() < 2, "{before} was given up without a probe");
        }
    });
}

#[test]
fn all_nodes_that_restart_within_two_seconds_see_each_other_soon_after_each_time() {
    play_seeds("all_nodes_that_restart_within_two_seconds_see_each_other_soon_after_each_time", 10, |seed, trace| {
        let mut cluster = cluster(seed, trace, 8, 8, |_| {});
        for _ in 0..10 {
            for node in 0..8 {
                cluster.crash(node);
                watched(&mut cluster, Duration::from_millis(100));
                cluster.start(node);
                watched(&mut cluster, Duration::from_millis(150));
            }
            cluster.run_until_it_holds("all see all after a restart of all", SECS(5), Cluster::all_see_all);
        }
    });
}

#[test]
fn one_way_loss_between_two_nodes_makes_no_member_flap_and_news_goes_around() {
    play_seeds("one_way_loss_between_two_nodes_makes_no_member_flap_and_news_goes_around", 10, |seed, trace| {
        let mut cluster = cluster(seed, trace, 5, 5, |_| {});
        cluster.add_scope("slow", SLOW);
        let lost = cluster.members_lost;
        let (from, until) = (cluster.now, cluster.now + SECS(600));
        cluster.cuts = vec![Cut { from, until, a: vec![0], b: vec![1], one_way: true }];
        let (mut spent, mut longest) = (0, Duration::ZERO);
        while cluster.now < until {
            assert!(cluster.spend(0, "slow", "key", 10));
            spent += 10;
            let left = 100_000 - spent;
            let knows = |cluster: &Cluster| cluster.remaining_in(1, "slow", "key") == left;
            let took = cluster.run_until_it_holds("the deaf node hears of it from others", SECS(30), knows);
            longest = longest.max(took);
            cluster.run_for(SECS(20));
        }
        let lost = cluster.members_lost - lost;
        assert_eq!(lost, 0, "members were lost in ten minutes, news took {longest:?} at most");
        assert!(cluster.all_see_all());
    });
}

/// Node 2 and those from 4 on that start after two minutes are of another cluster.
fn by_address_and_age(config: &mut EngineConfig) {
    let later = config.started > 60_000;
    if later && (config.advertise == addr_of(2) || config.advertise == addr_of(4) || config.advertise == addr_of(5)) {
        config.cluster = ClusterId::new(&DigestKey::PUBLIC, "green");
    }
}

#[test]
fn an_address_that_goes_from_one_cluster_to_another_takes_nothing_along() {
    play_seeds("an_address_that_goes_from_one_cluster_to_another_takes_nothing_along", 20, |seed, trace| {
        // How long the address is free: the old peers hold it alive, suspect, dead.
        for pause in [0, 3, 30] {
            let mut cluster = cluster(seed, trace, 6, 4, by_address_and_age);
            cluster.run_until(SECS(70));
            // A second cluster on the same network, whose discovery finds the first one's addresses too.
            cluster.start(4);
            cluster.start(5);
            cluster.run_for(SECS(15));
            assert!(cluster.see_each_other(&[0, 1, 2, 3]) && cluster.see_each_other(&[4, 5]));
            cluster.add_scope("slow", SLOW);
            assert!(cluster.spend(0, "slow", "key", 10) && cluster.spend(4, "slow", "key", 1_000));
            cluster.crash(2);
            cluster.run_for(SECS(pause));
            cluster.start(2);
            cluster.add_scope("slow", SLOW);
            let moved = |cluster: &Cluster| cluster.see_each_other(&[2, 4, 5]);
            cluster.run_until_it_holds("the address is one of the other cluster", SECS(12), moved);
            let given_up = |cluster: &Cluster| cluster.see_each_other(&[0, 1, 3]);
            cluster.run_until_it_holds("its old cluster gives it up", SECS(20), given_up);
            assert!(cluster.spend(2, "slow", "key", 100));
            cluster.run_for(SECS(60));
            assert!(cluster.see_each_other(&[0, 1, 3]) && cluster.see_each_other(&[2, 4, 5]), "they mix in the end");
            for (nodes, spent) in [([0, 1, 3], 10), ([2, 4, 5], 1_100)] {
                for node in nodes {
                    let (left, stats) = (cluster.remaining_in(node, "slow", "key"), cluster.engine(node).stats());
                    assert_eq!(left, 100_000 - spent, "node {node}, after {pause} s");
                    assert!(stats.drops.foreign_cluster > 0, "node {node} heard nothing of the other cluster");
                    assert_eq!(stats.drops.total(), stats.drops.foreign_cluster, "node {node}: {:?}", stats.drops);
                }
            }
        }
    });
}

/// Nodes leave one after the other, each asked for permits until it is gone.
fn leave_under_load(seed: u64, trace: bool, link: Link) {
    let mut cluster = cluster(seed, trace, 5, 5, |_| {});
    cluster.link = link;
    cluster.add_scope("slow", SLOW);
    let mut spent = 0;
    for leaver in 0..3 {
        // A thousand a second at each.
        let begin = cluster.now;
        let mut gone = None;
        while cluster.now < begin + SECS(4) {
            for node in cluster.running_nodes() {
                spent += u64::from(cluster.spend(node, "slow", "key", 1));
            }
            cluster.run_for(Duration::from_millis(1));
            if cluster.now >= begin + SECS(1) && cluster.serving().contains(&leaver) {
                cluster.leave(leaver);
            }
            if cluster.all_see_all() && !cluster.running_nodes().contains(&leaver) {
                gone = gone.or(Some(cluster.now - begin - SECS(1)));
            }
        }
        let gone = gone.expect("it leaves");
        assert!(gone <= SECS(2), "node {leaver} was seen for {gone:?} after it left");
        // No load, and some exchanges.
        cluster.run_for(SECS(3));
        for node in cluster.running_nodes() {
            let (known, drops) =
                (100_000 - cluster.remaining_in(node, "slow", "key"), cluster.engine(node).stats().drops);
            assert_eq!(known, spent, "node {node} does not know what was spent: {drops:?}");
        }
    }
}

#[test]
fn a_node_that_leaves_under_load_is_gone_within_two_seconds_and_what_it_admitted_is_known() {
    let name = "a_node_that_leaves_under_load_is_gone_within_two_seconds_and_what_it_admitted_is_known";
    let in_order = Link { jitter: 0.0, ..Link::LAN };
    play_seeds(name, 20, |seed, trace| leave_under_load(seed, trace, in_order));
}

#[test]
fn what_a_node_admitted_under_load_until_it_left_is_known_where_datagrams_overtake_each_other() {
    let name = "what_a_node_admitted_under_load_until_it_left_is_known_where_datagrams_overtake_each_other";
    play_seeds(name, 20, |seed, trace| leave_under_load(seed, trace, Link::LAN));
}
