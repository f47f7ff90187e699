//! What outsiders and liars can do: little.

use super::*;
use crate::{
    bucket::Missing,
    gossip::wire::{Covered, HEADER_LEN, HeldRun},
};

/// Bytes with a seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn garbage_of_any_length_is_counted_and_answered_by_nothing() {
    let mut net = Net::pair(|_| {});
    let now = net.now;
    let node = &mut net.nodes[0];
    let before = node.engine.stats();
    let mut sent = 0;
    for length in 0..=2_000 {
        node.engine.handle_datagram(now, &noise(length as u64, length));
        node.engine.handle_datagram(now, &vec![0; length]);
        node.engine.handle_datagram(now, &vec![0xff; length]);
        sent += 3;
    }
    let stats = node.engine.stats();
    assert_eq!(stats.frames_in - before.frames_in, sent);
    assert_eq!(stats.drops.total() - before.drops.total(), sent, "{:?}", stats.drops);
    assert_eq!(node.outputs(), Vec::<String>::new());
    assert_eq!((stats.cells, stats.peers), (0, 1));
}

#[test]
fn a_good_header_before_garbage_is_counted_and_answered_by_nothing() {
    let mut net = Net::pair(|_| {});
    let now = net.now;
    let stranger = RunId::from_raw(99);
    let node = &mut net.nodes[0];
    for tag in [Tag::Swim, Tag::Deltas, Tag::Sync] {
        for length in 0..=1_400 {
            let before = node.engine.stats();
            let frame = encode_frame(cluster(), stranger, tag, &noise(length as u64 + 1, length));
            node.engine.handle_datagram(now, &frame);
            let drops = node.engine.stats().drops;
            assert_eq!(drops.total() - before.drops.total(), 1, "{tag:?}, {length} bytes: {drops:?}");
        }
    }
    assert_eq!(node.outputs(), Vec::<String>::new());
    let drops = node.engine.stats().drops;
    for (cause, count) in [("length", drops.bad_length), ("swim", drops.swim), ("malformed", drops.malformed)] {
        assert!(count > 100, "{count} by {cause}: {drops:?}");
    }
}

#[test]
fn each_cause_has_its_counter() {
    let mut net = Net::pair(|_| {});
    let now = net.now;
    let (peer, node) = (RunId::from_raw(2), &mut net.nodes[0]);
    let good = datagram(peer, &[node.delta(1, 0, 1, 1)]).to_vec();
    let mut send = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        node.engine.handle_datagram(now, &bytes);
        node.engine.stats().drops
    };
    assert_eq!(send(&|bytes| bytes.truncate(HEADER_LEN - 1)).bad_length, 1);
    assert_eq!(send(&|bytes| bytes.resize(1_201, 0)).bad_length, 2);
    assert_eq!(send(&|bytes| bytes[0] = 9).version, 1);
    assert_eq!(send(&|bytes| bytes[1] ^= 1).foreign_cluster, 1);
    assert_eq!(send(&|bytes| bytes[17] = 200).unknown_tag, 1);
    assert_eq!(send(&|bytes| bytes[9] ^= 1).not_a_member, 1);
    assert_eq!(send(&|bytes| bytes.truncate(HEADER_LEN + 5)).malformed, 1);
    assert_eq!(send(&|_| {}).total(), 7);
    assert_eq!(net.nodes[0].engine.log().cells(), 1);
}

#[test]
fn deltas_of_who_is_no_member_are_dropped() {
    let mut net = Net::pair(|_| {});
    let now = net.now;
    let node = &mut net.nodes[0];
    // A stranger, and somebody who takes our own name.
    for sender in [RunId::from_raw(99), node.run()] {
        let bytes = datagram(sender, &[node.delta(1, 0, 10, 1)]);
        node.engine.handle_datagram(now, &bytes);
    }
    let stats = node.engine.stats();
    assert_eq!((stats.drops.not_a_member, stats.cells, stats.merges, stats.runs), (2, 0, 0, 2 - 1));
    assert_eq!(node.remaining(now, 1), 10);
}

