//! What discovery finds: late, stale, in part, or nothing.

use super::*;

fn stranger(number: u32) -> SocketAddr {
    SocketAddr::from((0x0b00_0000_u32.wrapping_add(number).to_be_bytes(), 7_946))
}

fn addrs(net: &Net) -> Vec<SocketAddr> {
    net.nodes.iter().map(|node| node.addr).collect()
}

fn peers(net: &Net) -> Vec<u64> {
    net.nodes.iter().map(|node| node.engine.stats().peers).collect()
}

fn apart(count: u8) -> Net {
    let now = at(1_000);
    Net::new((1..=count).map(|id| Node::new(id, now, |_| {})).collect(), now, |_, frame| vec![frame.clone()])
}

/// Discovery of every node found this.
fn found(net: &mut Net, addrs: &[SocketAddr]) {
    for index in 0..net.nodes.len() {
        let now = net.now;
        net.nodes[index].engine.handle_found(now, addrs);
        net.settle();
    }
}

fn pass(net: &mut Net, time: Duration) {
    net.run_until(net.now.saturating_add(time));
}

#[test]
fn whatever_discovery_found_at_first_all_join_once_it_finds_the_right_ones() {
    // A refresh is 10 s by default. Nothing found out, nobody there, addresses where nobody is any more, where only
    // oneself is, and where another cluster is.
    let firsts: [Option<Vec<SocketAddr>>; 5] = [
        None,
        Some(Vec::new()),
        Some((0..5).map(stranger).collect()),
        Some(vec![SocketAddr::from(([10, 0, 0, 1], 7_946))]),
        Some(vec![SocketAddr::from(([10, 0, 0, 9], 7_946))]),
    ];
    for first in firsts {
        let mut net = apart(3);
        let other = |config: &mut EngineConfig| config.cluster = ClusterId::new(&DigestKey::PUBLIC, "another");
        let foreign = Node::new(9, net.now, other);
        let right: Vec<SocketAddr> = addrs(&net);
        if let Some(first) = &first {
            found(&mut net, first);
        }
        net.nodes.push(foreign);
        pass(&mut net, Duration::from_secs(10));
        // The first refresh, with what was found before beside it.
        let all: Vec<_> = right.iter().copied().chain(first.iter().flatten().copied()).collect();
        for index in 0..3 {
            let now = net.now;
            net.nodes[index].engine.handle_found(now, &all);
            net.settle();
        }
        pass(&mut net, Duration::from_secs(2));
        assert_eq!(peers(&net), [2, 2, 2, 0], "after {first:?} at first");
        for node in &net.nodes[..3] {
            assert!(node.engine.members().iter().all(|member| right.contains(&member.addr)), "after {first:?}");
        }
    }
}

#[test]
fn one_right_address_among_hundreds_of_stale_ones_is_found_by_itself() {
    let mut net = apart(2);
    let mut stale: Vec<_> = (0..500).map(stranger).collect();
    stale.insert(250, net.nodes[0].addr);
    let now = net.now;
    net.nodes[1].engine.handle_found(now, &stale);
    net.settle();
    // 32 of 501 every half a second: one in eight billion nodes has to wait longer than the next three refreshes.
    let (mut waited, mut now) = (0, now);
    while peers(&net) != [1, 1] {
        assert!(waited < 400, "not found in {waited} announcements");
        waited += 1;
        now = now.saturating_add(Duration::from_millis(500));
        net.run_until(now);
    }
}

#[test]
fn an_answer_that_is_partial_empty_or_wrong_removes_nobody() {
    let mut net = apart(3);
    let all = addrs(&net);
    found(&mut net, &all);
    pass(&mut net, Duration::from_secs(5));
    assert_eq!(peers(&net), [2, 2, 2]);
    let answers = [Vec::new(), vec![all[0]], all[1..].to_vec(), vec![stranger(1)], (0..2_000).map(stranger).collect()];
    for answer in answers {
        for _ in 0..6 {
            found(&mut net, &answer);
            pass(&mut net, Duration::from_secs(10));
            assert_eq!(peers(&net), [2, 2, 2], "after {} addresses", answer.len());
        }
    }
    assert!(!net.transcript.iter().any(|line| line.contains("MemberDown")), "somebody was away for a while");
}

#[test]
fn after_an_empty_answer_the_last_good_one_is_gone_by() {
    let mut net = apart(2);
    let (first, now) = (net.nodes[0].addr, net.now);
    // The second starts while the first is not there yet, and its name gives nothing any more when it is.
    let late = net.nodes.remove(0);
    net.nodes[0].engine.handle_found(now, &[first]);
    net.settle();
    pass(&mut net, Duration::from_secs(10));
    net.nodes[0].engine.handle_found(net.now, &[]);
    net.nodes.push(late);
    pass(&mut net, Duration::from_secs(2));
    assert_eq!(peers(&net), [1, 1]);
}
