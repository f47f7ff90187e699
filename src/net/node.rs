//! A running node, as the limiter holds it.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    task::AbortHandle,
    time::timeout,
};

use tracing::Instrument as _;

use crate::{
    bucket::Timestamp,
    discovery::DynDiscoverer,
    gossip::{Engine, EngineConfig, GossipStats, PeerInfo, Secrets},
    table::Table,
};

use super::{
    Clock, Sockets,
    clock::wall_millis,
    driver::{Command, Driver},
    finder::find,
};

/// A node's tasks and port. Dropping it ends the tasks and frees the port, without good-bye.
#[derive(Debug)]
pub(crate) struct Node {
    commands: mpsc::Sender<Command>,
    shared: Arc<Shared>,
    local: SocketAddr,
    advertise: SocketAddr,
    driver: AbortHandle,
    /// Closed when the driver has ended.
    ended: watch::Receiver<()>,
}

/// What the driver shows to users.
#[derive(Debug)]
pub(super) struct Shared {
    peers: Mutex<Vec<PeerInfo>>,
    stats: Mutex<GossipStats>,
    send_errors: AtomicU64,
    ready: watch::Sender<bool>,
}

/// Counters of one node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeStats {
    pub(crate) gossip: GossipStats,
    pub(crate) send_errors: u64,
}

impl Shared {
    pub(super) fn publish_peers(&self, engine: &Engine, now: Timestamp) {
        *self.peers.lock() = engine.peers(now);
    }

    pub(super) fn publish_stats(&self, engine: &Engine) {
        *self.stats.lock() = engine.stats();
    }

    pub(super) fn set_ready(&self) {
        self.ready.send_replace(true);
    }

    pub(super) fn count_send_error(&self) {
        self.send_errors.fetch_add(1, Ordering::Relaxed);
    }
}

impl Node {
    /// How long [`Node::close`] waits.
    pub(crate) const CLOSE_DEADLINE: Duration = Duration::from_secs(3);

    /// Spawns the tasks of a node on the current runtime.
    pub(crate) fn start(
        sockets: Sockets,
        mut config: EngineConfig,
        table: Arc<Table>,
        clock: Clock,
        discoverers: Vec<Box<dyn DynDiscoverer>>,
        discover_interval: Duration,
    ) -> Self {
        config.started = wall_millis();
        // Several nodes in one process can be told apart.
        let span = tracing::info_span!("peerlimit", node = config.name.as_str(), run = %config.run);
        let (local, advertise) = (sockets.local_addr(), config.advertise);
        let urgent = Arc::new(Notify::new());
        let wake = Arc::clone(&urgent);
        table.on_urgent(move || wake.notify_one());

        let shared = Arc::new(Shared {
            peers: Mutex::default(),
            stats: Mutex::default(),
            send_errors: AtomicU64::new(0),
            ready: watch::Sender::new(false),
        });
        let (commands, command_receiver) = mpsc::channel(1);
        let (found, found_receiver) = mpsc::channel(1);
        let (alive, ended) = watch::channel(());
        let finder = tokio::spawn(find(discoverers, discover_interval, found).instrument(span.clone())).abort_handle();
        let driver = Driver {
            engine: Engine::new(config, Arc::clone(&table), clock.now()),
            table,
            sockets,
            clock,
            shared: Arc::clone(&shared),
            urgent,
            commands: command_receiver,
            found: found_receiver,
            finder,
        };
        let driving = async move {
            driver.run().await;
            drop(alive);
        };
        let driver = tokio::spawn(driving.instrument(span));
        Self { commands, shared, local, advertise, driver: driver.abort_handle(), ended }
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn advertise(&self) -> SocketAddr {
        self.advertise
    }

    /// Members held alive, without this node, as of a quarter of a second ago at most.
    pub(crate) fn peers(&self) -> Vec<PeerInfo> {
        self.shared.peers.lock().clone()
    }

    pub(crate) fn stats(&self) -> NodeStats {
        NodeStats { gossip: *self.shared.stats.lock(), send_errors: self.shared.send_errors.load(Ordering::Relaxed) }
    }

    pub(crate) fn is_ready(&self) -> bool {
        *self.shared.ready.borrow()
    }

    /// Waits until the node has what the cluster knew, or until it has ended.
    pub(crate) async fn ready(&self) {
        let mut ready = self.shared.ready.subscribe();
        let mut ended = self.ended.clone();
        tokio::select! {
            // Neither can fail for a reason other than the end.
            _ = ready.wait_for(|ready| *ready) => {}
            _ = ended.changed() => {}
        }
    }

    /// Seals with other secrets. Returns when it does, or when the node has ended.
    pub(crate) async fn set_secrets(&self, secrets: Secrets) {
        let (done, is_done) = oneshot::channel();
        if self.commands.send(Command::SetSecrets(secrets, done)).await.is_ok() {
            let _done_or_ended = is_done.await;
        }
    }

    /// Flushes, leaves, stops. Returns when the port is free, or at the deadline.
    pub(crate) async fn close(&self) {
        let mut ended = self.ended.clone();
        let closing = async {
            // If the driver has ended already, there is nothing to ask of it.
            if self.commands.send(Command::Close).await.is_ok() {
                let _the_end = ended.changed().await;
            }
        };
        if timeout(Self::CLOSE_DEADLINE, closing).await.is_err() {
            tracing::warn!(deadline = ?Self::CLOSE_DEADLINE, "node did not close in time, and was cut off");
            self.driver.abort();
        }
    }
}
