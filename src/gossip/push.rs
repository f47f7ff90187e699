//! Telling peers what was admitted here: eagerly for keys that need it, and everything once an interval.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use bytes::Bytes;

use crate::{
    bucket::Timestamp,
    crdt::ReplicaLog,
    table::{Refund, Table, Unsent},
};

use super::{
    lag::Lag,
    seal::Seal,
    wire::{DeltaWriter, Tag},
};

/// When to push, and the frames of a push.
///
/// A key becomes urgent by the countdown rule of distributed threshold monitoring (Cormode, Muthukrishnan, Yi,
/// "Algorithms for distributed functional monitoring", 2008): once its unsent permits reach `max(1, remaining / (2 *
/// peers))`. That is rare while its bucket is full and every admission when it is nearly empty: about `peers *
/// log2(burst)` messages a bucket. The hot path applies the rule (see [`Rule::push_weight`](crate::table::Rule)); all
/// urgent keys then share the datagrams of a round.
///
/// Datagrams are paced. Rounds for urgent keys come one a gap, and a few at once after a pause, because the first
/// milliseconds of a flash decide how far it goes above the quota. The flush takes what they leave, in steps. What a
/// round for urgent keys said is said again a moment later, as far as the pace leaves room: a lost datagram about a
/// slow key would otherwise be missed until its next admission.
#[derive(Debug)]
pub(super) struct Push {
    gap: Duration,
    /// Datagrams in a second.
    budget: u32,
    peers: u32,
    /// Theoretical arrival time of the next datagram: when the pace will have made up for those sent so far.
    paced_until: Timestamp,
    echoes: VecDeque<Echo>,
    /// The flush that is under way.
    flushing: Option<Flush>,
    unsent: Vec<Unsent>,
    published: u64,
}

/// How far a flush has come.
#[derive(Clone, Copy, Debug)]
struct Flush {
    /// The shard with which it goes on.
    shard: usize,
    /// From then on it takes turns with the rounds for urgent keys.
    late_from: Timestamp,
    /// Whether the next turn is its own.
    has_turn: bool,
}

/// Frames of a round, to be said once more.
#[derive(Debug)]
struct Echo {
    due: Timestamp,
    frames: Vec<Bytes>,
    /// How often it was said.
    said: u32,
}

impl Push {
    /// Rounds for urgent keys that may follow each other without a gap.
    const AT_ONCE: u32 = 8;
    /// How long after a round it is said again: some round trips on a LAN, and short against what a user notices.
    const ECHO_AFTER: Duration = Duration::from_millis(5);
    /// How often it is said again. Twice: where a tenth of the datagrams is lost, one in a thousand is then missed.
    const ECHOES: u32 = 2;
    /// Rounds that wait to be said again. More are only there when the pace leaves no room for any.
    const MAX_ECHOES: usize = 16;
    /// Ages that share frames: steps of 16 ms.
    const AGES_TOGETHER: u32 = 4;
    /// How long a flush gives way to urgent keys. Without an end to it, a node with one hot key would tell of no other.
    const FLUSH_LATE: Duration = Duration::from_millis(20);
    /// Keys of one step of a flush: half a millisecond of work, and some tens of datagrams a peer.
    const FLUSH_STEP: usize = 1024;

    pub(super) fn new(gap: Duration, budget: u32) -> Self {
        Self {
            gap,
            budget,
            peers: 0,
            paced_until: Timestamp::ZERO,
            echoes: VecDeque::new(),
            flushing: None,
            unsent: Vec::new(),
            published: 0,
        }
    }

    /// How many are told.
    pub(super) fn set_peers(&mut self, peers: usize) {
        self.peers = u32::try_from(peers).unwrap_or(u32::MAX);
    }

    /// Permits published so far.
    pub(super) fn published(&self) -> u64 {
        self.published
    }

    /// When one of the methods below has something to do.
    pub(super) fn next_timeout(&self, table: &Table) -> Timestamp {
        let urgent = if table.is_urgent() { self.urgent_from() } else { Timestamp::MAX };
        let echo = self.echoes.front().map_or(Timestamp::MAX, |echo| echo.due);
        urgent.min(echo).min(self.flush_from().unwrap_or(Timestamp::MAX))
    }

    /// Publishes the urgent keys, if the pace allows. Returns the frames for every peer.
    pub(super) fn urgent(
        &mut self,
        table: &Table,
        log: &mut ReplicaLog,
        seal: &mut Seal,
        now: Timestamp,
    ) -> Vec<Bytes> {
        let gives_way = self.flushing.is_some_and(|flush| flush.has_turn && flush.late_from <= now);
        if now < self.urgent_from() || gives_way || !table.is_urgent() {
            return Vec::new();
        }
        if let Some(flush) = &mut self.flushing {
            flush.has_turn = true;
        }
        table.drain_urgent(now, &mut self.unsent);
        let frames = self.publish(table, log, seal, &[], now);
        self.pace(frames.len(), now);
        self.echo_later(&frames, 1, now);
        frames
    }

    /// The frames that are due to be said again, if the pace leaves room for them.
    pub(super) fn echo(&mut self, now: Timestamp) -> Vec<Bytes> {
        let mut frames = Vec::new();
        while self.echoes.front().is_some_and(|echo| echo.due <= now) {
            let Some(echo) = self.echoes.pop_front() else { break };
            // Half of what may go at once is kept for news.
            if self.paced_until <= now.saturating_add(self.round() * (Self::AT_ONCE / 2)) {
                self.pace(echo.frames.len(), now);
                self.echo_later(&echo.frames, echo.said + 1, now);
                frames.extend(echo.frames);
            }
        }
        frames
    }

