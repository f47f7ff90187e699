//! The engine and anti-entropy: one exchange with one member at a time, and those that members open here.

use std::{net::SocketAddr, time::Duration};

use rand::RngExt;

use crate::{
    bucket::{Missing, Timestamp},
    crdt::{Applied, Digest, Epoch, KeyRecord, News, RunId, Version},
    table::Charge,
};

use super::{
    super::{
        sync::Exchange,
        wire::{RecordBatch, SyncMessage, Tag},
    },
    Engine, Join, StreamCommand, StreamId, find_subject,
};

impl Engine {
    pub(super) fn start_exchange(&mut self, now: Timestamp) {
        let jitter = self.rng.random_range(0.75..1.25);
        self.deadlines.anti_entropy = now.saturating_add(self.config.anti_entropy_interval.mul_f64(jitter));
        if self.exchanges.values().any(Exchange::opened_here) || self.peers.is_empty() {
            return;
        }
        // A newcomer asks those who were there before it, if it has heard of any.
        let asks_elder = self.join != Join::Ready && self.peers.values().any(|peer| peer.is_elder);
        let asked = self.peers.values().filter(|peer| peer.is_elder || !asks_elder);
        let addrs: Vec<SocketAddr> = asked.map(|peer| peer.addr).collect();
        // Not empty: there are peers, and elders where those are asked.
        let addr = addrs[self.rng.random_range(0..addrs.len())];
        let id = self.add_exchange(true, now);
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.asks_elder = asks_elder;
        }
        self.commands.push_back(StreamCommand::Open(id, addr));
        self.send_sync(id, &Exchange::open(&self.log));
    }

    pub(super) fn add_exchange(&mut self, opened_here: bool, now: Timestamp) -> StreamId {
        self.next_stream += 1;
        let id = StreamId(self.next_stream);
        self.exchanges.insert(id, Exchange::new(opened_here, now));
        id
    }

    pub(super) fn handle_sync(&mut self, now: Timestamp, id: StreamId, sender: RunId, message: SyncMessage) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        let began = matches!(message, SyncMessage::Versions(_));
        let hot = match message {
            SyncMessage::Summary(_) | SyncMessage::Versions(_) => {
                let since = now.saturating_sub(self.config.anti_entropy_interval * 2);
                self.log.hot_keys(since, Self::HOT_KEYS)
            }
            _ => Vec::new(),
        };
        let Ok((step, answer)) = exchange.handle(sender, message, &self.log, hot, now) else {
            self.stats.drops.malformed += 1;
            self.break_off(now, id);
            return;
        };
        if let Some((batch, as_of)) = &step.records {
            self.merge_records(now, id, batch, *as_of);
        }
        // A run that we know nothing of and that is no member has no cells left anywhere: it must not come back.
        for covered in step.covered {
            if self.peers.contains_key(&covered.run) || self.log.has_cells_of(covered.run) {
                let dropped = covered.dropped.map(Epoch::from_raw);
                self.log.fill(covered.run, covered.from, covered.to, dropped);
            }
        }
        for held in step.theirs {
            if self.peers.contains_key(&held.run) || self.log.has_cells_of(held.run) {
                let at = step.theirs_at.saturating_sub(Duration::from_secs(held.age_secs.into()));
                self.log.note_in_step(held.run, held.version, at);
            }
        }
        match answer {
            Some(answer) => self.send_sync(id, &answer),
            None if began => self.handle_stream_writable(now, id),
            None => {}
        }
        self.end_if_over(now, id);
    }

    fn merge_records(&mut self, now: Timestamp, id: StreamId, batch: &RecordBatch, as_of: Timestamp) {
        for record in batch.records() {
            let rule = find_subject(&mut self.scopes, &self.table, record.scope)
                .map(|subject| (subject.spec.rule(), subject.is_refund));
            // Where a baseline was missing, or too old to tell anything, only the level counts. It never
            // over-charges, so it is taken in any case.
            let missing = record.missing.filter(|_| !self.knows_refund_that_peer_lacks(id, record.digest));
            let mut charge = Charge { permits: 0, missing: missing.unwrap_or_default(), as_of };
            let keeps_expired = self.keeps_expired_cells(record, now);
            for cell in &record.cells {
                if self.is_expired(cell.age_secs) && !keeps_expired {
                    self.log.note_dropped(cell.run, cell.count.epoch);
                    continue;
                }
                match self.log.apply_record(record, cell, now) {
                    Applied::News(news) => {
                        let permits = rule.map_or(0, |(rule, _)| news.charge(rule.gcra.refill_time()));
                        charge.permits = charge.permits.saturating_add(permits);
                        if news != News::default() {
                            self.note_lag(cell.run, news.gap, now);
                        }
                    }
                    Applied::NoBaseline(_) => {}
                    Applied::Refused if cell.run == self.config.run => {}
                    Applied::Refused => self.stats.drops.cells_refused += 1,
                }
            }
            if let Some((rule, is_refund)) = rule
                && charge.says_anything()
            {
                self.stats.merges += 1;
                if is_refund {
                    self.table.refunded(&rule, record.digest.of_refunds(), charge.permits, now);
                } else {
                    self.table.charge(&rule, record.digest, charge, now);
                }
            }
        }
    }

    /// Whether a level of the key that the peer sends in this exchange leaves out a refund that is known here. Taken for the
    /// later estimate it would undo that.
    fn knows_refund_that_peer_lacks(&self, id: StreamId, digest: Digest) -> bool {
        if !self.table.knows_refunds() {
            return false;
        }
        let held = |run| self.exchanges.get(&id).map_or(Version::NONE, |exchange| exchange.peer_holds(run));
        self.table.has_untold_refund(digest)
            || self.log.cells_of(digest.of_refunds()).any(|cell| cell.version > held(cell.run))
    }

    /// Whether cells of a record that are past their time to live are wanted, as a sweep would want them: what the sender
    /// has only because it has not swept yet must not start a new life here.
    fn keeps_expired_cells(&self, record: &KeyRecord, now: Timestamp) -> bool {
        record.missing.is_some_and(|missing| missing != Missing::default())
            && record.cells.iter().all(|cell| self.is_expired(cell.age_secs))
            && !self.log.is_in_use(record.digest, now)
    }

    fn is_expired(&self, age_secs: u32) -> bool {
        self.config.sweeping.is_some_and(|sweeping| Duration::from_secs(age_secs.into()) >= sweeping.key_ttl)
    }

    pub(super) fn send_sync(&mut self, id: StreamId, message: &SyncMessage) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        // There is none where it is not our turn: the exchange does not come to that.
        let Some(frame) = self.seal.stream_frame(&mut exchange.channel, Tag::Sync, &message.encode()) else { return };
        exchange.traffic.frames_out += 1;
        exchange.traffic.bytes_out += frame.len() as u64;
        self.stats.frames_out += 1;
        self.stats.bytes_out += frame.len() as u64;
        self.commands.push_back(StreamCommand::Send(id, frame));
    }

    pub(super) fn end_if_over(&mut self, now: Timestamp, id: StreamId) {
        if !self.exchanges.get(&id).is_some_and(Exchange::is_over) {
            return;
        }
        if let Some(exchange) = self.exchanges.remove(&id) {
            self.commands.push_back(StreamCommand::Close(id));
            self.exchange_ended(now, &exchange, true);
        }
    }

    pub(super) fn break_off(&mut self, now: Timestamp, id: StreamId) {
        if let Some(exchange) = self.exchanges.remove(&id) {
            self.commands.push_back(StreamCommand::Cut(id));
            self.exchange_ended(now, &exchange, false);
        }
    }

    pub(super) fn drop_stalled(&mut self, now: Timestamp) {
        let stalled = self.exchanges.iter().filter(|(_, exchange)| exchange.deadline() <= now);
        let stalled: Vec<StreamId> = stalled.map(|(id, _)| *id).collect();
        for id in stalled {
            self.break_off(now, id);
        }
    }

    pub(super) fn exchange_ended(&mut self, now: Timestamp, exchange: &Exchange, well: bool) {
        exchange.tell_end(well, now);
        // Those of which the peer had cells that are not wanted here any more.
        self.forget_dead_runs();
        if well {
            self.stats.syncs += 1;
        } else {
            self.stats.syncs_failed += 1;
        }
        if !exchange.opened_here() {
            return;
        }
        if well && (exchange.asks_elder || self.no_elder_comes(now)) {
            self.become_ready();
        } else if self.join != Join::Ready {
            self.deadlines.anti_entropy = now.saturating_add(Self::RETRY);
        }
        if self.deadlines.left != Timestamp::MAX {
            self.deadlines.left = now;
        }
    }
}
