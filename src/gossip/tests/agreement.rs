//! What a node says of its peers' news: since when it has all, and how old they were.

use super::*;

#[test]
fn news_are_as_old_as_they_waited_at_their_sender_and_that_is_forgotten_in_time() {
    let mut net = Net::pair(|_| {});
    net.run_until(at(3_000));
    let lag = |net: &Net| net.nodes[1].engine.peers(net.now)[0].lag;
    assert_eq!(lag(&net), Duration::ZERO);
    // Rarely urgent while the bucket is full: it waits for the flush.
    assert!(net.nodes[0].check(at(3_000), 1, 1).allowed);
    net.run_until(at(3_500));
    let told_after = lag(&net);
    assert!(told_after > Duration::ZERO && told_after <= Duration::from_millis(200), "{told_after:?}");
    net.run_until(at(32_000));
    assert_eq!(lag(&net), told_after);
    net.run_until(at(70_000));
    assert_eq!(lag(&net), Duration::ZERO);
}

#[test]
fn a_node_knows_since_when_it_has_all_news_of_a_peer() {
    let mut net = Net::pair(|_| {});
    net.run_until(at(10_000));
    for node in &net.nodes {
        let in_step = node.engine.peers(net.now)[0].in_step.expect("notes were compared");
        assert!(net.now.saturating_since(in_step) < Duration::from_secs(3), "{in_step:?} at {:?}", net.now);
    }
    // A cut: nothing comes any more, and the knowledge ages.
    net.wire = |_, _| Vec::new();
    net.run_until(at(11_500));
    let age = |net: &Net| {
        let in_step = net.nodes[0].engine.peers(net.now).first().map(|peer| peer.in_step.expect("it had all once"));
        in_step.map(|in_step| net.now.saturating_since(in_step))
    };
    assert!(age(&net).is_none_or(|age| age >= Duration::from_millis(1_500)), "{:?}", age(&net));
}

#[test]
fn news_that_were_lost_are_as_old_as_the_gap_when_they_are_found() {
    let mut net = Net::pair(|config| config.sync_interval = Duration::from_millis(100));
    net.run_until(at(3_000));
    // The deltas are lost; only exchanges get through.
    net.wire = |_, frame| if frame.len() < 200 && is_deltas(frame) { Vec::new() } else { vec![frame.clone()] };
    assert!(net.nodes[0].check(at(3_000), 1, 3).allowed);
    net.run_until(at(8_000));
    assert_eq!(net.nodes[1].remaining(net.now, 1), 10, "it refilled long ago");
    let lag = net.nodes[1].engine.peers(net.now)[0].lag;
    assert!(lag >= Duration::from_millis(300) && lag <= Duration::from_secs(5), "{lag:?}");
}

fn is_deltas(frame: &Bytes) -> bool {
    let prefix = encode_frame(cluster(), RunId::from_raw(1), Tag::Deltas, &[]);
    let other = encode_frame(cluster(), RunId::from_raw(2), Tag::Deltas, &[]);
    frame.starts_with(&prefix) || frame.starts_with(&other)
}