#[test]
fn a_forged_cell_blocks_a_key_no_longer_than_its_debt_floor() {
    let mut net = Net::pair(|_| {});
    let now = net.now;
    let peer = net.nodes[1].run();
    let node = &mut net.nodes[0];
    for version in 1..=20 {
        // The greatest count, again and again in new lives.
        let forged = Delta { epoch: Epoch::from_raw(version as u32), ..node.delta(1, 0, u64::MAX, version) };
        node.engine.handle_datagram(now, &datagram(peer, &[forged]));
    }
    assert!(!node.check(now, 1, 1).allowed);
    // Two bursts at 10 per second.
    let wait = node.check(now, 1, 10).retry_after.expect("possible");
    assert!(wait <= Duration::from_secs(2), "{wait:?}");
    assert!(node.check(now.saturating_add(wait), 1, 10).allowed);
    // Other keys are untouched.
    assert_eq!(node.remaining(now, 2), 10);
}

#[test]
fn a_replayed_frame_changes_nothing() {
    let mut net = Net::pair(|_| {});
    let now = net.now;
    let peer = net.nodes[1].run();
    let node = &mut net.nodes[0];
    let first = datagram(peer, &[node.delta(1, 0, 2, 1), node.delta(2, 0, 1, 2)]);
    let second = datagram(peer, &[node.delta(1, 2, 3, 3)]);
    node.engine.handle_datagram(now, &first);
    node.engine.handle_datagram(now, &second);
    assert_eq!((node.remaining(now, 1), node.remaining(now, 2)), (7, 9));
    let cells = [1, 2].map(|key| node.engine.log().cells_of(node.key(key)).collect::<Vec<_>>());
    let before = node.engine.stats();
    let later = now.saturating_add(Duration::from_millis(100));
    for _ in 0..10 {
        node.engine.handle_datagram(later, &first);
        node.engine.handle_datagram(later, &second);
    }
    assert_eq!((node.remaining(now, 1), node.remaining(now, 2)), (7, 9));
    assert_eq!([1, 2].map(|key| node.engine.log().cells_of(node.key(key)).collect::<Vec<_>>()), cells);
    let stats = node.engine.stats();
    assert_eq!((stats.merges, stats.cells, stats.gaps), (before.merges, 2, 0));
    assert_eq!(stats.drops, before.drops);
}

#[test]
fn a_gap_in_the_versions_is_counted() {
    let mut net = Net::pair(|_| {});
    let now = net.now;
    let peer = net.nodes[1].run();
    let node = &mut net.nodes[0];
    node.engine.handle_datagram(now, &datagram(peer, &[node.delta(1, 0, 1, 1)]));
    node.engine.handle_datagram(now, &datagram(peer, &[node.delta(1, 2, 3, 3)]));
    assert_eq!(node.engine.stats().gaps, 1);
    assert_eq!(node.engine.log().version_of(peer), Version::from_raw(1));
    // What was lost is charged by its count all the same.
    assert_eq!(node.remaining(now, 1), 7);
}

/// A stream on which the peer has said what it lacks, so that records are in turn.
fn open_exchange(node: &mut Node, peer: RunId, now: Timestamp) -> StreamId {
    let id = node.engine.accept_stream(now).expect("there is room");
    node.engine.handle_stream_frame(now, id, &step(peer, &SyncMessage::Summary(1)));
    node.engine.handle_stream_frame(now, id, &step(peer, &SyncMessage::Versions(Vec::new())));
    let _answers = node.outputs();
    id
}

fn records(node: &Node, key: u64, missing: Option<u64>, cells: &[(RunId, u64, u64)]) -> SyncMessage {
    let cell = |(run, permits, version): &(RunId, u64, u64)| RunCell {
        run: *run,
        count: Count { epoch: Epoch::default(), permits: *permits },
        version: Version::from_raw(*version),
        age_secs: 0,
    };
    let mut batch = RecordBatch::default();
    let missing = missing.map(|permits| Missing::from_raw(permits << 16));
    let (scope, digest) = (node.spec.id(), node.key(key));
    assert!(batch.push(KeyRecord { scope, digest, missing, cells: cells.iter().map(cell).collect() }));
    SyncMessage::Records(batch)
}

