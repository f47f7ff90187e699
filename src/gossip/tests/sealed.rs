//! A cluster with a secret, and those who have none but can record, change and send.

use super::*;
use crate::gossip::{Sealing, seal::Seal, sync::FIRST_FRAME, wire::FrameError};

fn secrets() -> Secrets {
    Secrets::new([[7; 32]]).expect("one")
}

fn sealed(config: &mut EngineConfig) {
    config.secrets = Some(secrets());
}

/// Two nodes with the secret, after some seconds of load, and all that they said.
fn busy() -> Net {
    let mut net = Net::pair(sealed);
    for turn in 0..20 {
        let now = net.now;
        let _answer = net.nodes[turn % 2].check(now, turn as u64 % 5, 2);
        for node in &mut net.nodes {
            node.engine.handle_urgent(now);
        }
        net.settle();
        net.run_until(now.saturating_add(Duration::from_millis(250)));
    }
    net
}

fn drops(net: &Net) -> u64 {
    net.nodes.iter().map(|node| node.engine.stats().drops.total()).sum()
}

#[test]
fn a_cluster_with_a_secret_works_and_says_nothing_in_the_clear() {
    let net = busy();
    assert_eq!(drops(&net), 0);
    for node in &net.nodes {
        let stats = node.engine.stats();
        assert!(stats.syncs > 2 && stats.syncs_failed == 0, "{stats:?}");
        assert_eq!((stats.cells, stats.peers), (10, 1));
    }
    let frames = net.datagrams.iter().map(|(_, _, frame)| frame).chain(net.frames.iter().map(|(_, frame)| frame));
    let name = b"node-1";
    for frame in frames {
        assert_eq!(frame[17], Tag::Sealed as u8);
        assert!(!frame.windows(name.len()).any(|window| window == name));
    }
    assert!(net.datagrams.iter().all(|(_, _, frame)| frame.len() <= 1_200));
}

#[test]
fn what_was_recorded_changes_nothing_where_it_was_heard() {
    let mut net = busy();
    let (now, recorded) = (net.now, net.datagrams.clone());
    for index in 0..2 {
        let node = &mut net.nodes[index];
        let _before = node.outputs();
        let levels: Vec<u64> = (0..5).map(|key| node.remaining(now, key)).collect();
        let before = node.engine.stats();
        for (_, _, frame) in &recorded {
            node.engine.handle_datagram(now, frame);
        }
        let stats = node.engine.stats();
        assert_eq!(node.outputs(), Vec::<String>::new());
        assert_eq!((0..5).map(|key| node.remaining(now, key)).collect::<Vec<_>>(), levels);
        assert_eq!((stats.merges, stats.cells, stats.peers), (before.merges, before.cells, before.peers));
        // Each frame is counted: the other's as seen before, our own as out of their place.
        let counted = stats.duplicates - before.duplicates + stats.drops.replayed - before.drops.replayed;
        assert_eq!(counted, recorded.len() as u64);
    }
}

#[test]
fn a_recorded_stream_is_refused_at_its_first_frame() {
    let mut net = busy();
    let (now, recorded) = (net.now, net.frames.clone());
    for index in 0..2 {
        let node = &mut net.nodes[index];
        let before = node.engine.stats();
        let _before = node.outputs();
        for (_, frame) in &recorded {
            let id = node.engine.accept_stream(now).expect("there is room");
            node.engine.handle_stream_frame(now, id, frame);
            assert_eq!(node.outputs(), [format!("{:?}", StreamCommand::Cut(id))]);
        }
        let stats = node.engine.stats();
        assert_eq!(stats.drops.total() - before.drops.total(), recorded.len() as u64);
        assert_eq!(stats.syncs, before.syncs);
    }
}

