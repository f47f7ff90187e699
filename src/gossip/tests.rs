//! One engine or two, in virtual time and without sockets. Whole clusters are the simulator's business.

mod agreement;
mod found;
mod hostile;
mod interop;
mod isolation;
mod life;
mod sealed;
mod settings;
mod strangers;
mod streams;
mod timers;

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    wire::{ClusterId, DeltaWriter, NodeName, RecordBatch, SyncMessage, Tag, encode_frame},
    *,
};
use crate::{
    bucket::{Decision, Quota, Timestamp},
    crdt::{Count, Delta, Digest, DigestKey, Epoch, KeyRecord, RunCell, RunId, Version},
    table::{ScopeSpec, Table, TableOptions},
};

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn cluster() -> ClusterId {
    ClusterId::new(&DigestKey::PUBLIC, "")
}

struct Node {
    engine: Engine,
    table: Arc<Table>,
    spec: Arc<ScopeSpec>,
    addr: SocketAddr,
}

impl Node {
    /// Number `id`, at 10 per second, with a clock that stands at `now`.
    fn new(id: u8, now: Timestamp, tune: impl FnOnce(&mut EngineConfig)) -> Self {
        Self::with_quota(id, now, Quota::per_second(10), tune)
    }

    fn with_quota(id: u8, now: Timestamp, quota: Quota, tune: impl FnOnce(&mut EngineConfig)) -> Self {
        let addr = SocketAddr::from(([10, 0, 0, id], 7_946));
        let name = NodeName::try_from(format!("node-{id}")).expect("short enough");
        let mut config = EngineConfig::new(name, addr, RunId::from_raw(id.into()));
        tune(&mut config);
        let table = Arc::new(Table::new(TableOptions { max_keys: 1 << 16, publish: true }));
        let spec = table.scopes().get_or_add(&DigestKey::PUBLIC, "default", quota);
        Self { engine: Engine::new(config, Arc::clone(&table), now), table, spec, addr }
    }

    fn run(&self) -> RunId {
        self.engine.identity().run
    }

    fn key(&self, key: u64) -> Digest {
        self.spec.hasher().digest(&key.to_le_bytes())
    }

    fn check(&mut self, now: Timestamp, key: u64, cost: u64) -> Decision {
        self.table.decide(&self.spec.rule(), self.key(key), cost, now)
    }

    fn remaining(&self, now: Timestamp, key: u64) -> u64 {
        self.table.peek(&self.spec.rule(), self.key(key), 1, now).remaining
    }

    /// What it emits now, as text.
    fn outputs(&mut self) -> Vec<String> {
        let mut outputs = Vec::new();
        while let Some(transmit) = self.engine.poll_transmit() {
            outputs.push(format!("{transmit:?}"));
        }
        while let Some(command) = self.engine.poll_stream() {
            outputs.push(format!("{command:?}"));
        }
        while let Some(event) = self.engine.poll_event() {
            outputs.push(format!("{event:?}"));
        }
        outputs
    }

    fn delta(&self, key: u64, from: u64, to: u64, version: u64) -> Delta {
        let version = Version::from_raw(version);
        Delta { scope: self.spec.id(), digest: self.key(key), epoch: Epoch::default(), from, to, version }
    }
}

/// The datagram in which `sender` tells these deltas.
fn datagram(sender: RunId, deltas: &[Delta]) -> Bytes {
    let mut writer = DeltaWriter::default();
    deltas.iter().for_each(|delta| writer.push(delta, Duration::from_millis(7)));
    encode_frame(cluster(), sender, Tag::Deltas, &writer.finish()[0])
}

fn step(sender: RunId, message: &SyncMessage) -> Bytes {
    encode_frame(cluster(), sender, Tag::Sync, &message.encode())
}

/// Nodes on a network that loses nothing and takes no time.
struct Net {
    nodes: Vec<Node>,
    now: Timestamp,
    /// The other end of each stream.
    links: BTreeMap<(usize, StreamId), (usize, StreamId)>,
    /// Everything emitted, in order.
    transcript: Vec<String>,
    /// What arrives of a frame that this node sent, in order.
    wire: fn(usize, &Bytes) -> Vec<Bytes>,
    /// Every datagram that was sent: by whom, to whom.
    datagrams: Vec<(usize, SocketAddr, Bytes)>,
    /// Every frame of a stream: by whom.
    frames: Vec<(usize, Bytes)>,
}

