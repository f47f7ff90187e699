//! Rolling deploys, as Kubernetes does them: five pods, each on a host of its own, are replaced one by one while clients go on.

use std::time::{Duration, Instant};

use crate::{
    node_process::eventually,
    pods::{Pod, Pods, Publish, Quota, SECOND_LOOK, Service, are_whole},
    switch::Families,
};

const PODS: u8 = 5;
/// Requests a second over all pods: 80 % of the quota, and four times the quota.
const BELOW: u32 = 80;
const ABOVE: u32 = 400;

/// Below the quota little room is left, so that what is counted twice shows.
fn burst(rate: u32) -> u32 {
    if rate == BELOW { 20 } else { 50 }
}

/// Pods that limit to 100 a second.
fn network(publish: Publish, rate: u32) -> Option<Pods> {
    Some(Pods::start(publish, Families::V4)?.quota(Quota { rate: "100/s", burst: burst(rate) }))
}

/// Five pods that are one cluster. None has asked DNS more than once.
fn deployed(pods: &mut Pods) -> Vec<Pod> {
    let begin = Instant::now();
    let mut all = Vec::new();
    for number in 1..=PODS {
        let mut pod = pods.pod(number);
        assert_eq!(pod.node.ask("ready"), "ready");
        pods.is_ready(&pod);
        all.push(pod);
    }
    eventually("the first pods see each other", || are_whole(&mut all));
    println!("one cluster of {PODS} after {:.1?}", begin.elapsed());
    assert!(begin.elapsed() < SECOND_LOOK, "they only found each other at the second look");
    all
}

/// Replaces all pods, one by one, each by one with another address, which is there before the old one goes.
fn rolls(publish: Publish, rate: u32) {
    let Some(mut pods) = network(publish, rate) else { return };
    let mut service = Service::new(deployed(&mut pods), rate, burst(rate));
    service.rounds(2);
    for number in PODS + 1..=2 * PODS {
        let mut new = service.round(|| {
            let mut new = pods.pod(number);
            // As the readiness probe does, and nobody sends requests before it says so.
            assert_eq!(new.node.ask("ready"), "ready");
            pods.is_ready(&new);
            new
        });
        let members = new.node.names().len();
        assert_eq!(members, usize::from(PODS) + 1, "a pod was ready before it knew of the others");
        service.pods.push(new);
        // It serves, and so does the old one, which goes on for a while when it was told to end.
        service.rounds(1);
        pods.is_leaving(&service.pods[0]);
        service.rounds(1);
        let old = service.pods.remove(0);
        service.round(|| pods.end(old));
    }
    service.rounds(2);
    service.is_one_bucket(&format!("{publish:?}, {rate}/s"));
    assert!(are_whole(&mut service.pods), "members that are gone are remembered, or others were lost");
    assert!(pods.asked() >= 2 * 2 * usize::from(PODS), "pods found each other without DNS");
}

#[test]
fn a_deploy_below_the_quota_refuses_nobody_where_ready_pods_are_published() {
    rolls(Publish::Ready, BELOW);
}

#[test]
fn a_deploy_below_the_quota_refuses_nobody_where_all_pods_are_published() {
    rolls(Publish::NotReadyToo, BELOW);
}

#[test]
fn a_deploy_above_the_quota_admits_what_one_bucket_does_where_ready_pods_are_published() {
    rolls(Publish::Ready, ABOVE);
}

#[test]
fn a_deploy_above_the_quota_admits_what_one_bucket_does_where_all_pods_are_published() {
    rolls(Publish::NotReadyToo, ABOVE);
}

/// Replaces all pods, one by one, each by one that gets its address, so the old one goes first.
fn replaces_in_place(rate: u32) {
    let Some(mut pods) = network(Publish::Ready, rate) else { return };
    let mut service = Service::new(deployed(&mut pods), rate, burst(rate));
    service.rounds(2);
    for number in 1..=PODS {
        pods.is_leaving(&service.pods[0]);
        service.rounds(1);
        let old = service.pods.remove(0);
        let mut new = service.round(|| {
            pods.end(old);
            let mut new = pods.pod(number);
            assert_eq!(new.node.ask("ready"), "ready");
            pods.is_ready(&new);
            new
        });
        assert_eq!(new.node.names().len(), usize::from(PODS), "a pod was ready before it knew of the others");
        service.pods.push(new);
        service.rounds(1);
    }
    service.rounds(2);
    service.is_one_bucket(&format!("addresses used again, {rate}/s"));
    assert!(are_whole(&mut service.pods), "a pod is taken for the one before it at its address");
}

#[test]
fn a_deploy_below_the_quota_refuses_nobody_where_new_pods_get_the_addresses_of_old_ones() {
    replaces_in_place(BELOW);
}

#[test]
fn a_deploy_above_the_quota_admits_what_one_bucket_does_where_new_pods_get_the_addresses_of_old_ones() {
    replaces_in_place(ABOVE);
}

/// Pods that start at once, and what they take to be ready.
fn start_together(publish: Publish, discover: Duration) -> Option<(Vec<Pod>, Pods, Instant)> {
    let mut pods = Pods::start(publish, Families::V4)?.discover_every(discover);
    let begin = Instant::now();
    let mut all: Vec<_> = (1..=PODS).map(|number| pods.pod(number)).collect();
    all.iter_mut().for_each(|pod| assert_eq!(pod.node.ask("ready"), "ready"));
    println!("{publish:?}: all are ready after {:.1?}", begin.elapsed());
    Some((all, pods, begin))
}

#[test]
fn pods_that_start_together_are_one_cluster_at_once_where_all_pods_are_published() {
    let Some((mut all, _pods, begin)) = start_together(Publish::NotReadyToo, SECOND_LOOK) else { return };
    eventually("they see each other", || are_whole(&mut all));
    println!("one cluster after {:.1?}", begin.elapsed());
    assert!(begin.elapsed() < SECOND_LOOK, "they only found each other at the second look");
}

#[test]
fn pods_that_start_together_are_each_alone_until_they_look_again_where_ready_pods_are_published() {
    let again = Duration::from_secs(3);
    let Some((mut all, mut pods, begin)) = start_together(Publish::Ready, again) else { return };
    // Nobody was ready when they asked, so each is ready alone: a probe that waited for others would wait for ever.
    assert!(all.iter_mut().all(|pod| pod.node.names().len() == 1));
    all.iter().for_each(|pod| pods.is_ready(pod));
    eventually("they see each other", || are_whole(&mut all));
    println!("one cluster after {:.1?}", begin.elapsed());
    assert!(begin.elapsed() < again * 3, "not at the second look");
}
