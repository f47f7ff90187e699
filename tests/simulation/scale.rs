//! Large clusters: how fast news travels, and what it costs.

use std::{fmt, time::Duration};

use peerlimit::{
    Quota, Secrets,
    gossip::{
        EngineConfig,
        wire::{MAX_DATAGRAM, MAX_NAME_LEN, NodeName},
    },
};
use rand::RngExt;

use crate::sim::{cluster::Cluster, network::Link, oracle::Oracle};

/// What one size of cluster was measured at.
struct Figures {
    nodes: usize,
    /// A permit of a node that told nothing for a while.
    alone: Known,
    /// A permit of a node that told 49 others just before.
    fiftieth: Known,
    /// Per node and second.
    idle: Rate,
    busy: Rate,
    busy_for: Duration,
    /// One hot key at ten times its quota.
    ratio: f64,
    excess: f64,
}

/// Until half, 99 in a hundred, and the last of the nodes know of a permit that was spent, over all rounds.
struct Known {
    half: Duration,
    most: Duration,
    all: Duration,
}

#[derive(Clone, Copy)]
struct Rate {
    datagrams: f64,
    bytes: f64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, alone, fiftieth, idle, busy, busy_for, ratio, excess } = self;
        write!(
            f,
            "{nodes} nodes: a permit known after {alone}; the fiftieth in a row after {fiftieth}; idle {idle}; "
        )?;
        write!(f, "{BUSY_KEYS} busy keys for {busy_for:?} {busy}; ")?;
        write!(f, "hot key {ratio:.4} of central, {excess:.3} bursts above")
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} (p50), {:?} (p99), {:?} (everywhere)", self.half, self.most, self.all)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} datagrams/s and {:.1} kB/s a node", self.datagrams, self.bytes / 1000.0)
    }
}

const QUOTA: Quota = Quota::per_second(100).burst(50);

/// Comes back so slowly that waiting for a pace to recover gives no permit back.
const SLOW: &str = "slow";
const SLOW_QUOTA: Quota = Quota::per_hour(1).burst(50);

/// Is full again at once, so that each permit of it is granted, and urgent wherever there are many peers.
const ENDLESS: &str = "endless";
const ENDLESS_QUOTA: Quota = Quota::per_second(1_000_000).burst(50);

const BUSY_KEYS: usize = 1000;

/// All nodes are in one process here, and each keeps a cell of every node for every key: with a thousand nodes one
/// second of busy keys takes gigabytes.
fn busy_for(nodes: usize) -> Duration {
    Duration::from_secs(if nodes <= 300 { 3 } else { 1 })
}

const ROUNDS: usize = 20;

