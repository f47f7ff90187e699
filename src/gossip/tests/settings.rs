//! Engines at the ends of what a builder accepts.

use super::*;

const MS: fn(u64) -> Duration = Duration::from_millis;
const SECS: fn(u64) -> Duration = Duration::from_secs;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Every time as long as it may be.
fn longest(config: &mut EngineConfig) {
    config.sync_interval = SECS(60);
    config.push_gap = SECS(10);
    config.anti_entropy_interval = SECS(60);
    config.sweeping = Some(Sweeping { key_ttl: 365 * DAY, interval: DAY });
    config.swim.probe_interval = SECS(60);
    config.swim.probe_timeout = SECS(18);
    config.swim.suspicion_timeout = SECS(600);
    config.datagram_budget = 10;
}

/// Every time as short as it may be.
fn shortest(config: &mut EngineConfig) {
    config.sync_interval = MS(10);
    config.push_gap = MS(1);
    config.anti_entropy_interval = MS(100);
    config.sweeping = Some(Sweeping { key_ttl: SECS(1), interval: MS(10) });
    config.swim.probe_interval = MS(100);
    config.swim.probe_timeout = MS(30);
    config.swim.suspicion_timeout = MS(100);
    config.datagram_budget = 1_000_000;
}

/// Longer than any clock runs, apart from the gap between pushes, which is multiplied.
fn endless(config: &mut EngineConfig) {
    config.sync_interval = Duration::MAX;
    config.anti_entropy_interval = Duration::MAX;
    config.sweeping = Some(Sweeping { key_ttl: Duration::MAX, interval: Duration::MAX });
    config.swim.suspicion_timeout = Duration::MAX;
    config.swim.forget_after = Duration::MAX;
}

fn news_travels(net: &mut Net, within: Duration, what: &str) {
    for (from, to) in [(0, 1), (1, 0)] {
        let now = net.now;
        let (key, merges) = (now.as_nanos(), net.nodes[to].engine.stats().merges);
        assert!(net.nodes[from].check(now, key, 10).allowed, "{what}");
        net.nodes[from].engine.handle_urgent(now);
        net.settle();
        net.run_until(now.saturating_add(within));
        // Where times are short its cell is gone again.
        assert!(net.nodes[to].engine.stats().merges > merges, "{what}: {to} has not heard of it");
    }
}

#[test]
fn a_cluster_at_the_longest_and_shortest_times_that_are_accepted_works_and_goes_on_working() {
    // Two nodes that are a day old, so that a sweep has begun; the shortest times are played for a shorter while.
    for (what, tune, uptime, within) in
        [("longest", longest as fn(&mut EngineConfig), 2 * DAY, SECS(61)), ("shortest", shortest, SECS(600), MS(500))]
    {
        let mut net = Net::pair(tune);
        news_travels(&mut net, within, what);
        let end = net.now.saturating_add(uptime);
        // The transcript of two days would not fit.
        while net.now < end {
            net.transcript.clear();
            (net.datagrams, net.frames) = (Vec::new(), Vec::new());
            net.run_until(end.min(net.now.saturating_add(SECS(600))));
        }
        news_travels(&mut net, within, what);
        for node in &net.nodes {
            let stats = node.engine.stats();
            assert_eq!((stats.peers, stats.drops.total(), stats.syncs_failed), (1, 0, 0), "{what}: {stats:?}");
            assert!(stats.syncs > 100, "{what}: {stats:?}");
        }
    }
}

#[test]
fn one_node_at_the_longest_times_and_one_at_the_shortest_work_together() {
    let now = at(1_000);
    let mut net =
        Net::joined(vec![Node::new(1, now, longest), Node::new(2, now, shortest)], |_, frame| vec![frame.clone()]);
    for _ in 0..20 {
        news_travels(&mut net, SECS(61), "mixed");
        net.transcript.clear();
    }
    assert!(net.nodes.iter().all(|node| node.engine.stats().peers == 1));
}

#[test]
fn times_without_end_are_harmless_even_where_nobody_has_checked_them() {
    // The builder refuses these; an engine that gets them all the same neither panics nor works itself to death.
    for now in [Timestamp::ZERO, at(1_000), Timestamp::from_nanos(1 << 62), Timestamp::MAX] {
        let mut node = Node::new(1, now, endless);
        node.engine.handle_found(now, &[SocketAddr::from(([10, 0, 0, 9], 1))]);
        let mut time = now;
        for step in 0..1_000 {
            let _decision = node.check(time, step % 10, 1);
            node.engine.handle_urgent(time);
            let _outputs = node.outputs();
            let next = node.engine.poll_timeout();
            if next == Timestamp::MAX {
                break;
            }
            time = time.max(next);
            node.engine.handle_timeout(time);
        }
        node.engine.leave(time);
        let _outputs = node.outputs();
    }
}

#[test]
fn a_cluster_whose_clocks_are_ten_years_old_works_as_one_that_is_new() {
    let now = Timestamp::from_nanos(10 * 365 * DAY.as_nanos() as u64);
    let nodes: Vec<_> = (1..=2).map(|id| Node::new(id, now, |_| {})).collect();
    let mut net = Net::new(nodes, now, |_, frame| vec![frame.clone()]);
    let first = net.nodes[0].addr;
    net.nodes[1].engine.handle_found(now, &[first]);
    net.settle();
    net.run_until(now.saturating_add(SECS(5)));
    news_travels(&mut net, SECS(1), "old");
    net.run_until(net.now.saturating_add(SECS(3_600)));
    news_travels(&mut net, SECS(1), "old");
    for node in &net.nodes {
        let stats = node.engine.stats();
        assert_eq!((stats.peers, stats.drops.total()), (1, 0), "{stats:?}");
        // All keys are full again and swept away.
        assert!(stats.cells <= 2 && node.table.stats().keys <= 2, "{stats:?}");
    }
}
