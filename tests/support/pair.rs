//! Two engines that talk to each other, in virtual time and without sockets: a source of real traffic.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use peerlimit::{
    Quota,
    bucket::Timestamp,
    crdt::{DigestKey, RunId},
    gossip::{Engine, EngineConfig, StreamCommand, wire::NodeName},
    table::{ScopeSpec, Table, TableOptions},
};

/// Nothing is refused that a test asks.
pub const QUOTA: Quota = Quota::per_second(1_000_000);

/// One engine with its table, in virtual time.
pub struct Node {
    pub engine: Engine,
    pub table: Arc<Table>,
    pub scope: Arc<ScopeSpec>,
    pub addr: SocketAddr,
}

impl Node {
    pub fn new(number: u16) -> Self {
        let addr = SocketAddr::from(([127, 0, 0, 1], 7_000 + number));
        let name = NodeName::try_from(format!("node-{number}")).expect("a short name");
        let config = EngineConfig::new(name, addr, RunId::from_raw(u64::from(number)));
        let table = Arc::new(Table::new(TableOptions { max_keys: 1 << 16, publish: true }));
        let scope = table.scopes().get_or_add(&DigestKey::PUBLIC, "", QUOTA);
        let engine = Engine::new(config, Arc::clone(&table), at(0));
        Self { engine, table, scope, addr }
    }

    fn datagrams(&mut self) -> Vec<(SocketAddr, Bytes)> {
        // Streams are refused: this is about datagrams.
        while let Some(command) = self.engine.poll_stream() {
            if let StreamCommand::Open(id, _) = command {
                self.engine.handle_stream_closed(at(0), id);
            }
        }
        while self.engine.poll_event().is_some() {}
        std::iter::from_fn(|| self.engine.poll_transmit()).map(|transmit| (transmit.to, transmit.payload)).collect()
    }
}

pub fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// Two nodes that know each other, the datagrams that passed between them meanwhile, and the time since.
pub fn pair() -> (Node, Vec<Bytes>, u64) {
    let (mut one, mut other) = (Node::new(1), Node::new(2));
    let mut seen = Vec::new();
    one.engine.handle_found(at(0), &[other.addr]);
    for millis in 0..3_000 {
        if millis % 50 == 0 {
            for key in 0_u64..20 {
                let digest = other.scope.hasher().digest(&key.to_le_bytes());
                assert!(other.table.decide(&other.scope.rule(), digest, 1, at(millis)).allowed);
            }
        }
        for node in [&mut one, &mut other] {
            if node.engine.poll_timeout() <= at(millis) {
                node.engine.handle_timeout(at(millis));
            }
        }
        let sent: Vec<_> = one.datagrams().into_iter().chain(other.datagrams()).collect();
        for (to, payload) in sent {
            let node = if to == one.addr { &mut one } else { &mut other };
            node.engine.handle_datagram(at(millis), &payload);
            seen.push(payload);
        }
    }
    assert_eq!((one.engine.stats().peers, other.engine.stats().peers), (1, 1), "the nodes do not know each other");
    (one, seen, 3_000)
}
