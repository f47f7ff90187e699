//! Many engines in one thread and in virtual time.

mod faults;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap},
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use peerlimit::{
    Quota,
    bucket::Timestamp,
    crdt::{Digest, DigestKey, RunId},
    gossip::{Engine, EngineConfig, Event, Secrets, StreamCommand, StreamId, Transmit, wire::NodeName},
    table::{ScopeSpec, Table, TableOptions},
};
use rand::{Rng, RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

use super::network::{Cut, Link};

/// A cluster in virtual time. Nodes are numbered; a node that restarts keeps its number, name and address.
pub struct Cluster {
    pub now: Duration,
    pub rng: Xoshiro256PlusPlus,
    pub link: Link,
    pub cuts: Vec<Cut>,
    pub trace: bool,
    quota: Quota,
    tune: fn(&mut EngineConfig),
    nodes: Vec<Slot>,
    queue: BinaryHeap<Reverse<Scheduled>>,
    sequence: u64,
    streams: HashMap<End, Peer>,
    /// Frames for streams that are not connected yet.
    waiting: HashMap<End, Vec<Bytes>>,
    /// Deltas between a node's clock and true time.
    clocks: Vec<Clock>,
    pub traffic: Traffic,
    /// In bytes.
    pub longest_datagram: usize,
    /// How often some node took some other for gone, or itself was taken for gone.
    pub members_lost: u64,
    /// Lies told so far.
    lies: u64,
}

/// Datagrams and bytes on the wire, streams included.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    pub datagrams: u64,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Clock {
    offset: Duration,
    /// Seconds gained in a second.
    drift: f64,
    /// Since when it stands still, if it does.
    stopped: Option<Duration>,
}

impl Clock {
    fn local(&self, now: Duration) -> Timestamp {
        let now = self.stopped.unwrap_or(now);
        Timestamp::from_nanos((self.offset + now.mul_f64(1.0 + self.drift)).as_nanos() as u64)
    }

    fn true_time(&self, local: Timestamp) -> Duration {
        let local = Duration::from_nanos(local.as_nanos()).saturating_sub(self.offset);
        local.div_f64(1.0 + self.drift)
    }
}

#[derive(Default)]
struct Slot {
    node: Option<Node>,
    /// Raised at each start and stop, so that what was meant for a former life does not reach the next one.
    life: u64,
    /// What waits for the process while it is stopped.
    held: Option<Vec<What>>,
}

struct Node {
    engine: Engine,
    table: Arc<Table>,
    spec: Arc<ScopeSpec>,
    wake: Timestamp,
    ready: bool,
    leaving: bool,
}

/// One end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct End {
    node: usize,
    life: u64,
    id: StreamId,
}

/// The other end, and when the last thing sent there arrives: a stream keeps its order.
#[derive(Clone, Copy, Debug)]
struct Peer {
    end: End,
    last_arrival: Duration,
}

#[derive(Debug)]
struct Scheduled {
    at: Duration,
    sequence: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Wake { node: usize, life: u64 },
    Discover { node: usize, life: u64 },
    Datagram { from: usize, to: usize, payload: Bytes },
    Connect { from: End, to: usize },
    Connected(End),
    Frame { from: End, to: End, payload: Bytes },
    Writable(End),
    Closed(End),
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Scheduled {}

/// Bytes that a stream carries in a second.
const STREAM_BANDWIDTH: f64 = 100e6;
/// How often a node is told the addresses of all nodes.
const DISCOVER_INTERVAL: Duration = Duration::from_secs(10);
/// After this a connection that gets no answer counts as failed.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

impl Cluster {
    pub fn new(seed: u64, nodes: usize, quota: Quota, link: Link, tune: fn(&mut EngineConfig)) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let clocks = (0..nodes).map(|_| Clock {
            offset: Duration::from_secs_f64(rng.random_range(0.0..1e6)),
            drift: rng.random_range(-50e-6..50e-6),
            stopped: None,
        });
        Self {
            now: Duration::ZERO,
            clocks: clocks.collect(),
            rng,
            link,
            cuts: Vec::new(),
            trace: false,
            quota,
            tune,
            nodes: (0..nodes).map(|_| Slot::default()).collect(),
            queue: BinaryHeap::new(),
            sequence: 0,
            streams: HashMap::new(),
            waiting: HashMap::new(),
            traffic: Traffic::default(),
            longest_datagram: 0,
            members_lost: 0,
            lies: 0,
        }
    }

