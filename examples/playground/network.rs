//! The network between the nodes: a relay in front of each, which loses datagrams and cuts.
//!
//! A node advertises its relay's address, so whatever peers send it comes by there. The relay tells the sender of a
//! datagram by its source port, since a node sends from the port it is bound to. A stream comes from a port of its own;
//! its first frame says which run opened it, and datagrams have told which node that is.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use peerlimit::gossip::wire::HEADER_LEN;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde::Serialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

/// Where the sender's run stands in a frame; see `gossip::wire`.
const RUN_AT: std::ops::Range<usize> = 9..17;
/// Before each frame of a stream there is its length.
const LENGTH_LEN: usize = 4;
/// Longer than any datagram, so that none is cut short.
const BUFFER: usize = 64 * 1024;
/// How long whoever opened a stream may take to say who it is.
const FIRST_FRAME: Duration = Duration::from_secs(2);
/// Streams through one relay. A node has a few.
const MOST_STREAMS: usize = 64;
/// How often a port is looked for that is free for UDP and TCP.
const PORT_TRIES: u32 = 32;
/// Pause after the system could not receive or accept: whatever is wrong is still wrong a moment later.
const PAUSE: Duration = Duration::from_millis(100);

/// One side of a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) enum Side {
    #[default]
    A,
    B,
}

/// What became of datagrams, of all nodes since the start.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Datagrams {
    pub(crate) delivered: u64,
    /// By chance.
    pub(crate) lost: u64,
    /// By the cut.
    pub(crate) cut: u64,
}

/// The network. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Network(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    map: watch::Sender<Map>,
    delivered: AtomicU64,
    lost: AtomicU64,
    cut: AtomicU64,
}

#[derive(Debug, Default)]
struct Map {
    /// The share of datagrams that is lost, from 0 to 1.
    loss: f64,
    is_cut: bool,
    hosts: Vec<Host>,
}

/// A node, as the network sees it.
#[derive(Debug, Default)]
struct Host {
    side: Side,
    /// Where its relay forwards to, and its datagrams come from; `None` while it is down.
    bound: Option<SocketAddr>,
    /// The run of its present life, once it has sent something.
    run: Option<[u8; 8]>,
}

impl Map {
    fn may_pass(&self, from: usize, to: usize) -> bool {
        !self.is_cut || self.hosts[from].side == self.hosts[to].side
    }

    fn host_at(&self, addr: SocketAddr) -> Option<usize> {
        self.hosts.iter().position(|host| host.bound == Some(addr))
    }
}

impl Network {
    pub(crate) fn new() -> Self {
        let (map, _) = watch::channel(Map::default());
        Self(Arc::new(Shared { map, delivered: AtomicU64::new(0), lost: AtomicU64::new(0), cut: AtomicU64::new(0) }))
    }

    /// Adds a host that is down, and starts its relay. Returns the relay's address. While there is a cut, the host is
    /// on the smaller side.
    pub(crate) async fn add_host(&self, relays: &mut JoinSet<()>) -> io::Result<SocketAddr> {
        let (udp, tcp) = bind().await?;
        let addr = tcp.local_addr()?;
        let mut host = 0;
        self.0.map.send_modify(|map| {
            host = map.hosts.len();
            let on_b = map.hosts.iter().filter(|host| host.side == Side::B).count();
            let side = if map.is_cut && on_b * 2 <= host { Side::B } else { Side::A };
            map.hosts.push(Host { side, bound: None, run: None });
        });
        relays.spawn(self.clone().relay_datagrams(host, udp));
        relays.spawn(self.clone().relay_streams(host, tcp));
        Ok(addr)
    }

    /// A host is up, with its node at `bound`, or down.
    pub(crate) fn set_host(&self, host: usize, bound: Option<SocketAddr>) {
        self.0.map.send_modify(|map| {
            let host = &mut map.hosts[host];
            (host.bound, host.run) = (bound, None);
        });
    }

    pub(crate) fn set_loss(&self, percent: u8) {
        self.0.map.send_modify(|map| map.loss = f64::from(percent) / 100.0);
    }

    /// Cuts the network between the first half of the hosts and the second, or heals it.
    pub(crate) fn set_cut(&self, cut: bool) {
        self.0.map.send_modify(|map| {
            map.is_cut = cut;
            let half = map.hosts.len().div_ceil(2);
            for (index, host) in map.hosts.iter_mut().enumerate() {
                host.side = if cut && index >= half { Side::B } else { Side::A };
            }
        });
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.0.map.borrow().is_cut
    }