    fn echo_later(&mut self, frames: &[Bytes], said: u32, now: Timestamp) {
        if !frames.is_empty() && said <= Self::ECHOES && self.echoes.len() < Self::MAX_ECHOES {
            let due = now.saturating_add(Self::ECHO_AFTER);
            self.echoes.push_back(Echo { due, frames: frames.to_vec(), said });
        }
    }

    /// Begins to publish everything unsent; [`Push::flush_step`] does it.
    pub(super) fn begin_flush(&mut self, now: Timestamp) {
        // One that is not through yet is what the pace allows.
        let late_from = now.saturating_add(Self::FLUSH_LATE);
        self.flushing = self.flushing.or(Some(Flush { shard: 0, late_from, has_turn: false }));
    }

    /// Goes on with a flush, if one is under way and the pace allows. Returns the frames for every peer.
    pub(super) fn flush_step(
        &mut self,
        table: &Table,
        log: &mut ReplicaLog,
        seal: &mut Seal,
        now: Timestamp,
    ) -> Vec<Bytes> {
        let Some(flush) = self.flushing.filter(|_| self.flush_from().is_some_and(|from| from <= now)) else {
            return Vec::new();
        };
        let next = table.drain_dirty_from(flush.shard, Self::FLUSH_STEP, now, &mut self.unsent);
        self.flushing = next.map(|shard| Flush { shard, has_turn: false, ..flush });
        // After the permits that they are about.
        let refunds = if self.flushing.is_none() { table.drain_refunds() } else { Vec::new() };
        let frames = self.publish(table, log, seal, &refunds, now);
        self.pace(frames.len(), now);
        frames
    }

    /// Publishes everything unsent at once. Returns the frames for every peer.
    pub(super) fn flush_all(
        &mut self,
        table: &Table,
        log: &mut ReplicaLog,
        seal: &mut Seal,
        now: Timestamp,
    ) -> Vec<Bytes> {
        self.flushing = None;
        table.drain_dirty(now, &mut self.unsent);
        self.publish(table, log, seal, &table.drain_refunds(), now)
    }

    /// From when on the pace allows the next step of a flush, if one is under way: when there is nothing to make up for, or
    /// in its turn once it is late.
    fn flush_from(&self) -> Option<Timestamp> {
        let flush = self.flushing?;
        let in_turn = if flush.has_turn { self.urgent_from().max(flush.late_from) } else { Timestamp::MAX };
        Some(self.paced_until.min(in_turn))
    }

    /// From when on the pace allows a round for urgent keys.
    fn urgent_from(&self) -> Timestamp {
        self.paced_until.saturating_sub(self.round() * (Self::AT_ONCE - 1))
    }

    /// The time that one datagram to every peer takes: the gap, or longer where there are so many that it would break
    /// the budget.
    fn round(&self) -> Duration {
        self.gap.max(Duration::from_secs(1) / self.budget * self.peers)
    }

    fn pace(&mut self, frames: usize, now: Timestamp) {
        let Some(frames_beside_first) = u32::try_from(frames).unwrap_or(u32::MAX).checked_sub(1) else { return };
        let cost = Duration::from_secs(1) / self.budget * self.peers;
        let cost = self.round().saturating_add(cost.saturating_mul(frames_beside_first));
        self.paced_until = self.paced_until.max(now).saturating_add(cost);
    }

    fn publish(
        &mut self,
        table: &Table,
        log: &mut ReplicaLog,
        seal: &mut Seal,
        refunds: &[Refund],
        now: Timestamp,
    ) -> Vec<Bytes> {
        if self.unsent.is_empty() && refunds.is_empty() {
            return Vec::new();
        }
        // A frame has one age for all of its deltas, so like goes with like; within that, one group a scope.
        self.unsent.sort_by_key(|unsent| (unsent.age.as_millis() >> Self::AGES_TOGETHER, unsent.scope));
        let mut writer = DeltaWriter::default();
        let mut scope = None;
        for unsent in self.unsent.drain(..) {
            if scope.as_ref().is_none_or(|(index, _)| *index != unsent.scope) {
                scope = table.scopes().get(unsent.scope).map(|spec| (unsent.scope, spec.id()));
            }
            let Some((_, id)) = scope else {
                debug_assert!(false, "scopes are never removed");
                continue;
            };
            self.published += unsent.permits;
            writer.push(&log.publish(id, unsent.digest, unsent.permits, now), unsent.age);
        }
        for refund in refunds {
            let Some(spec) = table.scopes().get(refund.scope) else { continue };
            let (id, digest) = (spec.id().of_refunds(), refund.digest.of_refunds());
            writer.push(&log.publish(id, digest, refund.permits, now), Duration::ZERO);
        }
        writer.finish().iter().filter_map(|body| seal.datagram(Tag::Deltas, body)).collect()
    }
}

/// Who is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) addr: SocketAddr,
    /// Whether it was there long before this node, so that it knows what the cluster knows.
    pub(super) is_elder: bool,
    /// How late we hear of what it admits.
    pub(super) lag: Lag,
}