    // --- what a test does to it ---

    /// Starts node `index` as a new run at its address. Discovery tells it the addresses of all nodes.
    pub fn start(&mut self, index: usize) {
        let name = NodeName::try_from(format!("node-{index}")).expect("a short name");
        let run = RunId::from_raw(self.rng.next_u64());
        let mut config = EngineConfig::new(name, addr_of(index), run);
        config.seed = self.rng.next_u64();
        config.started = self.now.as_millis() as u64;
        (self.tune)(&mut config);
        let table = Arc::new(Table::new(TableOptions { max_keys: 1 << 20, publish: true }));
        let spec = table.scopes().get_or_add(&DigestKey::PUBLIC, "", self.quota);
        let local = self.clocks[index].local(self.now);
        let engine = Engine::new(config, Arc::clone(&table), local);
        let slot = &mut self.nodes[index];
        assert!(slot.node.is_none(), "node {index} runs already");
        slot.life += 1;
        slot.node = Some(Node { engine, table, spec, wake: Timestamp::MAX, ready: false, leaving: false });
        self.log(|| format!("node {index} starts as {run}"));
        let life = self.nodes[index].life;
        self.happen(What::Discover { node: index, life });
    }

    /// Ends node `index` without good-bye.
    pub fn crash(&mut self, index: usize) {
        self.log(|| format!("node {index} crashes"));
        self.nodes[index].node = None;
        self.nodes[index].held = None;
        self.nodes[index].life += 1;
        self.break_streams(|end| end.node == index);
    }

    /// Lets node `index` leave. It is gone once it has said everything.
    pub fn leave(&mut self, index: usize) {
        self.log(|| format!("node {index} leaves"));
        if let Some(node) = &mut self.nodes[index].node {
            node.leaving = true;
        }
        self.with_engine(index, |engine, now| engine.leave(now));
    }

    /// Gives every running node one more scope.
    pub fn add_scope(&mut self, name: &str, quota: Quota) {
        for node in self.nodes.iter().filter_map(|slot| slot.node.as_ref()) {
            let _spec = node.table.scopes().get_or_add(&DigestKey::PUBLIC, name, quota);
        }
    }

    /// Gives node `index` other secrets.
    pub fn set_secrets(&mut self, index: usize, secrets: &Secrets) {
        self.log(|| format!("node {index} has {secrets:?}"));
        self.with_engine(index, |engine, _| engine.set_secrets(secrets));
    }

    /// A request for one permit of `key` at node `index`.
    pub fn check(&mut self, index: usize, key: Digest) -> bool {
        let spec = Arc::clone(&self.running(index).spec);
        self.decide(index, &spec, key, 1)
    }

    /// A request for `cost` permits of `key` in `scope` at node `index`.
    pub fn spend(&mut self, index: usize, scope: &str, key: &str, cost: u64) -> bool {
        let spec = self.scope_of(index, scope);
        let key = spec.hasher().digest(key.as_bytes());
        self.decide(index, &spec, key, cost)
    }

    /// Gives back permits of `key` at node `index`.
    pub fn refund(&mut self, index: usize, key: Digest, permits: u64) {
        let now = self.clocks[index].local(self.now);
        let node = self.running(index);
        let _state = node.table.refund(&node.spec.rule(), key, permits, now);
    }

    fn decide(&mut self, index: usize, spec: &ScopeSpec, key: Digest, cost: u64) -> bool {
        let now = self.clocks[index].local(self.now);
        let node = self.running(index);
        let decision = node.table.decide(&spec.rule(), key, cost, now);
        let urgent = node.table.is_urgent();
        // Whatever happened before: P4, P6 and the meaning of `remaining`.
        assert!(decision.remaining <= decision.limit, "{decision:?}");
        let longest = 2 * spec.quota().refill_time() + Duration::from_micros(1);
        assert!(decision.reset_after <= longest, "{decision:?}");
        if urgent {
            self.with_engine(index, |engine, now| engine.handle_urgent(now));
        }
        decision.allowed
    }