#[test]
fn what_was_recorded_counts_at_a_restarted_node_for_its_news_at_most() {
    let mut net = busy();
    let (now, recorded) = (net.now, net.datagrams.clone());
    // It has forgotten everything, and has just met the one whose frames were recorded.
    let mut node = Node::new(1, now, |config| {
        sealed(config);
        (config.run, config.started) = (RunId::from_raw(77), 1);
    });
    let other = net.nodes[1].addr;
    node.engine.handle_found(now, &[other]);
    net.nodes[0] = node;
    net.settle();
    assert_eq!(net.nodes[0].engine.stats().peers, 1);
    let admitted: Vec<u64> = (0..5)
        .map(|key| {
            let cells = net.nodes[1].engine.log().cells_of(net.nodes[1].key(key)).collect::<Vec<_>>();
            cells.iter().filter(|cell| cell.run == RunId::from_raw(2)).map(|cell| cell.count.permits).sum()
        })
        .collect();
    let node = &mut net.nodes[0];
    let mut twice = recorded.clone();
    twice.extend(recorded);
    for (_, _, frame) in &twice {
        node.engine.handle_datagram(now, frame);
    }
    for (key, admitted) in admitted.iter().enumerate() {
        let remaining = node.remaining(now, key as u64);
        assert!(remaining >= 10_u64.saturating_sub(*admitted), "key {key}: {remaining} left, {admitted} admitted");
        // And never longer than the debt floor.
        let wait = node.check(now, key as u64, 10).retry_after.unwrap_or_default();
        assert!(wait <= Duration::from_secs(2), "{wait:?}");
    }
    assert_eq!(node.engine.stats().peers, 1);
}

#[test]
fn a_recorded_announcement_of_who_is_gone_makes_a_member_that_is_soon_found_out() {
    let now = at(1_000);
    let first = Node::new(1, now, sealed);
    let mut gone = Node::new(9, now, sealed);
    gone.engine.handle_found(now, &[first.addr]);
    let announcement = gone.engine.poll_transmit().expect("it announces itself").payload;
    // At the same address, after both have gone.
    let mut net = Net::joined(
        vec![
            Node::new(1, now, |config| {
                sealed(config);
                config.run = RunId::from_raw(77);
            }),
            Node::new(2, now, sealed),
        ],
        |_, frame| vec![frame.clone()],
    );
    net.run_until(at(3_000));
    let now = net.now;
    net.nodes[0].engine.handle_datagram(now, &announcement);
    net.settle();
    assert_eq!(net.nodes[0].engine.stats().peers, 2);
    net.run_until(now.saturating_add(Duration::from_secs(10)));
    assert!(net.nodes.iter().all(|node| node.engine.stats().peers == 1));
    // And not once more.
    let now = net.now;
    net.nodes[0].engine.handle_datagram(now, &announcement);
    assert_eq!((net.nodes[0].engine.stats().peers, net.nodes[0].engine.stats().duplicates), (1, 1));
}

#[test]
fn every_frame_that_is_changed_on_its_way_is_dropped_and_counted() {
    let mut net = busy();
    let (now, recorded) = (net.now, net.datagrams.clone());
    // At a node that has heard none of it.
    let mut fresh = Node::new(3, now, sealed);
    let mut changed = 0;
    for (place, (_, _, frame)) in recorded.iter().enumerate() {
        for byte in 0..frame.len() {
            let mut bad = frame.to_vec();
            bad[byte] ^= 1 << ((place + byte) % 8);
            fresh.engine.handle_datagram(now, &bad);
            changed += 1;
        }
    }
    let stats = fresh.engine.stats();
    assert_eq!(stats.drops.total(), changed);
    assert!(stats.drops.not_authentic > 0 && stats.drops.strangers > 0, "{:?}", stats.drops);
    assert_eq!((stats.cells, stats.peers, stats.runs), (0, 0, 1));
    assert_eq!(fresh.outputs(), Vec::<String>::new());
    assert_eq!(drops(&net), 0);
    net.run_until(now.saturating_add(Duration::from_secs(2)));
    assert_eq!(drops(&net), 0);
}

