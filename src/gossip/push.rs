//! Telling peers what was admitted here: eagerly for keys that need it, and everything once an interval.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;

use crate::{
    bucket::Timestamp,
    crdt::ReplicaLog,
    table::{Table, Unsent},
};

use super::wire::{ClusterId, DeltaWriter, Tag, encode_frame};

/// When to push, and the frames of a push.
///
/// A key becomes urgent by the countdown rule of distributed threshold monitoring (Cormode, Muthukrishnan, Yi, "Algorithms for
/// distributed functional monitoring", 2008): once its unsent permits reach `max(1, remaining / (2 * peers))`. That is rare while
/// its bucket is full and every admission when it is nearly empty: about `peers * log2(burst)` messages a bucket. The hot path
/// applies the rule (see [`Rule::push_weight`](crate::table::Rule)); all urgent keys then share the datagrams of a round.
#[derive(Debug)]
pub(super) struct Push {
    gap: Duration,
    /// No eager push before.
    ready_at: Timestamp,
    unsent: Vec<Unsent>,
}

impl Push {
    pub(super) fn new(gap: Duration) -> Self {
        Self { gap, ready_at: Timestamp::ZERO, unsent: Vec::new() }
    }

    /// When an urgent key may be pushed. The first push of a quiet node goes at once.
    pub(super) fn ready_at(&self) -> Timestamp {
        self.ready_at
    }

    /// Publishes the urgent keys, if the gap since the last push allows. Returns the frames for every peer.
    pub(super) fn urgent(
        &mut self,
        table: &Table,
        log: &mut ReplicaLog,
        cluster: ClusterId,
        now: Timestamp,
    ) -> Vec<Bytes> {
        if now < self.ready_at || !table.is_urgent() {
            return Vec::new();
        }
        self.ready_at = now.saturating_add(self.gap);
        table.drain_urgent(&mut self.unsent);
        self.publish(table, log, cluster, now)
    }

    /// Publishes everything unsent. Returns the frames for every peer.
    pub(super) fn flush(
        &mut self,
        table: &Table,
        log: &mut ReplicaLog,
        cluster: ClusterId,
        now: Timestamp,
    ) -> Vec<Bytes> {
        table.drain_dirty(&mut self.unsent);
        self.publish(table, log, cluster, now)
    }

    fn publish(&mut self, table: &Table, log: &mut ReplicaLog, cluster: ClusterId, now: Timestamp) -> Vec<Bytes> {
        if self.unsent.is_empty() {
            return Vec::new();
        }
        // One group a scope and frame.
        self.unsent.sort_by_key(|unsent| unsent.scope);
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
            writer.push(&log.publish(id, unsent.digest, unsent.permits, now));
        }
        writer.finish().iter().map(|body| encode_frame(cluster, log.own(), Tag::Deltas, body)).collect()
    }
}

/// Who is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) addr: SocketAddr,
}
