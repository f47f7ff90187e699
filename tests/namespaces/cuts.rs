//! The cable is cut: both ways, one way, and again and again.

use crate::{
    cluster::{ABOVE, BELOW, Cluster, Loads, REFILL},
    host::Host,
};

#[test]
fn each_side_of_a_cut_limits_alone_and_both_are_one_again_after_it() {
    let Some(mut cluster) = Cluster::start() else { return };
    cluster.offer(ABOVE, 0.5);

    cluster.hosts.iter().for_each(Host::cut);
    let mut cut = cluster.offer_until("each side sees itself only", ABOVE, Cluster::is_split);
    println!("alone after {:.1} s", cut.all().seconds());
    // Ten refill times, and three times what it takes to be held down.
    cut.add(cluster.offer(ABOVE, 5.0));
    cut.is_one_quota_a_side();

    cluster.hosts.iter().for_each(Host::heal);
    let healing = cluster.offer_until("everybody sees everybody again", ABOVE, Cluster::is_whole);
    println!("healed after {:.1} s", healing.all().seconds());
    cluster.keeps_its_quota();
}

#[test]
fn a_cut_in_one_direction_splits_the_cluster_once_and_refuses_nobody() {
    let Some(mut cluster) = Cluster::start() else { return };
    // The second host hears nothing of the first one, which hears everything of the second.
    cluster.hosts[1].cut();
    let settling = cluster.offer_until("each side sees itself only", BELOW, Cluster::is_split);
    settling.is_not_refused("while a direction is cut");

    let flaps = |cluster: &Cluster| ["member up", "member down", "rejoined"].map(|words| cluster.logged(words));
    let before = flaps(&cluster);
    // What the buckets held is no part of the quota.
    cluster.offer(ABOVE, REFILL);
    let mut apart = Loads::default();
    for _ in 0..10 {
        apart.add(cluster.offer(ABOVE, 0.5));
        assert!(cluster.is_split(), "a side sees more or less than itself");
    }
    apart.is_one_quota_a_side();
    println!(
        "came, went, rejoined: {before:?} until alone, {:?} after {:.1} s",
        flaps(&cluster),
        apart.all().seconds()
    );
    assert_eq!(flaps(&cluster), before, "members come and go while nothing changes");

    cluster.refills();
    cluster.hosts[1].heal();
    let healing = cluster.offer_until("everybody sees everybody again", BELOW, Cluster::is_whole);
    healing.is_not_refused("until everybody sees everybody again");
    cluster.offer(BELOW, 1.0).is_not_refused("together again");
    cluster.keeps_its_quota();
}

#[test]
fn a_link_that_flaps_leaves_one_cluster_that_keeps_its_quota() {
    let Some(mut cluster) = Cluster::start() else { return };
    let mut flapping = Loads::default();
    for _ in 0..6 {
        cluster.hosts.iter().for_each(Host::cut);
        // Long enough for some to be held down, and not for all.
        flapping.add(cluster.offer(BELOW, 1.2));
        cluster.hosts.iter().for_each(Host::heal);
        flapping.add(cluster.offer(BELOW, 1.0));
    }
    println!("{} times a member was lost, {} rejoined", cluster.logged("member down"), cluster.logged("rejoined"));
    flapping.add(cluster.offer_until("everybody sees everybody again", BELOW, Cluster::is_whole));
    flapping.is_not_refused("while the link flaps");
    cluster.keeps_its_quota();
}
