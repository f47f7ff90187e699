//! The engine and news: what is told to peers, and what they tell.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;

use crate::{
    bucket::Timestamp,
    crdt::{Applied, News, RunId},
    table::Charge,
};

use super::{
    super::wire::{DeltaFrame, MAX_DATAGRAM},
    Engine, Transmit, find_subject,
};

impl Engine {
    /// Says everything at once, whatever the pace: there is no later.
    pub(super) fn flush_all(&mut self, now: Timestamp) {
        let frames = self.push.flush_all(&self.table, &mut self.log, &mut self.seal, now);
        self.send_to_peers(frames);
    }

    pub(super) fn send_to_peers(&mut self, frames: Vec<Bytes>) {
        let addrs: Vec<SocketAddr> = self.peers.values().map(|peer| peer.addr).collect();
        for payload in frames {
            for to in &addrs {
                self.transmit(Transmit { to: *to, payload: payload.clone() });
            }
        }
    }

    pub(super) fn transmit(&mut self, transmit: Transmit) {
        debug_assert!(transmit.payload.len() <= MAX_DATAGRAM, "datagram of {} bytes", transmit.payload.len());
        if self.transmits.len() >= Self::MAX_TRANSMITS {
            // The socket takes nothing. Anti-entropy repairs what is lost here like any other datagram.
            self.stats.drops.backlog += 1;
            return;
        }
        self.stats.frames_out += 1;
        self.stats.bytes_out += transmit.payload.len() as u64;
        self.transmits.push_back(transmit);
    }

    /// News of that age was merged which a run published. Nothing is noted of runs that are gone.
    pub(super) fn note_lag(&mut self, run: RunId, age: Duration, now: Timestamp) {
        if let Some(peer) = self.peers.get_mut(&run) {
            peer.lag.note(age, now);
        }
    }

    pub(super) fn handle_deltas(&mut self, now: Timestamp, sender: RunId, frame: &DeltaFrame) {
        let is_departing = || self.departed.get(&sender).is_some_and(|until| now < *until);
        if !self.peers.contains_key(&sender) && !is_departing() {
            self.stats.drops.not_a_member += 1;
            return;
        }
        // An echo, or a duplicate.
        if self.log.holds(sender, frame.from, frame.to) {
            return;
        }
        let arrival = self.pauses.arrival(now);
        let as_of = arrival.saturating_sub(frame.age);
        let mut oldest = Duration::ZERO;
        for delta in &frame.deltas {
            let news = match self.log.apply_delta(sender, delta, arrival) {
                Applied::News(news) | Applied::NoBaseline(news) => news,
                Applied::Refused => {
                    self.stats.drops.cells_refused += 1;
                    continue;
                }
            };
            if news != News::default() {
                oldest = oldest.max(if news.missed == 0 { frame.age } else { news.gap });
            }
            let Some(subject) = find_subject(&mut self.scopes, &self.table, delta.scope) else { continue };
            let rule = subject.spec.rule();
            let permits = news.charge(rule.gcra.refill_time());
            if permits == 0 {
                continue;
            }
            self.stats.merges += 1;
            if subject.is_refund {
                self.table.refunded(&rule, delta.digest.of_refunds(), permits, now);
            } else {
                self.table.charge(&rule, delta.digest, Charge::news(permits, as_of), now);
            }
        }
        if !self.log.cover(sender, frame.from, frame.to, arrival) {
            self.stats.gaps += 1;
        }
        self.note_lag(sender, oldest.saturating_add(now.saturating_since(arrival)), now);
    }
}
