//! Exchanges that do not go as they should.

use super::*;
use crate::gossip::{
    sync::{FIRST_FRAME, LONGEST, STALL},
    wire::HeldRun,
};

/// A node with a member, and no exchange under way.
fn node() -> (Node, RunId, Timestamp) {
    let mut net = Net::pair(|_| {});
    net.run_until(at(5_000));
    let (peer, now) = (net.nodes[1].run(), net.now);
    let mut node = net.nodes.swap_remove(0);
    let _before = node.outputs();
    (node, peer, now)
}

/// A stream that the member `peer` has opened, and spoken on.
fn opened_by(node: &mut Node, peer: RunId, now: Timestamp) -> StreamId {
    let id = node.engine.accept_stream(now).expect("there is room");
    node.engine.handle_stream_frame(now, id, &step(peer, &SyncMessage::Summary(1)));
    let _answer = node.outputs();
    id
}

fn closes(node: &mut Node, id: StreamId) -> bool {
    std::iter::from_fn(|| node.engine.poll_stream())
        .any(|command| [StreamCommand::Close(id), StreamCommand::Cut(id)].contains(&command))
}

#[test]
fn only_so_many_streams_are_accepted() {
    let (mut node, peer, now) = node();
    let accepted: Vec<StreamId> = (0..16).map(|_| opened_by(&mut node, peer, now)).collect();
    assert_eq!(node.engine.stats().drops.streams_refused, 0);
    assert_eq!(node.engine.accept_stream(now), None);
    assert_eq!(node.engine.stats().drops.streams_refused, 1);
    // One that ends makes room for one.
    node.engine.handle_stream_closed(now, accepted[3]);
    let last = opened_by(&mut node, peer, now);
    assert_eq!(node.engine.accept_stream(now), None);
    assert!(node.outputs().iter().all(|output| !output.contains(&format!("Cut({last:?})"))));
}

#[test]
fn who_keeps_silent_gives_way_to_newcomers_the_oldest_first() {
    let (mut node, peer, now) = node();
    let member = opened_by(&mut node, peer, now);
    let silent: Vec<StreamId> = (0..15).map(|_| node.engine.accept_stream(now).expect("there is room")).collect();
    for expected in silent.iter().take(14) {
        let newcomer = node.engine.accept_stream(now);
        assert!(newcomer.is_some());
        let cut: Vec<_> = std::iter::from_fn(|| node.engine.poll_stream()).collect();
        assert_eq!(cut, [StreamCommand::Cut(*expected)]);
    }
    assert_eq!(node.engine.stats().drops.streams_refused, 14);
    node.engine.handle_stream_closed(now, member);
    assert_eq!(node.engine.stats().syncs_failed, 15, "14 that were cut, and the member's");
}

/// The node takes turns until just before `until`, as one that is not stopped does.
fn pass_time(node: &mut Node, from: Timestamp, until: Timestamp) {
    let just_before = until.saturating_sub(Duration::from_nanos(1));
    let mut now = from;
    while now < just_before {
        now = now.saturating_add(Duration::from_millis(500)).min(just_before);
        node.engine.handle_timeout(now);
    }
}

#[test]
fn who_does_not_say_who_it_is_has_two_seconds() {
    let (mut node, _, now) = node();
    let id = node.engine.accept_stream(now).expect("there is room");
    let late = now.saturating_add(FIRST_FRAME);
    // What is skipped is no proof.
    let mut newer = step(RunId::from_raw(99), &SyncMessage::Summary(1)).to_vec();
    newer[17] = 77;
    pass_time(&mut node, now, late);
    node.engine.handle_stream_frame(late.saturating_sub(Duration::from_nanos(1)), id, &newer);
    assert!(!closes(&mut node, id));
    assert!(node.engine.poll_timeout() <= late);
    node.engine.handle_timeout(late);
    assert!(closes(&mut node, id));
}

#[test]
fn a_first_frame_is_short() {
    let (mut node, peer, now) = node();
    let id = node.engine.accept_stream(now).expect("there is room");
    let mut long = step(peer, &SyncMessage::Summary(1)).to_vec();
    long.resize(257, 0);
    let before = node.engine.stats().drops;
    node.engine.handle_stream_frame(now, id, &long);
    assert!(closes(&mut node, id));
    assert_eq!(node.engine.stats().drops.bad_length, before.bad_length + 1);
    let id = node.engine.accept_stream(now).expect("there is room");
    node.engine.handle_stream_frame(now, id, &long[..256]);
    assert!(!closes(&mut node, id));
}

#[test]
fn an_exchange_is_not_kept_open_by_records_without_end() {
    let (mut node, peer, begun) = node();
    let id = opened_by(&mut node, peer, begun);
    node.engine.handle_stream_frame(begun, id, &step(peer, &SyncMessage::Versions(Vec::new())));
    let end = begun.saturating_add(LONGEST);
    for second in 0..LONGEST.as_secs() {
        let now = begun.saturating_add(Duration::from_secs(second));
        node.engine.handle_stream_frame(now, id, &step(peer, &SyncMessage::Records(RecordBatch::default())));
    }
    node.engine.handle_timeout(end.saturating_sub(Duration::from_nanos(1)));
    assert!(!closes(&mut node, id));
    node.engine.handle_timeout(end);
    assert!(closes(&mut node, id));
}