#[test]
fn one_frame_of_a_member_moves_a_key_no_further_than_its_debt_floor() {
    let mut net = Net::pair(sealed);
    let now = net.now;
    // The peer's own seal cannot be had, so one of a member that lies: it has the secret, and another run joins.
    let liar = RunId::from_raw(66);
    let mut seal = Seal::new(cluster(), liar, Some(&secrets()));
    let mut joins = Node::new(66, now, |config| {
        sealed(config);
        config.run = liar;
    });
    // What it says by itself is sealed under the numbers from 0 on; ours begin after them.
    let first = net.nodes[0].addr;
    joins.engine.handle_found(now, &[first]);
    while let Some(transmit) = joins.engine.poll_transmit() {
        net.nodes[0].engine.handle_datagram(now, &transmit.payload);
    }
    let node = &mut net.nodes[0];
    assert_eq!(node.engine.stats().peers, 2);
    for _ in 0..20 {
        let _skipped = seal.datagram(Tag::Leave, &[]);
    }
    let mut writer = DeltaWriter::default();
    writer.push(&node.delta(1, 0, u64::MAX, 1), Duration::ZERO);
    let frame = seal.datagram(Tag::Deltas, &writer.finish()[0]).expect("a number is left");
    node.engine.handle_datagram(now, &frame);
    assert_eq!(node.engine.stats().merges, 1);
    let wait = node.check(now, 1, 10).retry_after.expect("possible");
    assert!(wait > Duration::from_secs(1) && wait <= Duration::from_secs(2), "{wait:?}");
    // It raised its own cell, not ours, and not the other's.
    let cells = node.engine.log().cells_of(node.key(1)).collect::<Vec<_>>();
    assert_eq!(cells.iter().map(|cell| cell.run).collect::<Vec<_>>(), [liar]);
}

#[test]
fn a_node_without_the_secret_is_told_nothing_and_has_no_effect() {
    let mut net = busy();
    let now = net.now;
    for tune in [
        |_: &mut EngineConfig| {},
        |config: &mut EngineConfig| {
            config.secrets = Secrets::new([[8; 32]]).ok();
        },
    ] {
        let mut outsider = Node::new(5, now, tune);
        let inside = net.nodes[0].addr;
        outsider.engine.handle_found(now, &[inside]);
        let before = net.nodes[0].engine.stats();
        let announced = outsider.engine.poll_transmit().expect("it announces itself").payload;
        net.nodes[0].engine.handle_datagram(now, &announced);
        let id = net.nodes[0].engine.accept_stream(now).expect("there is room");
        net.nodes[0].engine.handle_stream_frame(now, id, &step(outsider.run(), &SyncMessage::Summary(1)));
        assert_eq!(net.nodes[0].outputs(), [format!("{:?}", StreamCommand::Cut(id))]);
        let after = net.nodes[0].engine.stats();
        assert_eq!((after.peers, after.drops.total()), (1, before.drops.total() + 2));
        // And it understands nothing.
        for (_, _, frame) in &net.datagrams {
            outsider.engine.handle_datagram(now, frame);
        }
        let stats = outsider.engine.stats();
        assert_eq!(stats.drops.unknown_secret, net.datagrams.len() as u64);
        assert_eq!((stats.peers, stats.cells), (0, 0));
    }
}

#[test]
fn a_silent_stream_costs_a_sealed_node_no_more_than_a_plain_one() {
    let mut net = Net::pair(sealed);
    let now = net.now;
    let node = &mut net.nodes[0];
    let id = node.engine.accept_stream(now).expect("there is room");
    node.engine.handle_timeout(now.saturating_add(FIRST_FRAME));
    let commands: Vec<_> = std::iter::from_fn(|| node.engine.poll_stream()).collect();
    assert!(commands.contains(&StreamCommand::Cut(id)));
}

#[test]
fn an_engine_can_be_given_its_first_secret_while_it_runs() {
    let mut net = Net::pair(|_| {});
    for stage in [Sealing::Prepared, Sealing::Preferred, Sealing::Required] {
        for index in 0..2 {
            net.nodes[index].engine.set_secrets(&secrets().at_stage(stage));
            let until = net.now.saturating_add(Duration::from_secs(3));
            net.run_until(until);
        }
    }
    assert_eq!(drops(&net), 0);
    assert!(net.nodes.iter().all(|node| node.engine.stats().peers == 1 && node.engine.stats().syncs_failed == 0));
    assert_eq!(net.datagrams.last().map(|(_, _, frame)| frame[17]), Some(Tag::Sealed as u8));
    let plain = datagram(RunId::from_raw(2), &[net.nodes[0].delta(1, 0, 5, 1)]);
    let mut seal = Seal::new(cluster(), RunId::from_raw(1), Some(&secrets()));
    assert_eq!(seal.open(net.now, &plain, &mut Vec::new()).err(), Some(FrameError::Unsealed));
}