    /// Permits that node `index` believes to be left of `key`.
    pub fn remaining(&self, index: usize, key: Digest) -> u64 {
        self.peek(index, &self.running(index).spec, key)
    }

    /// Permits that node `index` believes to be left of `key` in `scope`.
    pub fn remaining_in(&self, index: usize, scope: &str, key: &str) -> u64 {
        let spec = self.scope_of(index, scope);
        self.peek(index, &spec, spec.hasher().digest(key.as_bytes()))
    }

    fn peek(&self, index: usize, spec: &ScopeSpec, key: Digest) -> u64 {
        let now = self.clocks[index].local(self.now);
        self.running(index).table.peek(&spec.rule(), key, 0, now).remaining
    }

    fn running(&self, index: usize) -> &Node {
        self.nodes[index].node.as_ref().expect("a node that runs")
    }

    fn scope_of(&self, index: usize, name: &str) -> Arc<ScopeSpec> {
        let scopes = self.running(index).table.scopes();
        scopes.find(DigestKey::PUBLIC.scope_id(name)).expect("a scope that was added")
    }

    /// Lets everything happen that is due before `until`.
    pub fn run_until(&mut self, until: Duration) {
        while let Some(Reverse(next)) = self.queue.peek()
            && next.at < until
        {
            let Some(Reverse(next)) = self.queue.pop() else { break };
            self.now = self.now.max(next.at);
            self.happen(next.what);
        }
        self.now = self.now.max(until);
    }

    /// Lets time pass until `condition` holds, looked at every tenth of a second. Returns how long that took.
    ///
    /// # Panics
    ///
    /// If it does not hold within `most`.
    pub fn run_until_it_holds(&mut self, what: &str, most: Duration, condition: impl Fn(&Self) -> bool) -> Duration {
        let begin = self.now;
        while !condition(self) {
            assert!(self.now - begin < most, "not within {most:?}: {what}");
            self.run_for(Duration::from_millis(100));
        }
        self.now - begin
    }

    /// Lets time pass.
    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    // --- what a test sees of it ---

    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// Nodes that take requests: they run, are ready, and do not leave.
    pub fn serving(&self) -> Vec<usize> {
        let serving =
            |slot: &Slot| slot.held.is_none() && slot.node.as_ref().is_some_and(|node| node.ready && !node.leaving);
        (0..self.nodes.len()).filter(|index| serving(&self.nodes[*index])).collect()
    }

    pub fn engine(&self, index: usize) -> &Engine {
        &self.running(index).engine
    }

    pub fn table(&self, index: usize) -> &Table {
        &self.running(index).table
    }