fn measure(nodes: usize, seed: u64) -> Figures {
    let mut cluster = Cluster::new(seed, nodes, QUOTA, Link::LAN, |_| {});
    for node in 0..nodes {
        let at = Duration::from_secs_f64(cluster.rng.random_range(0.0..5.0)).max(cluster.now);
        cluster.run_until(at.min(Duration::from_secs(5)));
        cluster.start(node);
    }
    cluster.add_scope(SLOW, SLOW_QUOTA);
    cluster.add_scope(ENDLESS, ENDLESS_QUOTA);
    let deadline = Duration::from_secs(120);
    while !cluster.all_see_all() {
        assert!(cluster.now < deadline, "{nodes} nodes do not find each other");
        cluster.run_for(Duration::from_secs(1));
    }
    // What is new about members has to die down.
    cluster.run_for(Duration::from_secs(30));

    let idle = rate(&mut cluster, Duration::from_secs(10), |_| {});

    let alone = known(&mut cluster, 0, |cluster, origin, key| {
        assert!(cluster.spend(origin, SLOW, key, 49));
        // Told, told again twice, and the pace has made up for all of it: a thousand nodes are half a second a round.
        cluster.run_for(Duration::from_secs(2));
        assert!((0..nodes).all(|node| cluster.remaining_in(node, SLOW, key) == 1), "{key} is not known");
    });
    let fiftieth = known(&mut cluster, ROUNDS, |cluster, origin, key| {
        for _ in 0..49 {
            assert!(cluster.spend(origin, SLOW, key, 1));
        }
        cluster.run_for(Duration::from_millis(40));
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

    // Rounds that may go at once after a pause would count as a rate in so short a time: they are used up before.
    for _ in 0..20 {
        for node in 0..nodes {
            assert!(cluster.spend(node, ENDLESS, "key", 1));
        }
        cluster.run_for(Duration::from_millis(20));
    }
    // A thousand keys, each at half its quota, anywhere.
    let keys: Vec<_> = (0..BUSY_KEYS).map(|key| cluster.digest(&format!("busy-{key}"))).collect();
    let busy_for = busy_for(nodes);
    let busy = rate(&mut cluster, busy_for, |cluster| {
        // 50 a second each: 50 requests a millisecond.
        for _ in 0..keys.len() / 20 {
            let key = keys[cluster.rng.random_range(0..keys.len())];
            let node = cluster.rng.random_range(0..nodes);
            let _allowed = cluster.check(node, key);
        }
    });

    Figures { nodes, alone, fiftieth, idle, busy, busy_for, ratio: oracle.tally.ratio(), excess: oracle.tally.excess }
}

/// How long it takes until the others know of the last permit of a key, each time at another node, from `first_origin`
/// on. `spend_others` spends those before it.
fn known(cluster: &mut Cluster, first_origin: usize, spend_others: impl Fn(&mut Cluster, usize, &str)) -> Known {
    let mut known = Vec::new();
    for origin in first_origin..first_origin + ROUNDS {
        let key = origin.to_string();
        spend_others(cluster, origin, &key);
        let begin = cluster.now;
        assert!(cluster.spend(origin, SLOW, &key, 1));
        let mut waiting: Vec<usize> = (0..cluster.size()).filter(|node| *node != origin).collect();
        while !waiting.is_empty() {
            assert!(cluster.now < begin + Duration::from_secs(30), "{} nodes do not hear of {key}", waiting.len());
            cluster.run_for(Duration::from_micros(100));
            let before = waiting.len();
            waiting.retain(|node| cluster.remaining_in(*node, SLOW, &key) > 0);
            known.extend((waiting.len()..before).map(|_| cluster.now - begin));
        }
    }
    // They were found in order within a round only.
    known.sort_unstable();
    let at = |part: usize| known[(known.len() * part / 100).min(known.len() - 1)];
    Known { half: at(50), most: at(99), all: at(100) }
}

/// Traffic per node and second while `each_millisecond` happens.
fn rate(cluster: &mut Cluster, over: Duration, mut each_millisecond: impl FnMut(&mut Cluster)) -> Rate {
    let (before, begin) = (cluster.traffic, cluster.now);
    while cluster.now < begin + over {
        cluster.run_for(Duration::from_millis(1));
        each_millisecond(cluster);
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
    assert!(figures.alone.all <= Duration::from_millis(10), "{figures}");
    assert!(figures.fiftieth.most <= Duration::from_millis(100), "{figures}");
    assert!(figures.idle.bytes <= 20_000.0, "{figures}");
    assert!((0.99..=1.01).contains(&figures.ratio), "{figures}");
    assert!(figures.excess <= 0.3, "{figures}");
}

#[test]
fn many_nodes_with_long_labels_under_a_seal_send_no_datagram_above_its_limit_and_converge() {
    fn longest(config: &mut EngineConfig) {
        let label = format!("{:0<1$}", config.name.as_str(), MAX_NAME_LEN);
        config.name = NodeName::try_from(label).expect("as long as it may be");
        config.secrets = Some(Secrets::new([[7; 32]]).expect("one"));
    }
    const NODES: usize = 60;
    let mut cluster = Cluster::new(1, NODES, QUOTA, Link::LAN, longest);
    (0..NODES).for_each(|node| cluster.start(node));
    cluster.run_until_it_holds("everybody sees everybody", Duration::from_secs(60), Cluster::all_see_all);
    // So many keys and scopes that a flush fills datagrams, in groups of every size.
    let scopes: Vec<String> = (0..20).map(|scope| format!("{scope}-").repeat(200)).collect();
    for scope in &scopes {
        cluster.add_scope(scope, SLOW_QUOTA);
    }
    let keys: Vec<String> = (0..50).map(|key| format!("{key}-").repeat(2_000)).collect();
    for node in 0..3 {
        for (number, scope) in scopes.iter().enumerate() {
            for key in &keys[..50 - 2 * number] {
                assert!(cluster.spend(node, scope, key, 1));
            }
        }
    }
    // A crash of some, so that there is much to say of members at once.
    (50..NODES).for_each(|node| cluster.crash(node));
    let seen = cluster.run_until_it_holds("all see who is left", Duration::from_secs(60), Cluster::all_see_all);
    cluster.run_for(Duration::from_secs(10));
    for node in cluster.running_nodes() {
        for (number, scope) in scopes.iter().enumerate() {
            for key in &keys[..50 - 2 * number] {
                assert_eq!(cluster.remaining_in(node, scope, key), 47, "node {node} has not heard of all");
            }
        }
        let stats = cluster.engine(node).stats();
        assert_eq!(stats.drops.total(), 0, "node {node}: {:?}", stats.drops);
    }
    let longest = cluster.longest_datagram;
    println!("the longest of {:?} has {longest} bytes; crashes noticed after {seen:?}", cluster.traffic);
    // And some are nearly full, or this would show nothing.
    assert!((MAX_DATAGRAM - 30..=MAX_DATAGRAM).contains(&longest), "{longest} bytes");
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

    let (begin, before) = (cluster.now, cluster.traffic);
    cluster.start(2);
    let (mut enforced, mut seen) = (None, None);
    while cluster.serving().len() < 3 {
        assert!(cluster.now < begin + Duration::from_secs(60), "the newcomer does not become ready");
        cluster.run_for(Duration::from_millis(1));
        if cluster.remaining(2, busy) == 0 {
            enforced = enforced.or(Some(cluster.now - begin));
        }
        if cluster.all_see_all() {
            seen = seen.or(Some(cluster.now - begin));
        }
    }
    let ready = cluster.now - begin;
    assert!(seen.is_some_and(|seen| seen <= Duration::from_secs(2)), "all are members after {seen:?}");
    // Each cell crosses the wire once, at some 30 bytes, and not from every member.
    let bytes = cluster.traffic.bytes - before.bytes;
    assert!(bytes <= 60 * u64::from(keys) + 100_000, "{bytes} bytes for {keys} cells");
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
#[ignore = "takes minutes and five gigabytes: cargo test --release --test simulation scale -- --ignored --nocapture"]
fn figures_of_a_hundred_to_a_thousand_nodes() {
    for nodes in sizes() {
        println!("{}", measure(nodes, 1));
    }
}