impl Net {
    /// Two nodes that know each other.
    fn pair(tune: fn(&mut EngineConfig)) -> Self {
        let now = at(1_000);
        Self::joined(vec![Node::new(1, now, tune), Node::new(2, now, tune)], |_, frame| vec![frame.clone()])
    }

    fn new(nodes: Vec<Node>, now: Timestamp, wire: fn(usize, &Bytes) -> Vec<Bytes>) -> Self {
        let (datagrams, frames) = (Vec::new(), Vec::new());
        Self { nodes, now, links: BTreeMap::new(), transcript: Vec::new(), wire, datagrams, frames }
    }

    /// These two nodes, which know each other, over a wire.
    fn joined(nodes: Vec<Node>, wire: fn(usize, &Bytes) -> Vec<Bytes>) -> Self {
        let now = at(1_000);
        let mut net = Self::new(nodes, now, wire);
        let first = net.nodes[0].addr;
        net.nodes[0].engine.handle_found(now, &[first]);
        net.nodes[1].engine.handle_found(now, &[first]);
        net.settle();
        for node in &net.nodes {
            assert_eq!(node.engine.stats().peers, 1, "{:?} has not joined", node.engine.identity());
        }
        net
    }

    /// Carries everything until nobody has anything to say.
    fn settle(&mut self) {
        let mut busy = true;
        while busy {
            busy = false;
            for from in 0..self.nodes.len() {
                while let Some(transmit) = self.nodes[from].engine.poll_transmit() {
                    busy = true;
                    self.transcript.push(format!("{:?} {from} {transmit:?}", self.now));
                    self.datagrams.push((from, transmit.to, transmit.payload.clone()));
                    if let Some(to) = self.nodes.iter_mut().find(|node| node.addr == transmit.to) {
                        for bytes in (self.wire)(from, &transmit.payload) {
                            to.engine.handle_datagram(self.now, &bytes);
                        }
                    }
                }
                while let Some(command) = self.nodes[from].engine.poll_stream() {
                    busy = true;
                    self.transcript.push(format!("{:?} {from} {command:?}", self.now));
                    self.stream(from, command);
                }
                while let Some(event) = self.nodes[from].engine.poll_event() {
                    self.transcript.push(format!("{:?} {from} {event:?}", self.now));
                }
            }
        }
    }

    fn stream(&mut self, from: usize, command: StreamCommand) {
        match command {
            StreamCommand::Open(id, addr) => {
                let Some(to) = self.nodes.iter().position(|node| node.addr == addr) else {
                    return self.nodes[from].engine.handle_stream_closed(self.now, id);
                };
                match self.nodes[to].engine.accept_stream(self.now) {
                    Some(there) => {
                        self.links.insert((from, id), (to, there));
                        self.links.insert((to, there), (from, id));
                        self.nodes[from].engine.handle_stream_writable(self.now, id);
                    }
                    None => self.nodes[from].engine.handle_stream_closed(self.now, id),
                }
            }
            StreamCommand::Send(id, frame) => {
                if let Some((to, there)) = self.links.get(&(from, id)).copied() {
                    self.frames.push((from, frame.clone()));
                    for bytes in (self.wire)(from, &frame) {
                        self.nodes[to].engine.handle_stream_frame(self.now, there, &bytes);
                    }
                    self.nodes[from].engine.handle_stream_writable(self.now, id);
                }
            }
            StreamCommand::Close(id) | StreamCommand::Cut(id) => {
                if let Some((to, there)) = self.links.remove(&(from, id)) {
                    self.links.remove(&(to, there));
                    self.nodes[to].engine.handle_stream_closed(self.now, there);
                }
            }
        }
    }

    /// Lets time pass up to `end`, timer by timer.
    fn run_until(&mut self, end: Timestamp) {
        loop {
            let next = self.nodes.iter().map(|node| node.engine.poll_timeout()).min().expect("there are nodes");
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            for node in &mut self.nodes {
                node.engine.handle_timeout(self.now);
            }
            self.settle();
        }
    }
}