#[test]
fn an_exchange_that_stalls_is_broken_off() {
    let (mut node, peer, now) = node();
    let silent = opened_by(&mut node, peer, now);
    let slow = node.engine.accept_stream(now).expect("there is room");
    // Within the time for a first frame.
    let half = now.saturating_add(FIRST_FRAME / 2);
    pass_time(&mut node, now, half);
    node.engine.handle_stream_frame(half, slow, &step(peer, &SyncMessage::Summary(1)));
    let _answer = node.outputs();
    let stalled = now.saturating_add(STALL);
    assert!(node.engine.poll_timeout() <= stalled, "it would sleep over it");
    pass_time(&mut node, half, stalled);
    assert!(!closes(&mut node, silent));
    let failed = node.engine.stats().syncs_failed;
    node.engine.handle_timeout(stalled);
    let closed: Vec<_> = std::iter::from_fn(|| node.engine.poll_stream()).collect();
    assert!(closed.contains(&StreamCommand::Cut(silent)), "{closed:?}");
    assert!(!closed.contains(&StreamCommand::Cut(slow)), "one that made progress is broken off");
    assert_eq!(node.engine.stats().syncs_failed, failed + 1);
    pass_time(&mut node, stalled, half.saturating_add(STALL));
    node.engine.handle_timeout(half.saturating_add(STALL));
    assert!(closes(&mut node, slow));
    // What still arrives on them is nobody's.
    let before = node.engine.stats();
    node.engine.handle_stream_frame(stalled, silent, &step(peer, &SyncMessage::InStep));
    node.engine.handle_stream_writable(stalled, silent);
    node.engine.handle_stream_closed(stalled, silent);
    assert_eq!(node.engine.stats(), before);
}

#[test]
fn what_comes_out_of_turn_breaks_an_exchange_off() {
    let (mut node, peer, now) = node();
    let held = || SyncMessage::Versions(vec![HeldRun { run: peer, version: Version::NONE, age_secs: 0 }]);
    let summary = || SyncMessage::Summary(1);
    let records = || SyncMessage::Records(RecordBatch::default());
    let done = || SyncMessage::Done(Vec::new());
    // The last one of each is out of turn for who was called.
    let stories: [Vec<SyncMessage>; 8] = [
        vec![SyncMessage::InStep],
        vec![held()],
        vec![records()],
        vec![done()],
        vec![summary(), summary()],
        vec![summary(), SyncMessage::InStep],
        vec![summary(), held(), held()],
        vec![summary(), held(), summary()],
    ];
    for story in stories {
        let id = node.engine.accept_stream(now).expect("there is room");
        let before = node.engine.stats();
        for (place, message) in story.iter().enumerate() {
            node.engine.handle_stream_frame(now, id, &step(peer, message));
            let last = place + 1 == story.len();
            assert_eq!(closes(&mut node, id), last, "{story:?} at {place}");
        }
        let stats = node.engine.stats();
        assert_eq!(stats.drops.malformed, before.drops.malformed + 1, "{story:?}");
        assert_eq!(stats.syncs_failed, before.syncs_failed + 1, "{story:?}");
    }
}

#[test]
fn a_stranger_on_a_stream_is_shown_the_door() {
    let (mut node, _, now) = node();
    let id = node.engine.accept_stream(now).expect("there is room");
    node.engine.handle_stream_frame(now, id, &step(RunId::from_raw(99), &SyncMessage::Summary(1)));
    assert!(closes(&mut node, id));
    assert_eq!(node.engine.stats().drops.not_a_member, 1);
}

#[test]
fn garbage_on_a_stream_ends_it_and_a_newer_tag_does_not() {
    let (mut node, peer, now) = node();
    for bytes in [&b""[..], &[0; 100], &[1; 70_000], &encode_frame(cluster(), peer, Tag::Sync, &[4, 0xff])] {
        let id = node.engine.accept_stream(now).expect("there is room");
        let before = node.engine.stats().drops.total();
        node.engine.handle_stream_frame(now, id, bytes);
        assert!(closes(&mut node, id), "{} bytes", bytes.len());
        assert_eq!(node.engine.stats().drops.total(), before + 1);
    }
    let id = node.engine.accept_stream(now).expect("there is room");
    let before = node.engine.stats().drops.unknown_tag;
    let mut newer = step(peer, &SyncMessage::Summary(1)).to_vec();
    newer[17] = 77;
    node.engine.handle_stream_frame(now, id, &newer);
    // A datagram's tag has no place here either.
    let stray = datagram(peer, &[node.delta(1, 0, 5, 1)]);
    node.engine.handle_stream_frame(now, id, &stray);
    assert!(!closes(&mut node, id));
    assert_eq!(node.engine.stats().drops.unknown_tag, before + 2);
    assert_eq!(node.remaining(now, 1), 10);
    node.engine.handle_stream_frame(now, id, &step(peer, &SyncMessage::Summary(1)));
    assert!(matches!(node.engine.poll_stream(), Some(StreamCommand::Send(to, _)) if to == id));
}

#[test]
fn a_stream_that_fails_to_open_is_tried_again_by_a_newcomer() {
    let mut net = Net::pair(|_| {});
    net.now = at(1_001);
    // The first exchange of the newcomer, which nobody takes.
    let now = net.now;
    let node = &mut net.nodes[1];
    node.engine.handle_timeout(now);
    let Some(StreamCommand::Open(id, _)) = node.engine.poll_stream() else { panic!("it asks for nothing") };
    let _rest = node.outputs();
    node.engine.handle_stream_closed(now, id);
    assert_eq!(node.engine.stats().syncs_failed, 1);
    let soon = now.saturating_add(Duration::from_millis(100));
    assert!(node.engine.poll_timeout() <= soon);
    node.engine.handle_timeout(soon);
    assert!(matches!(node.engine.poll_stream(), Some(StreamCommand::Open(again, _)) if again != id));
}
