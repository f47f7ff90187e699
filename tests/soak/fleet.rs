//! Nodes that come and go.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    sync::{
        PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use peerlimit::{Limiter, Quota, StaticDiscoverer};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use tokio::runtime::{Builder, Runtime};

use crate::wait::eventually;

pub(crate) const NODES: usize = 10;
/// Nodes that are never replaced. What the others leave behind would gather in them.
const OLD: usize = 2;
/// Time between two replacements.
const PAUSE: Duration = Duration::from_millis(500);

const QUOTA: Quota = Quota::per_second(100).burst(50);
/// Most keys a node. Less than the flood brings in the time to live, so that logs are at their cap.
const MAX_KEYS: usize = 8_192;
const KEY_TTL: Duration = Duration::from_secs(2);
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);

/// Real nodes on loopback.
pub(crate) struct Fleet {
    runtime: Runtime,
    /// The old ones first.
    nodes: RwLock<Vec<Limiter>>,
    started: AtomicUsize,
}

impl Fleet {
    /// All nodes, which need not know each other yet.
    pub(crate) fn start() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let fleet = Self { runtime, nodes: RwLock::default(), started: AtomicUsize::new(0) };
        for _ in 0..NODES {
            fleet.start_node((Ipv4Addr::LOCALHOST, 0).into());
        }
        fleet
    }

    /// The living.
    pub(crate) fn nodes(&self) -> RwLockReadGuard<'_, Vec<Limiter>> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, which is told of those that live now.
    fn start_node(&self, bind: SocketAddr) {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let peers: Vec<_> = self.nodes().iter().filter_map(Limiter::local_addr).map(|addr| addr.to_string()).collect();
        let builder = Limiter::builder(QUOTA)
            .node(format!("node-{number}"))
            .bind(bind)
            .discover(StaticDiscoverer::new(peers))
            .discover_interval(Duration::from_millis(500))
            .probe_interval(Duration::from_millis(300))
            .suspicion_timeout(Duration::from_millis(600))
            .evict_idle(KEY_TTL, SWEEP_INTERVAL)
            .max_keys(MAX_KEYS);
        let node = self.runtime.block_on(builder.start()).unwrap();
        self.nodes.write().unwrap_or_else(PoisonError::into_inner).push(node);
    }

    /// Replaces one node after the other while `on`. How many it were.
    pub(crate) fn churn(&self, on: &AtomicBool, seed: u64) -> usize {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut replaced = 0;
        while on.load(Ordering::Relaxed) {
            thread::sleep(PAUSE);
            self.replace(&mut rng);
            replaced += 1;
        }
        replaced
    }

    /// A node goes, with a good-bye or without, and another one comes, at its address or another.
    fn replace(&self, rng: &mut Xoshiro256PlusPlus) {
        let index = rng.random_range(OLD..NODES);
        let gone = self.nodes.write().unwrap_or_else(PoisonError::into_inner).remove(index);
        let addr = gone.local_addr().expect("a node on the network");
        if rng.random() {
            self.runtime.block_on(gone.close());
        }
        drop(gone);
        if rng.random() {
            // A task frees it, which is not instant.
            eventually("the port is free", || TcpListener::bind(addr).is_ok() && UdpSocket::bind(addr).is_ok());
            self.start_node(addr);
        } else {
            self.start_node((Ipv4Addr::LOCALHOST, 0).into());
        }
    }
}
