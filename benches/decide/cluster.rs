//! A decision while gossip runs, beside the same decision on a table that nobody tells of.
//!
//! The node under measurement is a real [`Limiter`] on loopback. Its nine peers are real ones too, in one thread of a
//! child process: in this process they would share its allocator and its caches, and a runtime for each would take
//! more than two cores. Each admits some hundred requests a second of keys that are measured, so their news arrive
//! in the same buckets. Peers and gossip go on while the bare table is measured: what they take from the machine is
//! taken from both sides, and the ratio is what a decision itself pays.

use std::{
    env,
    io::Read as _,
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use peerlimit::{Limiter, StartError, StaticDiscoverer};

use crate::{
    single::{AMPLE, nanos},
    support::{
        keys::{Accesses, Spread, names, short},
        options::Options,
        rivals::{BareTable, Rival},
        rounds::{Contestant, interleave},
    },
    threads::{Sample, sample},
};

/// Set in the child process: the address of the node under measurement, and how many keys there are.
const PEERS_OF: &str = "PEERLIMIT_BENCH_PEERS_OF";
const PEERS: usize = 9;
/// Admissions of one peer in a tick.
const EACH_TICK: usize = 4;
const TICK: Duration = Duration::from_millis(10);

pub fn run(options: &Options) {
    let cells = [1_000, 100_000].map(|keys| (keys, format!("cluster {}", short(keys))));
    let cells: Vec<_> = cells.into_iter().filter(|(_, name)| options.wants(name)).collect();
    if cells.is_empty() {
        return;
    }
    println!("\nns a decision while {PEERS} peers gossip, {EACH_TICK} admissions each every {TICK:?}");
    println!("cell         |   bare  whole | whole / bare | merged and received in a second");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    for (keys, name) in cells {
        let limiter = runtime.block_on(start(None)).expect("a node on loopback");
        let peers = Peers::start(&limiter, keys);
        measure(options, &name, keys, &limiter);
        drop(peers);
        runtime.block_on(limiter.close());
    }
}

fn measure(options: &Options, name: &str, keys: usize, limiter: &Limiter) {
    let names = names(keys);
    let bare = BareTable::local(AMPLE);
    assert!(names.iter().all(|name| limiter.allow(name) && bare.allow(0, name)), "a first request passes");
    let accesses = Accesses::new(&names, Spread::Uniform);
    let (before, begun) = (limiter.stats(), Instant::now());
    let decisions = options.size(1 << 22, 1 << 20);
    let measured = interleave(
        options.rounds(),
        &mut [contestant(&bare, &accesses, decisions), contestant(limiter, &accesses, decisions)],
    );
    let (after, took) = (limiter.stats(), begun.elapsed().as_secs_f64());
    let each_second = |of: fn(&peerlimit::Stats) -> u64| (of(&after) - of(&before)) as f64 / took;
    println!(
        "{name:12} | {:6.1} {:6.1} | {:12.3} | {:.0} cells, {:.0} frames",
        measured.median(0, nanos),
        measured.median(1, nanos),
        measured.ratio(1, 0, nanos),
        each_second(|stats| stats.merges),
        each_second(|stats| stats.frames_in),
    );
}

fn contestant<'a, R: Rival>(rival: &'a R, accesses: &'a Accesses, decisions: usize) -> Contestant<'a, Sample> {
    let mut turn = 0;
    Box::new(move || {
        turn += 1;
        let work = |thread, keys: &[String]| keys.iter().filter(|key| rival.allow(thread, key)).count();
        sample(1, accesses, turn, decisions, work)
    })
}

async fn start(peer: Option<SocketAddr>) -> Result<Limiter, StartError> {
    let builder = Limiter::builder(AMPLE).bind(SocketAddr::from(([127, 0, 0, 1], 0)));
    let builder = builder.cluster("bench");
    match peer {
        Some(peer) => builder.discover(StaticDiscoverer::new([peer.to_string()])).start().await,
        None => builder.start().await,
    }
}

/// The child process. It ends when its standard input does, so also when this process dies.
struct Peers(Child);

impl Peers {
    const JOIN_DEADLINE: Duration = Duration::from_secs(30);

    /// Starts them, and waits until all are members.
    fn start(limiter: &Limiter, keys: usize) -> Self {
        let addr = limiter.local_addr().expect("it is on the network");
        let program = env::current_exe().expect("this program has a path");
        let child = Command::new(program).env(PEERS_OF, format!("{addr} {keys}")).stdin(Stdio::piped()).spawn();
        let peers = Self(child.expect("this program can be started again"));
        let give_up = Instant::now() + Self::JOIN_DEADLINE;
        while limiter.members().len() <= PEERS {
            assert!(Instant::now() < give_up, "{} members after half a minute", limiter.members().len());
            std::thread::sleep(TICK);
        }
        peers
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // Whether it ended well is no part of the measurement.
        let _status = self.0.wait();
    }
}

/// In the child process: is the peers until standard input ends. Elsewhere: says no.
pub fn serves_as_peers() -> bool {
    let Ok(told) = env::var(PEERS_OF) else { return false };
    let (addr, keys) = told.split_once(' ').expect("an address and a number");
    let (addr, keys) = (addr.parse().expect("an address"), keys.parse().expect("a number"));
    std::thread::spawn(|| {
        // An error ends it as well as the end does.
        let _ended = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(be_peers(addr, keys));
    true
}

async fn be_peers(addr: SocketAddr, keys: usize) {
    let mut peers = Vec::new();
    for _ in 0..PEERS {
        peers.push(start(Some(addr)).await.expect("a peer on loopback"));
    }
    let accesses = Accesses::new(&names(keys), Spread::Uniform);
    let mut ticks = tokio::time::interval(TICK);
    for turn in 0.. {
        ticks.tick().await;
        for (index, peer) in peers.iter().enumerate() {
            let keys = accesses.chunks_from(turn * PEERS + index, EACH_TICK).take(1).flatten();
            let passed = keys.filter(|key| peer.allow(key)).count();
            debug_assert_eq!(passed, EACH_TICK, "the quota is ample");
        }
    }
}