    pub(crate) fn side(&self, host: usize) -> Side {
        self.0.map.borrow().hosts[host].side
    }

    pub(crate) fn datagrams(&self) -> Datagrams {
        let Shared { delivered, lost, cut, .. } = &*self.0;
        Datagrams { delivered: delivered.load(Relaxed), lost: lost.load(Relaxed), cut: cut.load(Relaxed) }
    }

    async fn relay_datagrams(self, to: usize, socket: UdpSocket) {
        let mut rng = StdRng::seed_from_u64(to as u64);
        let mut buffer = vec![0; BUFFER];
        loop {
            let (length, source) = match socket.recv_from(&mut buffer).await {
                Ok(received) => received,
                Err(error) => {
                    tracing::debug!(%error, "relay cannot receive");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let Some(target) = self.pass_datagram(&buffer[..length], source, to, &mut rng) else { continue };
            // As on any network, a datagram that cannot be sent is lost.
            match socket.send_to(&buffer[..length], target).await {
                Ok(_) => self.0.delivered.fetch_add(1, Relaxed),
                Err(_) => self.0.lost.fetch_add(1, Relaxed),
            };
        }
    }

    /// Where a datagram goes, if it goes on. What is for a node that is down is delivered to nobody, as by a host whose
    /// process is gone.
    fn pass_datagram(&self, bytes: &[u8], source: SocketAddr, to: usize, rng: &mut StdRng) -> Option<SocketAddr> {
        let (from, may_pass, loss, target) = {
            let map = self.0.map.borrow();
            // Of a life that has ended, or of somebody else on this machine.
            let from = map.host_at(source)?;
            (from, map.may_pass(from, to), map.loss, map.hosts[to].bound)
        };
        self.learn_run(from, bytes);
        if !may_pass {
            self.0.cut.fetch_add(1, Relaxed);
            return None;
        }
        if rng.random_bool(loss) {
            self.0.lost.fetch_add(1, Relaxed);
            return None;
        }
        target
    }

    fn learn_run(&self, host: usize, frame: &[u8]) {
        let run = frame.get(RUN_AT).and_then(|bytes| bytes.try_into().ok());
        if self.0.map.borrow().hosts[host].run != run {
            self.0.map.send_modify(|map| map.hosts[host].run = run);
        }
    }

    async fn relay_streams(self, to: usize, listener: TcpListener) {
        // They end with this task.
        let mut streams = JoinSet::new();
        loop {
            let accepted = listener.accept().await;
            while streams.try_join_next().is_some() {}
            match accepted {
                Ok((near, _)) if streams.len() < MOST_STREAMS => {
                    let network = self.clone();
                    streams.spawn(async move {
                        if let Err(error) = network.relay_stream(to, near).await {
                            tracing::debug!(%error, "relayed stream ended");
                        }
                    });
                }
                Ok(_) => tracing::debug!("too many streams"),
                Err(error) => {
                    tracing::debug!(%error, "relay cannot accept");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Relays a stream until its end, or a cut.
    async fn relay_stream(&self, to: usize, mut near: TcpStream) -> io::Result<()> {
        let mut first = [0; LENGTH_LEN + HEADER_LEN];
        timeout(FIRST_FRAME, near.read_exact(&mut first)).await??;
        let run = first[LENGTH_LEN..].get(RUN_AT).and_then(|bytes| bytes.try_into().ok());
        let mut changes = self.0.map.subscribe();
        let (from, bound) = {
            let map = changes.borrow_and_update();
            let from = map.hosts.iter().position(|host| host.run.is_some() && host.run == run);
            let (Some(from), Some(bound)) = (from, map.hosts[to].bound) else { return Ok(()) };
            if !map.may_pass(from, to) {
                return Ok(());
            }
            (from, bound)
        };
        let mut far = TcpStream::connect(bound).await?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        far.write_all(&first).await?;
        tokio::select! {
            copied = copy_bidirectional(&mut near, &mut far) => copied.map(|_| ()),
            _ = changes.wait_for(|map| !map.may_pass(from, to)) => Ok(()),
        }
    }
}

/// One port of loopback, for UDP and TCP.
async fn bind() -> io::Result<(UdpSocket, TcpListener)> {
    let mut tries = PORT_TRIES;
    loop {
        tries -= 1;
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        match UdpSocket::bind(tcp.local_addr()?).await {
            Ok(udp) => return Ok((udp, tcp)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries > 0 => {}
            Err(error) => return Err(error),
        }
    }
}
