//! Joining, telling, and doing nothing in between.

use super::*;

#[test]
fn a_node_that_discovery_finds_alone_is_ready_at_once() {
    let mut node = Node::new(1, at(0), |_| {});
    let own = node.addr;
    assert_eq!(node.outputs(), Vec::<String>::new());
    node.engine.handle_found(at(5), &[own, own]);
    assert_eq!(node.engine.poll_event(), Some(Event::Ready));
    assert_eq!(node.outputs(), Vec::<String>::new(), "it announces itself to itself");
    // Once.
    node.engine.handle_found(at(6), &[own]);
    assert_eq!(node.engine.poll_event(), None);

    let mut node = Node::new(1, at(0), |_| {});
    node.engine.handle_found(at(5), &[]);
    assert_eq!(node.engine.poll_event(), Some(Event::Ready));
}

#[test]
fn a_node_whose_seeds_are_silent_is_ready_after_a_while() {
    let mut node = Node::new(1, at(0), |_| {});
    node.engine.handle_found(at(0), &[SocketAddr::from(([10, 0, 0, 9], 1))]);
    let mut now = at(0);
    let mut ready = None;
    while ready.is_none() && now < at(10_000) {
        now = node.engine.poll_timeout();
        node.engine.handle_timeout(now);
        ready = std::iter::from_fn(|| node.engine.poll_event()).find(|event| *event == Event::Ready).map(|_| now);
    }
    assert!(ready.is_some_and(|at| at.as_nanos() / 1_000_000_000 == 2), "ready at {ready:?}");
}

#[test]
fn a_timeout_that_nobody_wanted_does_nothing() {
    let mut net = Net::pair(|_| {});
    for round in 0..300_u64 {
        // Something to do now and then.
        if round % 7 == 0 {
            let now = net.now;
            let _answer = net.nodes[0].check(now, round, 1);
        }
        for node in &mut net.nodes {
            let wanted = node.engine.poll_timeout();
            let (before, now) = (node.engine.stats(), net.now);
            let early = Timestamp::from_nanos(now.as_nanos().midpoint(wanted.as_nanos()));
            for spurious in [now, now, early, wanted.saturating_sub(Duration::from_nanos(1))] {
                if spurious < wanted {
                    node.engine.handle_timeout(spurious);
                    node.engine.handle_urgent(spurious);
                }
            }
            assert_eq!(node.outputs(), Vec::<String>::new(), "round {round}");
            assert_eq!((node.engine.stats(), node.engine.poll_timeout()), (before, wanted), "round {round}");
        }
        let next = net.nodes.iter().map(|node| node.engine.poll_timeout()).min().expect("two nodes");
        net.run_until(next);
    }
    assert!(net.now > at(3_000), "time has hardly passed: {:?}", net.now);
}

#[test]
fn what_one_admits_the_other_knows_within_a_sync_interval() {
    let mut net = Net::pair(|_| {});
    let now = net.now;
    assert!(net.nodes[0].check(now, 1, 2).allowed);
    let end = now.saturating_add(Duration::from_millis(200));
    net.run_until(end);
    // 2 permits went; the first may be back.
    let remaining = net.nodes[1].remaining(end, 1);
    assert!((8..10).contains(&remaining), "{remaining} remain");
    assert_eq!(net.nodes[1].engine.log().cells(), 1);
    // Nothing is charged twice, by whatever way it comes again.
    net.run_until(now.saturating_add(Duration::from_secs(10)));
    let cells = net.nodes[1].engine.log().cells_of(net.nodes[0].key(1)).collect::<Vec<_>>();
    assert_eq!((cells.len(), cells[0].count.permits, cells[0].run), (1, 2, RunId::from_raw(1)));
    assert_eq!(net.nodes[1].remaining(net.now, 1), 10);
    assert_eq!(net.nodes.iter().map(|node| node.engine.stats().drops.total()).sum::<u64>(), 0);
}

#[test]
fn the_last_permits_are_told_at_once() {
    let mut net = Net::pair(|_| {});
    let now = net.now;
    assert!(net.nodes[0].check(now, 1, 10).allowed);
    net.nodes[0].engine.handle_urgent(now);
    net.settle();
    assert_eq!(net.nodes[1].remaining(now, 1), 0);
    assert!(!net.nodes[1].check(now, 1, 1).allowed);
}

