//! Large clusters: how fast news travels, and what it costs.

use std::{fmt, time::Duration};

use peerlimit::Quota;
use rand::RngExt;

use crate::sim::{cluster::Cluster, network::Link, oracle::Oracle};

/// What one size of cluster was measured at.
struct Figures {
    nodes: usize,
    /// Until half, and all but one in a hundred, of the nodes know of a permit that was spent.
    known_p50: Duration,
    known_p99: Duration,
    /// Per node and second.
    idle: Rate,
    /// Not measured beyond [`MOST_BUSY`] nodes.
    busy: Option<Rate>,
    /// One hot key at ten times its quota.
    ratio: f64,
    excess: f64,
}

#[derive(Clone, Copy)]
struct Rate {
    datagrams: f64,
    bytes: f64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, known_p50, known_p99, idle, busy, ratio, excess } = self;
        write!(f, "{nodes} nodes: known after {known_p50:?} (p50), {known_p99:?} (p99); idle {idle}; ")?;
        if let Some(busy) = busy {
            write!(f, "1,000 busy keys {busy}; ")?;
        }
        write!(f, "hot key {ratio:.4} of central, {excess:.3} bursts above")
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} datagrams/s and {:.1} kB/s a node", self.datagrams, self.bytes / 1000.0)
    }
}

/// With more nodes, all cells of all nodes do not fit into one process's memory.
const MOST_BUSY: usize = 300;

const QUOTA: Quota = Quota::per_second(100).burst(50);

fn measure(nodes: usize, seed: u64) -> Figures {
    let mut cluster = Cluster::new(seed, nodes, QUOTA, Link::LAN, |_| {});
    for node in 0..nodes {
        let at = Duration::from_secs_f64(cluster.rng.random_range(0.0..5.0)).max(cluster.now);
        cluster.run_until(at.min(Duration::from_secs(5)));
        cluster.start(node);
    }
    let deadline = Duration::from_secs(120);
    while !cluster.all_see_all() {
        assert!(cluster.now < deadline, "{nodes} nodes do not find each other");
        cluster.run_for(Duration::from_secs(1));
    }
    // What is new about members has to die down.
    cluster.run_for(Duration::from_secs(30));

    let idle = rate(&mut cluster, Duration::from_secs(10), |_, _| {});

    let mut known = Vec::new();
    for round in 0..20 {
        let key = cluster.digest(&format!("slow-{round}"));
        let origin = cluster.rng.random_range(0..nodes);
        // Spent but for one, and known to be: the next permit is worth telling.
        for _ in 0..49 {
            assert!(cluster.check(origin, key));
        }
        cluster.run_for(Duration::from_millis(40));
        let before: Vec<u64> = (0..nodes).map(|node| cluster.remaining(node, key)).collect();
        let begin = cluster.now;
        assert!(cluster.check(origin, key));
        let mut waiting: Vec<usize> = (0..nodes).filter(|node| *node != origin).collect();
        while !waiting.is_empty() && cluster.now < begin + Duration::from_secs(5) {
            cluster.run_for(Duration::from_millis(1));
            let refilled = (cluster.now - begin).as_secs_f64() * 100.0;
            waiting.retain(|node| {
                let unknowing = before[*node] as f64 + refilled.floor();
                let knows = (cluster.remaining(*node, key) as f64) < unknowing.min(50.0);
                if knows {
                    known.push(cluster.now - begin);
                }
                !knows
            });
        }
        known.extend(waiting.iter().map(|_| Duration::from_secs(5)));
        cluster.run_for(Duration::from_secs(1));
    }
    known.sort_unstable();

    // A thousand keys, each at half its quota, anywhere.
    let keys: Vec<_> = (0..1000).map(|key| cluster.digest(&format!("busy-{key}"))).collect();
    let busy = (nodes <= MOST_BUSY).then(|| {
        rate(&mut cluster, Duration::from_secs(3), |cluster, elapsed| {
            // 50 a second each: 50 requests a millisecond.
            for _ in 0..50 {
                let key = keys[cluster.rng.random_range(0..keys.len())];
                let node = cluster.rng.random_range(0..nodes);
                let _allowed = cluster.check(node, key);
            }
            elapsed
        })
    });

    cluster.run_for(Duration::from_secs(2));
    let hot = cluster.digest("hot");
    let mut oracle = Oracle::new(QUOTA, Duration::from_millis(10));
    let begin = cluster.now;
    while cluster.now < begin + Duration::from_secs(10) {
        cluster.run_for(Duration::from_millis(1));
        let node = cluster.rng.random_range(0..nodes);
        let allowed = cluster.check(node, hot);
        oracle.arrival(cluster.now, allowed);
    }
    Figures {
        nodes,
        known_p50: known[known.len() / 2],
        known_p99: known[known.len() * 99 / 100],
        idle,
        busy,
        ratio: oracle.tally.ratio(),
        excess: oracle.tally.excess,
    }
}

