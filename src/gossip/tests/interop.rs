//! Nodes that are not alike: a newer build, another quota.

use super::*;
use crate::gossip::wire::HEADER_LEN;

/// What a newer build says: a frame of a tag that this one does not know beside each frame, and a field more in each
/// body that has room for one.
fn newer(from: usize, frame: &Bytes) -> Vec<Bytes> {
    if from != 1 {
        return vec![frame.clone()];
    }
    let (mut unknown, mut longer) = (frame[..HEADER_LEN].to_vec(), frame.to_vec());
    unknown[HEADER_LEN - 1] = 99;
    unknown.extend(b"of no concern to older builds");
    if [Tag::Sync as u8, Tag::Leave as u8].contains(&frame[HEADER_LEN - 1]) {
        longer.extend([0xfb, 0xff, 0xff]);
    }
    vec![unknown.into(), longer.into()]
}

#[test]
fn a_newer_build_with_a_tag_and_a_field_more_works_together_with_this_one() {
    let now = at(1_000);
    let mut net = Net::joined(vec![Node::new(1, now, |_| {}), Node::new(2, now, |_| {})], newer);
    for turn in 0..20 {
        let now = net.now;
        assert!(net.nodes[turn % 2].check(now, turn as u64 / 2, 3).allowed);
        net.run_until(now.saturating_add(Duration::from_millis(300)));
    }
    net.run_until(at(9_000));
    // By pushes and by exchanges, both ways.
    for node in &net.nodes {
        assert_eq!(node.engine.log().cells(), 20);
        assert!(node.engine.stats().syncs > 5);
        assert_eq!((node.engine.stats().syncs_failed, node.engine.stats().peers), (0, 1));
    }
    let drops = net.nodes[0].engine.stats().drops;
    assert!(drops.unknown_tag > 50 && drops.total() == drops.unknown_tag, "{drops:?}");
    assert_eq!(net.nodes[1].engine.stats().drops.total(), 0);
    // And a good-bye with a field more is one.
    let now = net.now;
    net.nodes[1].engine.leave(now);
    net.run_until(now.saturating_add(Duration::from_secs(1)));
    assert_eq!(net.nodes[0].engine.stats().peers, 0);
    assert_eq!(net.nodes[0].engine.stats().drops.malformed, 0);
}

#[test]
fn a_tag_that_is_not_known_is_skipped_under_a_seal_too() {
    let secrets = Secrets::new([[7; 32]]).expect("one");
    let now = at(1_000);
    let mut node = Node::new(1, now, |config| config.secrets = Some(secrets.clone()));
    // A seal inside a seal stands for any tag that has no place there.
    let mut seal = crate::gossip::seal::Seal::new(cluster(), RunId::from_raw(2), Some(&secrets));
    let frame = seal.datagram(Tag::Sealed, b"of no concern").expect("a number is left");
    node.engine.handle_datagram(now, &frame);
    let stats = node.engine.stats();
    assert_eq!((stats.drops.unknown_tag, stats.drops.total()), (1, 1));
    node.engine.handle_datagram(now, &frame);
    assert_eq!(node.engine.stats().duplicates, 1);
}

#[test]
fn nodes_with_different_quotas_each_charge_by_their_own() {
    let now = at(1_000);
    let slow = Node::with_quota(1, now, Quota::per_second(10).burst(10), |_| {});
    let fast = Node::with_quota(2, now, Quota::per_second(40).burst(80), |_| {});
    let mut net = Net::joined(vec![slow, fast], |_, frame| vec![frame.clone()]);
    // No exchange of levels is due: theirs is the higher one of the two.
    net.run_until(at(2_700));
    let now = net.now;
    assert!(net.nodes[1].check(now, 1, 7).allowed);
    net.nodes[1].engine.handle_urgent(now);
    assert!(net.nodes[0].check(now, 2, 7).allowed);
    let soon = now.saturating_add(Duration::from_millis(200));
    net.run_until(soon);
    // Seven permits are seven at both; what comes back by then is up to 2 of a slow quota and up to 8 of a fast one.
    let left = |node: &Node| [node.remaining(soon, 1), node.remaining(soon, 2)];
    assert!(left(&net.nodes[0]).iter().all(|left| (4..=5).contains(left)), "{:?}", left(&net.nodes[0]));
    assert!(left(&net.nodes[1]).iter().all(|left| (76..=80).contains(left)), "{:?}", left(&net.nodes[1]));
    // More than the slow one's burst puts it in debt for two of its refill times, and no longer.
    assert!(net.nodes[1].check(soon, 3, 80).allowed);
    net.run_until(soon.saturating_add(Duration::from_millis(200)));
    let now = net.now;
    let wait = net.nodes[0].check(now, 3, 10).retry_after.expect("possible");
    assert!(wait > Duration::from_secs(1) && wait <= Duration::from_secs(2), "{wait:?}");
    assert!(net.nodes[1].remaining(now, 3) < 10);
    assert_eq!(net.nodes.iter().map(|node| node.engine.stats().drops.total()).sum::<u64>(), 0);
}