/// Some seconds of two nodes under load. The seeds come from outside.
fn story(seed: u64) -> Vec<String> {
    let now = at(1_000);
    let nodes = (1..=3).map(|id| Node::new(id, now, |config| config.seed = seed + u64::from(id))).collect();
    let mut net = Net::new(nodes, now, |_, frame| vec![frame.clone()]);
    let addrs: Vec<SocketAddr> = net.nodes.iter().map(|node| node.addr).collect();
    for node in &mut net.nodes {
        node.engine.handle_found(now, &addrs);
    }
    net.settle();
    for turn in 0..100_u64 {
        let now = net.now;
        let count = net.nodes.len();
        let _answer = net.nodes[turn as usize % count].check(now, turn % 5, turn % 3 + 1);
        net.run_until(now.saturating_add(Duration::from_millis(50)));
    }
    net.transcript
}

#[test]
fn equal_seeds_and_inputs_give_equal_bytes() {
    let (one, again) = (story(7), story(7));
    assert!(one.len() > 300, "only {} outputs", one.len());
    if let Some(at) = (0..one.len().max(again.len())).find(|at| one.get(*at) != again.get(*at)) {
        panic!("output {at} differs:\n{:?}\n{:?}", one.get(at), again.get(at));
    }
    // The seed is what decides.
    assert_ne!(one, story(8));
}

#[test]
fn leaving_tells_the_rest_and_then_falls_silent() {
    let mut net = Net::pair(|_| {});
    net.run_until(at(3_000));
    let now = net.now;
    assert!(net.nodes[0].check(now, 1, 3).allowed);
    net.nodes[0].engine.leave(now);
    net.settle();
    net.run_until(now.saturating_add(Duration::from_millis(600)));
    assert!(net.transcript.iter().any(|line| line.ends_with(" 0 Left")), "it never left");
    assert_eq!(net.nodes[1].engine.stats().peers, 0);
    assert_eq!(net.nodes[1].engine.log().cells_of(net.nodes[0].key(1)).count(), 1);
    let gone = &mut net.nodes[0];
    assert_eq!(gone.engine.poll_timeout(), Timestamp::MAX);
    gone.engine.handle_timeout(at(100_000));
    gone.engine.handle_urgent(at(100_000));
    gone.engine.leave(at(100_000));
    assert_eq!(gone.outputs(), Vec::<String>::new());
    assert_eq!(gone.engine.accept_stream(at(100_000)), None);
}

/// Goes on until the engine rests for a second. Returns when it wakes, and how often it was called.
fn until_rest(node: &mut Node, mut now: Timestamp) -> (Timestamp, usize) {
    for steps in 1..10_000 {
        node.engine.handle_timeout(now);
        let _outputs = node.outputs();
        let next = node.engine.poll_timeout();
        if next.saturating_since(now) > Duration::from_secs(1) {
            return (next, steps);
        }
        now = next;
    }
    panic!("it never rests");
}

#[test]
fn a_round_of_the_sweep_ends_when_both_of_its_halves_have_ended() {
    // 3,000 buckets that are idle and not full: the table goes round in five steps, the log in three.
    let hour = Duration::from_secs(3_600);
    let mut node = Node::with_quota(1, at(1_000), Quota::per_day(10), |config| {
        config.sweeping = Some(Sweeping { key_ttl: Duration::from_secs(2), interval: Duration::from_secs(60) });
        (config.sync_interval, config.anti_entropy_interval) = (hour, 100 * hour);
    });
    let own = node.addr;
    node.engine.handle_found(at(1_000), &[own]);
    for key in 0..3_000 {
        assert!(node.check(at(1_000), key, 5).allowed);
    }
    let mut now = at(1_000);
    while node.engine.log().cells() < 3_000 {
        now = until_rest(&mut node, now).0;
        assert!(now < at(7_200_000), "nothing is published");
    }
    // The first round in which all cells are idle, and the one after.
    for _ in 0..2 {
        let steps;
        (now, steps) = until_rest(&mut node, now);
        assert!(steps >= 5, "this was no round: {steps} steps");
        assert!(steps <= 5 + 3, "{steps} steps");
    }
    assert_eq!(node.engine.log().cells(), 3_000);
}