    /// Nodes that run, whether they are ready or not.
    pub fn running_nodes(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|index| self.nodes[*index].node.is_some()).collect()
    }

    /// Whether every running node counts every other running node, and nobody else, as its member.
    pub fn all_see_all(&self) -> bool {
        self.see_each_other(&self.running_nodes())
    }

    /// Whether each of these nodes counts each other of them, and nobody else, as its member.
    pub fn see_each_other(&self, nodes: &[usize]) -> bool {
        let running: BTreeMap<usize, RunId> =
            nodes.iter().map(|index| (*index, self.engine(*index).identity().run)).collect();
        running.iter().all(|(index, own)| {
            let mut seen: Vec<RunId> = self.engine(*index).members().iter().map(|member| member.run).collect();
            let mut others: Vec<RunId> = running.values().copied().filter(|run| run != own).collect();
            seen.sort_unstable();
            others.sort_unstable();
            seen == others
        })
    }

    pub fn digest(&self, key: &str) -> Digest {
        DigestKey::PUBLIC.hasher("").digest(key.as_bytes())
    }

    // --- the machinery ---

    fn log(&self, line: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{:>12.6} {}", self.now.as_secs_f64(), line());
        }
    }

    fn schedule(&mut self, at: Duration, what: What) {
        self.sequence += 1;
        self.queue.push(Reverse(Scheduled { at, sequence: self.sequence, what }));
    }

    fn with_engine(&mut self, index: usize, input: impl FnOnce(&mut Engine, Timestamp)) {
        let now = self.clocks[index].local(self.now);
        if let Some(node) = &mut self.nodes[index].node {
            input(&mut node.engine, now);
            self.drain(index);
        }
    }

    fn with_stream(&mut self, end: End, input: impl FnOnce(&mut Engine, Timestamp, StreamId)) {
        if self.nodes[end.node].life == end.life {
            self.with_engine(end.node, |engine, now| input(engine, now, end.id));
        }
    }

    fn drain(&mut self, index: usize) {
        let life = self.nodes[index].life;
        let Some(mut node) = self.nodes[index].node.take() else { return };
        while let Some(transmit) = node.engine.poll_transmit() {
            self.transmit(index, transmit);
        }
        while let Some(command) = node.engine.poll_stream() {
            self.command(index, life, command);
        }
        let mut left = false;
        while let Some(event) = node.engine.poll_event() {
            self.log(|| format!("node {index}: {event:?}"));
            match event {
                Event::Ready => node.ready = true,
                Event::Left => left = true,
                Event::MemberDown(_) | Event::Rejoined => self.members_lost += 1,
                _ => {}
            }
        }
        let wake = node.engine.poll_timeout();
        let moved = wake != node.wake;
        node.wake = wake;
        if left {
            self.nodes[index].life += 1;
            self.break_streams(|end| end.node == index);
            return;
        }
        self.nodes[index].node = Some(node);
        if moved && wake != Timestamp::MAX {
            // A little late, never early: a true time that rounds down would find nothing due.
            let at = self.clocks[index].true_time(wake).max(self.now) + Duration::from_nanos(200);
            self.schedule(at, What::Wake { node: index, life });
        }
    }

    fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.iter().any(|cut| cut.blocks(self.now, from, to))
    }

    fn transmit(&mut self, from: usize, transmit: Transmit) {
        self.traffic.datagrams += 1;
        self.traffic.bytes += transmit.payload.len() as u64;
        self.longest_datagram = self.longest_datagram.max(transmit.payload.len());
        let Some(to) = index_of(transmit.to).filter(|to| *to < self.nodes.len()) else { return };
        if self.is_cut(from, to) || self.rng.random_bool(self.link.loss) {
            return;
        }
        let copies = 1 + usize::from(self.rng.random_bool(self.link.duplicate));
        for _ in 0..copies {
            let at = self.now + self.link.draw_delay(&mut self.rng);
            self.schedule(at, What::Datagram { from, to, payload: transmit.payload.clone() });
        }
    }

    fn command(&mut self, node: usize, life: u64, command: StreamCommand) {
        match command {
            StreamCommand::Open(id, addr) => {
                let from = End { node, life, id };
                let delay = self.link.draw_delay(&mut self.rng);
                self.waiting.insert(from, Vec::new());
                match index_of(addr).filter(|to| *to < self.nodes.len()) {
                    Some(to) => self.schedule(self.now + delay, What::Connect { from, to }),
                    None => self.schedule(self.now + CONNECT_TIMEOUT, What::Closed(from)),
                }
            }
            StreamCommand::Send(id, payload) => self.send(End { node, life, id }, payload),
            StreamCommand::Close(id) | StreamCommand::Cut(id) => {
                let end = End { node, life, id };
                self.waiting.remove(&end);
                if let Some(peer) = self.streams.remove(&end) {
                    self.schedule(peer.last_arrival.max(self.now) + self.link.delay, What::Closed(peer.end));
                }
            }
        }
    }

    fn send(&mut self, from: End, payload: Bytes) {
        if let Some(waiting) = self.waiting.get_mut(&from) {
            return waiting.push(payload);
        }
        self.traffic.bytes += payload.len() as u64;
        let transfer = Duration::from_secs_f64(payload.len() as f64 / STREAM_BANDWIDTH);
        let arrival = self.now + self.link.draw_delay(&mut self.rng) + transfer;
        let Some(peer) = self.streams.get_mut(&from) else { return };
        peer.last_arrival = arrival.max(peer.last_arrival + Duration::from_nanos(1));
        let (to, at) = (peer.end, peer.last_arrival);
        self.schedule(at, What::Frame { from, to, payload });
        self.schedule(self.now + transfer, What::Writable(from));
    }

    fn break_streams(&mut self, broken: impl Fn(&End) -> bool) {
        let ends: Vec<(End, End)> = self
            .streams
            .iter()
            .filter(|(end, peer)| broken(end) || broken(&peer.end))
            .map(|(end, peer)| (*end, peer.end))
            .collect();
        let mut closed: Vec<End> = ends.iter().flat_map(|(a, b)| [*a, *b]).collect();
        closed.sort_by_key(|end| (end.node, end.life, end.id));
        closed.dedup();
        for end in closed {
            self.streams.remove(&end);
            self.schedule(self.now + self.link.delay, What::Closed(end));
        }
    }

    fn happen(&mut self, what: What) {
        let Some(what) = self.hold(what) else { return };
        match what {
            What::Wake { node, life } => {
                if self.nodes[node].life == life {
                    self.with_engine(node, |engine, now| engine.handle_timeout(now));
                }
            }
            What::Discover { node, life } => {
                if self.nodes[node].life == life {
                    let addrs: Vec<SocketAddr> = (0..self.nodes.len()).map(addr_of).collect();
                    self.with_engine(node, |engine, now| engine.handle_found(now, &addrs));
                    self.schedule(self.now + DISCOVER_INTERVAL, What::Discover { node, life });
                }
            }
            What::Datagram { from, to, payload } => {
                if !self.is_cut(from, to) {
                    self.with_engine(to, |engine, now| engine.handle_datagram(now, &payload));
                }
            }
            What::Connect { from, to } => {
                if self.is_cut(from.node, to) || self.is_cut(to, from.node) || self.nodes[from.node].life != from.life {
                    return self.schedule(self.now + CONNECT_TIMEOUT, What::Closed(from));
                }
                let life = self.nodes[to].life;
                let mut accepted = None;
                self.with_engine(to, |engine, now| accepted = engine.accept_stream(now));
                let Some(id) = accepted else {
                    return self.schedule(self.now + self.link.delay, What::Closed(from));
                };
                let other = End { node: to, life, id };
                self.streams.insert(from, Peer { end: other, last_arrival: self.now });
                self.streams.insert(other, Peer { end: from, last_arrival: self.now });
                self.schedule(self.now + self.link.delay, What::Connected(from));
            }
            What::Connected(end) => {
                for payload in self.waiting.remove(&end).unwrap_or_default() {
                    self.send(end, payload);
                }
                self.with_stream(end, |engine, now, id| engine.handle_stream_writable(now, id));
            }
            What::Writable(end) => self.with_stream(end, |engine, now, id| engine.handle_stream_writable(now, id)),
            What::Frame { from, to, payload } => {
                if self.is_cut(from.node, to.node) || self.is_cut(to.node, from.node) {
                    return self.break_streams(|end| *end == from || *end == to);
                }
                self.with_stream(to, |engine, now, id| engine.handle_stream_frame(now, id, &payload));
            }
            What::Closed(end) => {
                self.streams.remove(&end);
                self.waiting.remove(&end);
                self.with_stream(end, |engine, now, id| engine.handle_stream_closed(now, id));
            }
        }
    }
}

/// The address of node `index`.
pub fn addr_of(index: usize) -> SocketAddr {
    let index = index as u32;
    SocketAddr::new(Ipv4Addr::from(0x0a00_0001 + index).into(), 7946)
}

fn index_of(addr: SocketAddr) -> Option<usize> {
    match addr.ip() {
        std::net::IpAddr::V4(ip) => u32::from(ip).checked_sub(0x0a00_0001).map(|index| index as usize),
        std::net::IpAddr::V6(_) => None,
    }
}
