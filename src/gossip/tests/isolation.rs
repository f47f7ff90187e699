//! A node that reaches nobody while keys come in by the ten thousand.

use super::*;

/// Keys that a table and a log hold here: less than two seconds' worth.
const CAP: usize = 1 << 16;
const NEW_KEYS_A_SECOND: u64 = 50_000;

fn capped(config: &mut EngineConfig) {
    config.limits.max_keys = CAP;
}

/// New keys come in for some seconds at a node that nobody hears.
#[derive(Default)]
struct Watch {
    keys: u64,
    /// Datagrams by the second.
    sent: Vec<u64>,
    /// Most datagrams that waited after one input.
    waiting: u64,
}

impl Watch {
    fn seconds(&mut self, node: &mut Node, mut now: Timestamp, seconds: u64) -> Timestamp {
        let step = Duration::from_millis(2);
        for _ in 0..seconds {
            let mut sent = 0;
            for _ in 0..1_000 / 2 {
                for _ in 0..NEW_KEYS_A_SECOND / 500 {
                    self.keys += 1;
                    let _passes = node.check(now, self.keys, 1);
                }
                now = now.saturating_add(step);
                if node.table.is_urgent() {
                    node.engine.handle_urgent(now);
                }
                sent += self.unheard(node, now);
                if node.engine.poll_timeout() <= now {
                    node.engine.handle_timeout(now);
                }
                sent += self.unheard(node, now);
            }
            self.sent.push(sent);
            let stats = node.engine.stats();
            assert!(stats.cells <= CAP as u64 + 1, "{} cells", stats.cells);
            assert!(node.table.stats().keys <= CAP as u64, "{} keys", node.table.stats().keys);
        }
        now
    }

    /// Drops what the node says. Its streams do not connect.
    fn unheard(&mut self, node: &mut Node, now: Timestamp) -> u64 {
        let sent = std::iter::from_fn(|| node.engine.poll_transmit()).count() as u64;
        while let Some(command) = node.engine.poll_stream() {
            if let StreamCommand::Open(id, _) = command {
                node.engine.handle_stream_closed(now, id);
            }
        }
        while node.engine.poll_event().is_some() {}
        self.waiting = self.waiting.max(sent);
        sent
    }
}

/// Waits for a flush and looks that everything was published that is remembered.
fn drains(watch: &mut Watch, node: &mut Node, now: Timestamp) -> Timestamp {
    let mut later = now;
    for _ in 0..500 {
        later = later.saturating_add(Duration::from_millis(2));
        if node.engine.poll_timeout() <= later {
            node.engine.handle_timeout(later);
        }
        watch.unheard(node, later);
    }
    let mut left = Vec::new();
    node.table.drain_dirty(later, &mut left);
    assert_eq!(left.len(), 0, "keys are still not published after a second");
    let (table, published) = (node.table.stats(), node.engine.stats().published);
    // What found no bucket left nothing to publish.
    assert_eq!(published + table.untracked, watch.keys, "{table:?}");
    later
}

fn a_node_alone(seconds: u64) {
    let mut node = Node::new(1, at(1_000), capped);
    let own = node.addr;
    node.engine.handle_found(at(1_000), &[own]);
    let mut watch = Watch::default();
    let now = watch.seconds(&mut node, at(1_000), seconds);
    drains(&mut watch, &mut node, now);
    assert_eq!(watch.sent, vec![0; seconds as usize], "it tells nobody something");
    assert!(node.engine.stats().published > seconds * NEW_KEYS_A_SECOND / 2);
}

#[test]
fn a_node_alone_has_nothing_to_send_and_its_queue_of_keys_drains() {
    a_node_alone(60);
}

