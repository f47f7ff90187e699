//! What part of a core one of ten nodes takes while all of them use the same busy keys: `cargo bench --bench share`.
//!
//! Ten real nodes on loopback, in this process, with two threads for all of them. Each uses every key once an interval of
//! the flush, so that each flush tells of all keys: no load of so many keys has more to tell. The processor time of the
//! process, less what the same decisions take on nodes without peers, is what gossip takes.
//!
//! Linux only: it reads `/proc/self/stat`.

#![allow(clippy::expect_used, reason = "a benchmark that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(unreachable_pub, reason = "modules of a benchmark are private by nature")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "other benchmarks need more of it")]
mod support;

use std::{
    fs,
    net::SocketAddr,
    time::{Duration, Instant},
};

use peerlimit::{Limiter, Quota, StaticDiscoverer, Stats};

use support::options::Options;

const NODES: usize = 10;
/// How often each node uses each key: the interval of the flush.
const EVERY: Duration = Duration::from_millis(200);
/// Never urgent, so what is measured is the flush, the merge and SWIM.
const QUOTA: Quota = Quota::per_second(1_000_000);
/// Unit of the times in `/proc/self/stat`, the same on all Linux platforms.
const TICK: Duration = Duration::from_millis(10);

fn main() {
    let options = Options::read();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    println!("{NODES} nodes in one process, each uses each key every {EVERY:?}; a node:");
    println!("  keys | gossip, of a core | datagrams/s, kB/s sent | cells/s merged | cells/s told of, of those used");
    for keys in [1_000, 10_000] {
        if options.wants(&format!("{keys} keys")) {
            runtime.block_on(measure(keys, options.size(Duration::from_secs(10), Duration::from_secs(2))));
        }
    }
}

async fn measure(keys: usize, time: Duration) {
    let names: Vec<String> = (0..keys).map(|key| format!("user:{key}")).collect();
    let nodes = cluster().await;
    let alone: Vec<Limiter> = (0..NODES).map(|_| Limiter::local(QUOTA)).collect();
    let decisions = used(&alone, &names, time).await;
    // What is new about keys and members has to die down.
    let _warm = used(&nodes, &names, Duration::from_secs(1)).await;
    let before = totals(&nodes);
    let whole = used(&nodes, &names, time).await;
    let after = totals(&nodes);
    let each = |of: fn(&Totals) -> u64| (of(&after) - of(&before)) as f64 / time.as_secs_f64() / NODES as f64;
    println!(
        "{keys:6} | {:15.1} % | {:11.0} {:10.0} | {:14.0} | {:12.0} of {:.0}",
        100.0 * whole.saturating_sub(decisions).as_secs_f64() / time.as_secs_f64() / NODES as f64,
        each(|totals| totals.frames_out),
        each(|totals| totals.bytes_out) / 1_000.0,
        each(|totals| totals.merges),
        each(|totals| totals.merges) / (NODES - 1) as f64,
        keys as f64 / EVERY.as_secs_f64(),
    );
    for node in nodes {
        node.close().await;
    }
}

/// Uses all keys at all nodes once every [`EVERY`] for `time`. Returns the processor time of the process meanwhile.
async fn used(nodes: &[Limiter], names: &[String], time: Duration) -> Duration {
    let (begin, before) = (Instant::now(), processor_time());
    let mut ticks = tokio::time::interval(EVERY / NODES as u32);
    let mut turn = 0;
    while begin.elapsed() < time {
        ticks.tick().await;
        // The nodes take turns, as nodes do that started at different times.
        let passed = names.iter().filter(|name| nodes[turn % NODES].allow(name)).count();
        assert_eq!(passed, names.len(), "nothing is refused");
        turn += 1;
    }
    processor_time() - before
}

async fn cluster() -> Vec<Limiter> {
    let mut nodes: Vec<Limiter> = Vec::new();
    for _ in 0..NODES {
        let builder = Limiter::builder(QUOTA).cluster("bench").bind(SocketAddr::from(([127, 0, 0, 1], 0)));
        let first = nodes.first().and_then(Limiter::local_addr).map(|addr| addr.to_string());
        let node = builder.discover(StaticDiscoverer::new(first)).start().await.expect("a node on loopback");
        nodes.push(node);
    }
    let give_up = Instant::now() + Duration::from_secs(30);
    while nodes.iter().any(|node| node.members().len() < NODES) {
        assert!(Instant::now() < give_up, "the nodes do not find each other");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    nodes
}

#[derive(Default)]
struct Totals {
    frames_out: u64,
    bytes_out: u64,
    merges: u64,
}

fn totals(nodes: &[Limiter]) -> Totals {
    nodes.iter().map(Limiter::stats).fold(Totals::default(), |sum, stats: Stats| Totals {
        frames_out: sum.frames_out + stats.frames_out,
        bytes_out: sum.bytes_out + stats.bytes_out,
        merges: sum.merges + stats.merges,
    })
}

/// What this process has had of the processors.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux has it");
    // The name before may hold anything; user and system time are the 12th and 13th field after it.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(11).take(2);
    let ticks: u32 = fields.map(|field| field.parse::<u32>().expect("a number")).sum();
    TICK * ticks
}
