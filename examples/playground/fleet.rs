//! The nodes: real ones, each with its own sockets and tasks, behind its relay.

use std::{
    error::Error,
    net::{Ipv4Addr, SocketAddr},
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use peerlimit::{Limiter, Quota, StaticDiscoverer};
use tokio::task::{JoinHandle, JoinSet};

use crate::{
    load::{Limiters, Traffic, offer},
    network::Network,
};

/// Settings of the nodes that are not the defaults. With those a crash would be noticed after some five seconds, and a
/// peer looked for every ten.
const DISCOVER_INTERVAL: Duration = Duration::from_secs(1);
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
const SUSPICION_TIMEOUT: Duration = Duration::from_secs(1);

/// A node that is there, or was.
#[derive(Debug)]
pub(crate) struct Node {
    /// Where peers reach it, in all its lives.
    pub(crate) addr: SocketAddr,
    pub(crate) traffic: Arc<Traffic>,
    life: Option<Life>,
    lives: u64,
}

#[derive(Debug)]
struct Life {
    limiters: Limiters,
    load: JoinHandle<()>,
}

impl Node {
    /// Its limiters; `None` while it is down.
    pub(crate) fn limiters(&self) -> Option<&Limiters> {
        self.life.as_ref().map(|life| &life.limiters)
    }
}

#[derive(Debug)]
pub(crate) struct Fleet {
    quota: Quota,
    pub(crate) network: Network,
    pub(crate) nodes: Vec<Node>,
    alone: Arc<AtomicBool>,
    /// They end with the fleet.
    relays: JoinSet<()>,
}

impl Fleet {
    pub(crate) fn new(quota: Quota) -> Self {
        Self { quota, network: Network::new(), nodes: Vec::new(), alone: Arc::default(), relays: JoinSet::new() }
    }

    /// Adds nodes under a load of `rate` requests per second each, and starts them. All of them are on the list of
    /// peers before the first one starts, as they would be in a configuration.
    pub(crate) async fn add(&mut self, count: u8, rate: u32) -> Result<(), Box<dyn Error + Send + Sync>> {
        let first = self.nodes.len();
        for _ in 0..count {
            let addr = self.network.add_host(&mut self.relays).await?;
            let traffic = Arc::new(Traffic { rate: rate.into(), ..Traffic::default() });
            self.nodes.push(Node { addr, traffic, life: None, lives: 0 });
        }
        for index in first..self.nodes.len() {
            self.start(index).await?;
        }
        Ok(())
    }

    /// Starts a node that is down.
    pub(crate) async fn start(&mut self, index: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
        let addr = self.nodes[index].addr;
        let peers = self.nodes.iter().filter(|node| node.addr != addr).map(|node| node.addr.to_string());
        let shared = Limiter::builder(self.quota)
            .node(name(index))
            .bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .advertise(addr)
            .discover(StaticDiscoverer::new(peers))
            .discover_interval(DISCOVER_INTERVAL)
            .probe_interval(PROBE_INTERVAL)
            .suspicion_timeout(SUSPICION_TIMEOUT)
            .start()
            .await?;
        // What the node said before this is lost, as any datagram may be; it says it again.
        self.network.set_host(index, shared.local_addr());
        let limiters = Limiters { shared, alone: Limiter::local(self.quota) };
        let node = &mut self.nodes[index];
        node.lives += 1;
        let seed = (index as u64) << 32 | node.lives;
        let load = tokio::spawn(offer(limiters.clone(), Arc::clone(&self.alone), Arc::clone(&node.traffic), seed));
        node.life = Some(Life { limiters, load });
        Ok(())
    }

    /// Drops all handles of a node: its peers hear no good-bye, and nothing of what it admitted last.
    pub(crate) async fn kill(&mut self, index: usize) {
        self.network.set_host(index, None);
        let Some(Life { limiters, load }) = self.nodes[index].life.take() else { return };
        end(load).await;
        drop(limiters);
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.alone.load(Relaxed)
    }

    /// Whether every node has a bucket of its own, and tells nobody.
    pub(crate) fn set_alone(&self, alone: bool) {
        self.alone.store(alone, Relaxed);
    }

    /// Ends the load and says good-bye on behalf of all.
    pub(crate) async fn close(&mut self) {
        for node in &mut self.nodes {
            let Some(Life { limiters, load }) = node.life.take() else { continue };
            end(load).await;
            limiters.shared.close().await;
        }
    }
}

/// Ends a task; a panic in it is ours.
async fn end(task: JoinHandle<()>) {
    task.abort();
    if let Err(error) = task.await
        && error.is_panic()
    {
        resume_unwind(error.into_panic());
    }
}

/// What people call the node.
pub(crate) fn name(index: usize) -> String {
    format!("node-{}", index + 1)
}