fn cut_off_for(seconds: u64) {
    let now = at(1_000);
    let nodes: Vec<_> = (1..=3).map(|id| Node::new(id, now, capped)).collect();
    let mut net = Net::new(nodes, now, |_, frame| vec![frame.clone()]);
    let addrs: Vec<SocketAddr> = net.nodes.iter().map(|node| node.addr).collect();
    for node in &mut net.nodes {
        node.engine.handle_found(now, &addrs);
    }
    net.settle();
    net.run_until(at(10_000));
    assert!(net.nodes.iter().all(|node| node.engine.stats().peers == 2), "they do not know each other");
    assert!(net.links.is_empty(), "an exchange is under way");

    let (mut cut_off, mut watch, mut now) = (net.nodes.pop().expect("three nodes"), Watch::default(), net.now);
    now = watch.seconds(&mut cut_off, now, seconds);
    // As long as it takes its peers for alive it tells them within its budget; after that it knocks now and then.
    let most = 2_000 + 8 * 2 + 50;
    assert!(watch.sent.iter().all(|sent| *sent <= most), "datagrams by the second: {:?}", watch.sent);
    assert_eq!(cut_off.engine.stats().peers, 0, "it takes them for alive for ever");
    let (later, alone) = (&watch.sent[20..], watch.sent[20..].iter().sum::<u64>());
    assert!(later.iter().all(|sent| *sent <= 20), "datagrams by the second: {later:?}");
    assert!(alone > 0, "it does not look for anybody any more");
    assert!(watch.waiting <= 2_000, "{} datagrams waited at once", watch.waiting);
    assert_eq!(cut_off.engine.stats().drops.backlog, 0);
    now = drains(&mut watch, &mut cut_off, now);

    // Back among the others it is one of them, and what is spent anywhere is known everywhere.
    net.run_until(now);
    assert!(net.nodes.iter().all(|node| node.engine.stats().peers == 1));
    net.nodes.push(cut_off);
    for index in 0..3 {
        net.nodes[index].engine.handle_found(now, &addrs);
        net.settle();
    }
    net.run_until(now.saturating_add(Duration::from_secs(10)));
    for (spender, key) in [(0, u64::MAX), (2, u64::MAX - 1)] {
        let now = net.now;
        assert!(net.nodes[spender].check(now, key, 10).allowed);
        net.nodes[spender].engine.handle_urgent(now);
        net.settle();
        for node in &net.nodes {
            assert_eq!(node.remaining(now, key), 0, "{:?} has not heard of it", node.engine.identity().name);
        }
    }
}

#[test]
fn a_node_that_is_cut_off_under_a_flood_of_keys_queues_nothing_and_is_whole_after_it() {
    cut_off_for(60);
}

/// The same for as long as a bad incident takes.
#[test]
#[ignore = "takes a minute: cargo test --release ten_minutes -- --ignored"]
fn ten_minutes_of_a_flood_of_keys_leave_the_queues_as_they_were() {
    a_node_alone(600);
    cut_off_for(600);
}

#[test]
fn a_socket_that_takes_nothing_for_ten_minutes_leaves_a_bounded_queue() {
    let mut net = Net::pair(capped);
    let mut now = net.now;
    let mut node = net.nodes.remove(0);
    let (mut key, mut on_streams, before) = (0, 0, node.engine.stats().frames_out);
    for _ in 0..6_000 {
        for _ in 0..50 {
            key += 1;
            let _passes = node.check(now, key, 10);
        }
        now = now.saturating_add(Duration::from_millis(100));
        while node.engine.poll_timeout() <= now {
            let due = node.engine.poll_timeout();
            node.engine.handle_timeout(due.max(now.saturating_sub(Duration::from_millis(100))));
        }
        while let Some(command) = node.engine.poll_stream() {
            match command {
                StreamCommand::Open(id, _) => node.engine.handle_stream_closed(now, id),
                StreamCommand::Send(..) => on_streams += 1,
                StreamCommand::Close(_) | StreamCommand::Cut(_) => {}
            }
        }
    }
    let mut waiting = 0_u64;
    while node.engine.poll_transmit().is_some() {
        waiting += 1;
    }
    let stats = node.engine.stats();
    assert_eq!(waiting, stats.frames_out - before - on_streams, "{stats:?}");
    assert!((1_000..=1 << 16).contains(&waiting), "{waiting} datagrams wait");
    assert!(stats.cells <= CAP as u64 + 1);
}
