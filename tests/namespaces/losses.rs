//! Packets get lost, over the cable and within each host.

use crate::{
    cluster::{ALL, BURST, Cluster, RATE},
    host::Host,
};

/// Offers ten times the quota while `probability` of the packets are lost. What is admitted has to be within
/// `tolerance` of what a central bucket admits, and never further above the envelope than `most` bursts.
fn loses(cluster: &mut Cluster, probability: f64, tolerance: f64, most: f64) {
    cluster.hosts.iter().for_each(|host| host.lose(probability));
    let load = cluster.offer(1000 / ALL as u32, 10.0).all();
    let lost: u64 = cluster.hosts.iter().map(Host::lost).sum();
    let central = BURST + RATE * load.seconds();
    let ratio = load.admitted() as f64 / central;
    let excess = load.excess(RATE, BURST) / BURST;
    println!(
        "{lost} packets lost, {:.3} s: admitted {} of {} where a central bucket admits {central:.1}, ratio {ratio:.4}, \
         excess {excess:.3} bursts",
        load.seconds(),
        load.admitted(),
        load.offered(),
    );
    assert!(lost > 0, "the rule bit nothing");
    assert!((ratio - 1.0).abs() <= tolerance, "{ratio} of what a central bucket admits");
    assert!(excess <= most, "{excess} bursts above the envelope");
}

#[test]
fn a_tenth_of_the_packets_lost_does_not_show_in_what_is_admitted() {
    let Some(mut cluster) = Cluster::start() else { return };
    loses(&mut cluster, 0.1, 0.01, 0.5);
}

#[test]
fn three_packets_of_ten_lost_cost_neither_the_quota_nor_a_member() {
    let Some(mut cluster) = Cluster::start() else { return };
    loses(&mut cluster, 0.3, 0.02, 0.5);
    println!("{} times a member was lost, {} rejoined", cluster.logged("member down"), cluster.logged("rejoined"));
    // The losses go on.
    cluster.meets();
}