#[test]
fn nobody_raises_our_own_cell() {
    let mut net = Net::pair(|_| {});
    let now = net.now;
    let peer = net.nodes[1].run();
    let node = &mut net.nodes[0];
    assert!(node.check(now, 1, 2).allowed);
    node.engine.handle_timeout(now.saturating_add(Duration::from_millis(250)));
    let own = node.run();
    let before = (node.engine.log().cells_of(node.key(1)).collect::<Vec<_>>(), node.engine.log().own_version());
    assert_eq!(before.0.len(), 1, "its own cell is not published");
    let id = open_exchange(node, peer, now);
    let forged = records(node, 1, None, &[(own, u64::MAX, 1_000)]);
    node.engine.handle_stream_frame(now, id, &step(peer, &forged));
    let forged = records(node, 2, None, &[(own, 5, 2_000)]);
    node.engine.handle_stream_frame(now, id, &step(peer, &forged));
    assert_eq!((node.engine.log().cells_of(node.key(1)).collect::<Vec<_>>(), node.engine.log().own_version()), before);
    assert!(node.engine.log().cells_of(node.key(2)).next().is_none());
    assert_eq!((node.remaining(now, 1), node.remaining(now, 2)), (8, 10));
}

#[test]
fn a_version_that_is_taken_is_refused_and_counted() {
    let mut net = Net::pair(|_| {});
    let now = net.now;
    let peer = net.nodes[1].run();
    let node = &mut net.nodes[0];
    node.engine.handle_datagram(now, &datagram(peer, &[node.delta(1, 0, 1, 1)]));
    // A frame whose versions are held is an echo, whatever it says; one that goes on and takes a version twice is not.
    node.engine.handle_datagram(now, &datagram(peer, &[node.delta(2, 0, 9, 1)]));
    assert_eq!(node.engine.stats().drops.cells_refused, 0);
    node.engine.handle_datagram(now, &datagram(peer, &[node.delta(2, 0, 9, 1), node.delta(4, 0, 1, 2)]));
    let id = open_exchange(node, peer, now);
    let forged = records(node, 3, None, &[(peer, 5, 1)]);
    node.engine.handle_stream_frame(now, id, &step(peer, &forged));
    let stats = node.engine.stats();
    assert_eq!((stats.drops.cells_refused, stats.cells), (2, 2));
    assert_eq!((node.remaining(now, 2), node.remaining(now, 3)), (10, 10));
}

#[test]
fn a_level_without_a_baseline_is_taken_and_bounded() {
    let mut net = Net::pair(|_| {});
    let now = net.now;
    let peer = net.nodes[1].run();
    let node = &mut net.nodes[0];
    let id = open_exchange(node, peer, now);
    let told = [(RunId::from_raw(50), 1_000_000, 7), (peer, 3, 1_000)];
    let record = records(node, 1, Some(4), &told);
    node.engine.handle_stream_frame(now, id, &step(peer, &record));
    // The whole past of two runs is no charge; what is missing is.
    assert_eq!(node.remaining(now, 1), 6);
    let record = records(node, 2, Some(1 << 40), &[(peer, 3, 1_001)]);
    node.engine.handle_stream_frame(now, id, &step(peer, &record));
    let wait = node.check(now, 2, 10).retry_after.expect("possible");
    assert!(wait <= Duration::from_secs(2), "{wait:?}");
    // And the same once more is no news.
    let record = records(node, 1, Some(4), &told);
    node.engine.handle_stream_frame(now, id, &step(peer, &record));
    assert_eq!(node.remaining(now, 1), 6);
}

#[test]
fn what_a_third_node_tells_of_a_run_is_no_fresher_than_its_own_knowledge() {
    let mut net = Net::pair(|_| {});
    net.run_until(at(200_000));
    let (now, peer, third) = (net.now, net.nodes[1].run(), RunId::from_raw(50));
    let node = &mut net.nodes[0];
    let _before = node.outputs();
    let id = node.engine.accept_stream(now).expect("there is room");
    node.engine.handle_stream_frame(now, id, &step(peer, &SyncMessage::Summary(1)));
    // The peer itself has not heard of the third one for 100 s.
    let held = HeldRun { run: third, version: Version::from_raw(5), age_secs: 100 };
    node.engine.handle_stream_frame(now, id, &step(peer, &SyncMessage::Versions(vec![held])));
    let record = records(node, 1, None, &[(third, 3, 5)]);
    node.engine.handle_stream_frame(now, id, &step(peer, &record));
    let covered = Covered { run: third, from: Version::NONE, to: Version::from_raw(5), dropped: None };
    node.engine.handle_stream_frame(now, id, &step(peer, &SyncMessage::Done(vec![covered])));
    assert_eq!(node.engine.log().version_of(third), Version::from_raw(5));
    let since = node.engine.log().in_step_since(third, now);
    assert!(since >= Duration::from_secs(100), "it takes itself to be in step since {since:?}");
}
