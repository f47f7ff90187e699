//! What goes wrong inside a node: its clock, its process, its honesty.

use std::time::Duration;

use bytes::Bytes;
use peerlimit::{
    bucket::Timestamp,
    crdt::{Delta, DigestKey, Epoch, Version},
    gossip::wire::{ClusterId, DeltaWriter, Tag, encode_frame},
};

use super::{Cluster, What};

/// Datagrams that an operating system keeps for a process that does not fetch them; further ones are dropped.
const SOCKET_BUFFER: usize = 256;

impl Cluster {
    /// The clock of node `index` goes ahead by so much at once.
    pub fn clock_jumps(&mut self, index: usize, by: Duration) {
        self.clocks[index].offset += by;
        self.set_alarm_anew(index);
    }

    /// The clock of node `index` stands still. That is also how a node sees one that goes back; see `net::clock`.
    pub fn clock_stops(&mut self, index: usize) {
        self.clocks[index].stopped = Some(self.now);
    }

    /// The clock of node `index` goes on where it stood.
    pub fn clock_goes_on(&mut self, index: usize) {
        if let Some(since) = self.clocks[index].stopped.take() {
            let clock = &mut self.clocks[index];
            clock.offset = clock.offset.saturating_sub(self.now - since);
            self.set_alarm_anew(index);
        }
    }

    /// The process of node `index` is stopped: nothing reaches it, and time passes.
    pub fn freeze(&mut self, index: usize) {
        self.nodes[index].held = Some(Vec::new());
    }

    /// The process of node `index` goes on: what waited reaches it at once.
    pub fn thaw(&mut self, index: usize) {
        for what in self.nodes[index].held.take().unwrap_or_default() {
            self.happen(what);
        }
    }

    /// Keeps what is meant for a process that is stopped. Returns it if there is none.
    pub(super) fn hold(&mut self, what: What) -> Option<What> {
        let node = match &what {
            What::Wake { node, .. } | What::Discover { node, .. } => *node,
            What::Datagram { to, .. } | What::Connect { to, .. } => *to,
            What::Connected(end) | What::Frame { to: end, .. } | What::Writable(end) | What::Closed(end) => end.node,
        };
        let Some(held) = &mut self.nodes[node].held else { return Some(what) };
        let is_datagram = |what: &What| matches!(what, What::Datagram { .. });
        if !is_datagram(&what) || held.iter().filter(|held| is_datagram(held)).count() < SOCKET_BUFFER {
            held.push(what);
        }
        None
    }

    /// Node `index` tells all others that it admitted everything that a counter can hold, in a new life of its cell.
    pub fn lie(&mut self, index: usize, key: &str) {
        self.lies += 1;
        let (run, digest) = (self.engine(index).identity().run, self.digest(key));
        let (epoch, version) = (Epoch::from_raw(self.lies as u32), Version::from_raw(1_000_000 + self.lies));
        let scope = DigestKey::PUBLIC.scope_id("");
        let mut writer = DeltaWriter::default();
        writer.push(&Delta { scope, digest, epoch, from: 0, to: u64::MAX, version }, Duration::ZERO);
        for body in writer.finish() {
            let payload: Bytes = encode_frame(ClusterId::new(&DigestKey::PUBLIC, ""), run, Tag::Deltas, &body);
            for to in (0..self.nodes.len()).filter(|to| *to != index) {
                let at = self.now + self.link.delay;
                self.schedule(at, What::Datagram { from: index, to, payload: payload.clone() });
            }
        }
    }

    /// The clock is another now, and so is the time at which the next timer is due.
    fn set_alarm_anew(&mut self, index: usize) {
        if let Some(node) = &mut self.nodes[index].node {
            node.wake = Timestamp::MAX;
            self.drain(index);
        }
    }
}
