//! The nodes of the show: real ones, each with its own sockets and tasks.

use std::{
    error::Error,
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use peerlimit::{Limiter, Quota, StartError, StaticDiscoverer};
use tokio::time::sleep;

/// Settings of the nodes that are not the defaults. With those, the crash would be noticed after some five seconds,
/// and a peer looked for every ten.
pub(crate) const DISCOVER_INTERVAL: Duration = Duration::from_secs(1);
pub(crate) const PROBE_INTERVAL: Duration = Duration::from_millis(500);
pub(crate) const SUSPICION_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a port that was just in use may take to be free.
const PORT_DEADLINE: Duration = Duration::from_secs(5);

/// What a node sent, over all its lives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) up: Duration,
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
}

/// A node that is there, or was.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) name: String,
    /// Admitted since the last line.
    pub(crate) recent: u64,
    pub(crate) admitted: u64,
    addr: SocketAddr,
    running: Option<Running>,
    /// Of the lives that have ended.
    past: Traffic,
}

#[derive(Debug)]
struct Running {
    limiter: Limiter,
    since: Instant,
}

impl Slot {
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(crate) fn allow(&mut self, key: &str) -> bool {
        let allowed = self.running.as_ref().is_some_and(|running| running.limiter.allow(key));
        self.recent += u64::from(allowed);
        self.admitted += u64::from(allowed);
        allowed
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let Some(Running { limiter, since }) = &self.running else { return self.past };
        let stats = limiter.stats();
        Traffic {
            up: self.past.up + since.elapsed(),
            frames: self.past.frames + stats.frames_out,
            bytes: self.past.bytes + stats.bytes_out,
        }
    }

    /// Members that this node sees, itself included; `None` if it is down.
    pub(crate) fn sees(&self) -> Option<usize> {
        self.running.as_ref().map(|running| running.limiter.members().len())
    }

    fn is_ready(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.limiter.is_ready())
    }
}

#[derive(Debug)]
pub(crate) struct Fleet {
    quota: Quota,
    pub(crate) slots: Vec<Slot>,
}

impl Fleet {
    pub(crate) fn new(quota: Quota) -> Self {
        Self { quota, slots: Vec::new() }
    }

    /// Adds a node on a port that is free. Returns its name.
    pub(crate) async fn add(&mut self) -> Result<String, Box<dyn Error>> {
        let name = format!("node-{}", self.slots.len() + 1);
        let limiter = self.start(&name, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let addr = limiter.local_addr().ok_or("a node on the network has an address")?;
        let running = Some(Running { limiter, since: Instant::now() });
        self.slots.push(Slot { name: name.clone(), recent: 0, admitted: 0, addr, running, past: Traffic::default() });
        Ok(name)
    }

    /// Drops all handles of a node: its peers hear no good-bye, and nothing of what it admitted last.
    pub(crate) fn crash(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.past = slot.traffic();
        slot.running = None;
    }

    /// Starts a node that crashed, under its name and on its port.
    pub(crate) async fn restart(&mut self, index: usize) -> Result<SocketAddr, Box<dyn Error>> {
        let Slot { name, addr, .. } = &self.slots[index];
        let limiter = self.start(name, *addr).await?;
        let addr = *addr;
        self.slots[index].running = Some(Running { limiter, since: Instant::now() });
        Ok(addr)
    }

    /// Each node is told of all the others that run, as a list of peers in a configuration would.
    async fn start(&self, name: &str, bind: SocketAddr) -> Result<Limiter, StartError> {
        let peers = || self.slots.iter().filter(|slot| slot.is_running()).map(|slot| slot.addr.to_string());
        let give_up = Instant::now() + PORT_DEADLINE;
        loop {
            let started = Limiter::builder(self.quota)
                .node(name)
                .bind(bind)
                .discover(StaticDiscoverer::new(peers()))
                .discover_interval(DISCOVER_INTERVAL)
                .probe_interval(PROBE_INTERVAL)
                .suspicion_timeout(SUSPICION_TIMEOUT)
                .start()
                .await;
            match started {
                // A port is freed by a task that ends, which is not instant.
                Err(StartError::Bind { .. }) if Instant::now() < give_up => sleep(Duration::from_millis(10)).await,
                outcome => return outcome,
            }
        }
    }

    /// The nodes that take traffic: those that are ready, as a load balancer would ask.
    pub(crate) fn serving(&self) -> Vec<usize> {
        (0..self.slots.len()).filter(|index| self.slots[*index].is_ready()).collect()
    }

    /// Whether all nodes that run are ready and see each other, and nobody else.
    pub(crate) fn together(&self) -> bool {
        let running = self.slots.iter().filter(|slot| slot.is_running()).count();
        self.slots.iter().filter(|slot| slot.is_running()).all(|slot| slot.is_ready() && slot.sees() == Some(running))
    }

    /// Says good-bye on behalf of all.
    pub(crate) async fn close(&self) {
        for running in self.slots.iter().filter_map(|slot| slot.running.as_ref()) {
            running.limiter.close().await;
        }
    }
}
