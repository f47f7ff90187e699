//! Permits that are given back.

use std::time::Duration;

use peerlimit::Quota;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

use crate::sim::{cluster::Cluster, network::Link, play_seeds};

const NODES: usize = 5;
/// Nothing to speak of comes back during a test, so that counts can be compared.
const QUOTA: Quota = Quota::per_day(1000);

fn started(seed: u64, link: Link) -> Cluster {
    let mut cluster = Cluster::new(seed, NODES, QUOTA, link, |_| {});
    for node in 0..NODES {
        cluster.start(node);
    }
    cluster.run_for(Duration::from_secs(5));
    cluster
}

#[test]
fn what_is_given_back_is_there_again_at_every_node_and_stays() {
    play_seeds("what_is_given_back_is_there_again_at_every_node_and_stays", 50, |seed, _| {
        let mut cluster = started(seed, Link::LAN);
        let key = cluster.digest("key");
        for request in 0..500 {
            assert!(cluster.check(request % NODES, key));
            cluster.run_for(Duration::from_millis(1));
        }
        cluster.run_for(Duration::from_secs(1));
        // Not where they were consumed.
        cluster.refund(1, key, 150);
        cluster.refund(2, key, 50);
        // Several exchanges long nobody takes a level that leaves a refund out for the better estimate.
        for second in 1..=10 {
            cluster.run_for(Duration::from_secs(1));
            for node in 0..NODES {
                assert_eq!(cluster.remaining(node, key), 700, "seed {seed}: node {node} after {second} s");
            }
        }
    });
}

#[test]
fn requests_that_are_all_given_back_leave_the_quota_to_others() {
    play_seeds("requests_that_are_all_given_back_leave_the_quota_to_others", 20, |seed, _| {
        let mut cluster = started(seed, Link::LAN);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let key = cluster.digest("key");
        // Three quotas of failures, each given back within a second.
        let mut open = Vec::new();
        for _ in 0..3000 {
            let node = rng.random_range(0..NODES);
            assert!(cluster.check(node, key), "seed {seed}: refused with {} open", open.len());
            open.push(node);
            if open.len() > 300 {
                let node = open.swap_remove(rng.random_range(0..open.len()));
                cluster.refund(node, key, 1);
            }
            cluster.run_for(Duration::from_millis(3));
        }
        for node in open {
            cluster.refund(node, key, 1);
        }
        cluster.run_for(Duration::from_secs(2));
        for node in 0..NODES {
            let left = cluster.remaining(node, key);
            assert!(left >= 995, "seed {seed}: node {node} believes {left} left");
        }
    });
}

#[test]
fn a_lost_refund_is_heard_of_by_an_exchange() {
    play_seeds("a_lost_refund_is_heard_of_by_an_exchange", 50, |seed, _| {
        let mut cluster = started(seed, Link::LAN);
        let key = cluster.digest("key");
        for _ in 0..400 {
            assert!(cluster.check(0, key));
        }
        cluster.run_for(Duration::from_secs(1));
        // No datagram arrives, but streams do.
        cluster.link.loss = 1.0;
        cluster.refund(0, key, 100);
        cluster.run_for(Duration::from_millis(400));
        cluster.link.loss = 0.0;
        cluster.run_for(Duration::from_secs(8));
        for node in 0..NODES {
            assert_eq!(cluster.remaining(node, key), 700, "seed {seed}: node {node}");
        }
    });
}