/// Traffic per node and second while `each_millisecond` happens.
fn rate<T>(
    cluster: &mut Cluster,
    over: Duration,
    mut each_millisecond: impl FnMut(&mut Cluster, Duration) -> T,
) -> Rate {
    let (before, begin) = (cluster.traffic, cluster.now);
    while cluster.now < begin + over {
        cluster.run_for(Duration::from_millis(1));
        let elapsed = cluster.now - begin;
        each_millisecond(cluster, elapsed);
    }
    let per = cluster.size() as f64 * over.as_secs_f64();
    Rate {
        datagrams: (cluster.traffic.datagrams - before.datagrams) as f64 / per,
        bytes: (cluster.traffic.bytes - before.bytes) as f64 / per,
    }
}

#[test]
fn a_hundred_nodes_know_of_a_spent_permit_within_a_tenth_of_a_second() {
    let figures = measure(100, 1);
    println!("{figures}");
    assert!(figures.known_p99 <= Duration::from_millis(100), "{figures}");
    assert!(figures.idle.bytes <= 20_000.0, "{figures}");
    assert!((0.99..=1.01).contains(&figures.ratio), "{figures}");
    assert!(figures.excess <= 0.3, "{figures}");
}

/// A newcomer to a cluster with so many live keys. Returns how long it took until it held the busy one for spent, and
/// until it was ready.
fn newcomer_to(keys: u32) -> (Duration, Duration) {
    let quota = Quota::per_hour(10);
    let mut cluster = Cluster::new(1, 3, quota, Link::LAN, |_| {});
    cluster.start(0);
    cluster.start(1);
    cluster.run_for(Duration::from_secs(5));
    for key in 0..keys {
        let key = cluster.digest(&key.to_string());
        assert!(cluster.check(0, key));
        if u64::from(key.word() as u32) % 64 == 0 {
            cluster.run_for(Duration::from_millis(1));
        }
    }
    let busy = cluster.digest("busy");
    while cluster.check(1, busy) {}
    cluster.run_for(Duration::from_secs(60));
    for node in 0..2 {
        assert_eq!(cluster.engine(node).stats().cells, u64::from(keys) + 1, "node {node} has not heard of all");
    }

    let begin = cluster.now;
    cluster.start(2);
    let mut enforced = None;
    while cluster.serving().len() < 3 {
        assert!(cluster.now < begin + Duration::from_secs(60), "the newcomer does not become ready");
        cluster.run_for(Duration::from_millis(1));
        if cluster.remaining(2, busy) == 0 {
            enforced = enforced.or(Some(cluster.now - begin));
        }
    }
    let ready = cluster.now - begin;
    assert_eq!(cluster.engine(2).stats().cells, u64::from(keys) + 1, "the newcomer has not got all");
    assert_eq!(cluster.table(2).stats().keys, u64::from(keys) + 1);
    (enforced.unwrap_or(ready), ready)
}

#[test]
fn a_newcomer_to_many_keys_enforces_the_busy_ones_first() {
    let (enforced, ready) = newcomer_to(50_000);
    println!("50,000 keys: busy key enforced after {enforced:?}, ready after {ready:?}");
    assert!(enforced < Duration::from_millis(100), "{enforced:?}");
    assert!(ready < Duration::from_secs(5), "{ready:?}");
}

/// As above, with a million keys.
#[test]
#[ignore = "takes a gigabyte: cargo test --release --test simulation a_million -- --ignored --nocapture"]
fn a_newcomer_to_a_million_keys_enforces_the_busy_ones_first() {
    let (enforced, ready) = newcomer_to(1_000_000);
    println!("1,000,000 keys: busy key enforced after {enforced:?}, ready after {ready:?}");
    assert!(enforced < Duration::from_secs(5), "{enforced:?}");
    assert!(ready < Duration::from_secs(30), "{ready:?}");
}

/// `PEERLIMIT_NODES=300` measures that size alone.
fn sizes() -> Vec<usize> {
    let one = std::env::var("PEERLIMIT_NODES").ok().and_then(|nodes| nodes.parse().ok());
    one.map_or_else(|| vec![100, 300, 1000], |nodes| vec![nodes])
}

/// The figures of DESIGN.md: `cargo test --release --test simulation scale -- --ignored --nocapture`.
#[test]
#[ignore = "takes minutes: cargo test --release --test simulation scale -- --ignored --nocapture"]
fn figures_of_a_hundred_to_a_thousand_nodes() {
    for nodes in sizes() {
        println!("{}", measure(nodes, 1));
    }
}
