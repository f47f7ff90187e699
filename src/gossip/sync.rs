//! Anti-entropy: one exchange with one peer over one stream.
//!
//! It repairs what datagrams lost, carries news around a cut between two nodes, and is the join: a newcomer holds
//! nothing, so it gets everything that is still alive.

use std::{collections::BTreeMap, hash::Hasher, time::Duration};

use siphasher::sip::SipHasher13;
use tracing::{Span, field};

use crate::{
    bucket::{Missing, Timestamp},
    crdt::{Digest, Epoch, ReplicaLog, RunId, ScopeId, Version, Walk},
};

use super::{
    seal::Channel,
    wire::{Covered, HeldRun, MAX_RUNS, RecordBatch, SyncMessage},
};

/// How long an exchange may make no progress.
pub(super) const STALL: Duration = Duration::from_secs(5);
/// How long a peer that opened a stream may take to say who it is. A member says so as soon as it is connected.
pub(super) const FIRST_FRAME: Duration = Duration::from_secs(2);
/// How long an exchange may take in all, whatever progress it makes: a million keys over 10 Mbit/s, twice. What came
/// until then is kept.
pub(super) const LONGEST: Duration = Duration::from_secs(120);

/// One end of an exchange.
#[derive(Debug)]
pub(super) struct Exchange {
    opened_here: bool,
    /// What happens in it is told in this.
    pub(super) span: Span,
    pub(super) traffic: Traffic,
    /// Whether it was opened here to a member that was there long before.
    pub(super) asks_elder: bool,
    pub(super) channel: Channel,
    /// Whether a member has spoken on it.
    proven: bool,
    began: Timestamp,
    /// Whether our `Versions` went out.
    told: bool,
    /// When our `Versions` went out.
    told_at: Timestamp,
    /// When theirs arrived.
    heard_at: Timestamp,
    /// What the peer lacks, once it has told what it holds.
    walk: Option<Walk>,
    walked: bool,
    received_all: bool,
    theirs: BTreeMap<RunId, HeldRun>,
    /// When it last made progress.
    active: Timestamp,
}

/// Frames of one exchange.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    pub(super) frames_in: u64,
    pub(super) frames_out: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

/// What came of a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Records to merge, and an instant at which their levels were no higher.
    pub(super) records: Option<(RecordBatch, Timestamp)>,
    /// Ranges that arrived completely.
    pub(super) covered: Vec<Covered>,
    /// What the peer was found to hold, and when that was.
    pub(super) theirs: Vec<HeldRun>,
    pub(super) theirs_at: Timestamp,
}

/// The peer does not keep to the protocol.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutOfTurn;

impl Exchange {
    pub(super) fn new(opened_here: bool, now: Timestamp) -> Self {
        Self {
            opened_here,
            span: tracing::debug_span!("sync", opened_here, peer = field::Empty),
            traffic: Traffic::default(),
            asks_elder: false,
            channel: Channel::default(),
            proven: opened_here,
            began: now,
            told: false,
            told_at: now,
            heard_at: now,
            walk: None,
            walked: false,
            received_all: false,
            theirs: BTreeMap::new(),
            active: now,
        }
    }

    pub(super) fn opened_here(&self) -> bool {
        self.opened_here
    }

    /// Whether it is known that the other end is a member.
    pub(super) fn is_proven(&self) -> bool {
        self.proven
    }

    /// A member has spoken.
    pub(super) fn prove(&mut self, peer: RunId) {
        self.proven = true;
        self.span.record("peer", field::display(peer));
    }

    /// It is over, well or not.
    pub(super) fn tell_end(&self, well: bool, now: Timestamp) {
        let Traffic { frames_in, frames_out, bytes_in, bytes_out } = self.traffic;
        let took = now.saturating_since(self.began);
        tracing::debug!(parent: &self.span, well, ?took, frames_in, frames_out, bytes_in, bytes_out, "exchange ended");
    }

    /// When it is broken off.
    pub(super) fn deadline(&self) -> Timestamp {
        let first = if self.proven { LONGEST } else { FIRST_FRAME };
        self.began.saturating_add(first).min(self.active.saturating_add(STALL))
    }

    /// Whether both sides have all they wanted.
    pub(super) fn is_over(&self) -> bool {
        self.walked && self.received_all
    }

    /// Up to which version the peer said that it holds what `run` published.
    pub(super) fn peer_holds(&self, run: RunId) -> Version {
        self.theirs.get(&run).map_or(Version::NONE, |held| held.version)
    }

    /// What to say first on a stream that we opened.
    pub(super) fn open(log: &ReplicaLog) -> SyncMessage {
        SyncMessage::Summary(summary(log))
    }

    /// Takes a message of the run `sender`, while the keys `hot` are in use. Returns what to do with its contents,
    /// and what to answer at once.
    pub(super) fn handle(
        &mut self,
        sender: RunId,
        message: SyncMessage,
        log: &ReplicaLog,
        hot: Vec<Digest>,
        now: Timestamp,
    ) -> Result<(Step, Option<SyncMessage>), OutOfTurn> {
        self.active = now;
        let mut step = Step::default();
        let answer = match message {
            SyncMessage::Summary(theirs) if !self.opened_here && !self.told => {
                if theirs == summary(log) && hot.is_empty() {
                    self.told = true;
                    self.end_in_step(sender, log, &mut step);
                    Some(SyncMessage::InStep)
                } else {
                    Some(self.tell(log, now))
                }
            }
            SyncMessage::InStep if self.opened_here && !self.told => {
                self.end_in_step(sender, log, &mut step);
                None
            }
            SyncMessage::Versions(theirs) if self.walk.is_none() && self.opened_here != self.told => {
                self.theirs = theirs.into_iter().map(|held| (held.run, held)).collect();
                self.heard_at = now;
                self.walk =
                    Some(Walk::new(log, self.theirs.values().map(|held| (held.run, held.version)).collect(), hot));
                (!self.told).then(|| self.tell(log, now))
            }
            SyncMessage::Records(batch) if self.told && !self.received_all => {
                let as_of = self.told_at.saturating_add(batch.elapsed).min(now);
                step.records = Some((batch, as_of));
                None
            }
            SyncMessage::Done(covered) if self.told && !self.received_all => {
                self.received_all = true;
                step.covered = covered;
                step.theirs = self.theirs.values().copied().collect();
                step.theirs_at = self.heard_at;
                None
            }
            _ => return Err(OutOfTurn),
        };
        Ok((step, answer))
    }

    /// The next piece for the peer, once the last one is written; `None` while there is nothing to say.
    pub(super) fn next_piece(
        &mut self,
        log: &ReplicaLog,
        now: Timestamp,
        level: impl FnMut(ScopeId, Digest) -> Option<Missing>,
    ) -> Option<SyncMessage> {
        let walk = self.walk.as_mut().filter(|_| !self.walked)?;
        self.active = now;
        let mut batch = RecordBatch::new(now.saturating_since(self.heard_at));
        let more = walk.step(log, now, level, |record| batch.push(record));
        if !batch.is_empty() {
            debug_assert!(more || !self.walked, "a walk ends once");
            return Some(SyncMessage::Records(batch));
        }
        self.walked = true;
        let covered =
            walk.covers().map(|(run, from, to)| Covered { run, from, to, dropped: log.dropped(run).map(Epoch::raw) });
        Some(SyncMessage::Done(covered.collect()))
    }

    fn tell(&mut self, log: &ReplicaLog, now: Timestamp) -> SyncMessage {
        self.told = true;
        self.told_at = now;
        versions(log, now)
    }

    /// The peer holds what we hold; for its own run that is all there is.
    fn end_in_step(&mut self, sender: RunId, log: &ReplicaLog, step: &mut Step) {
        self.walked = true;
        self.received_all = true;
        step.theirs_at = self.heard_at;
        step.theirs = vec![HeldRun { run: sender, version: log.version_of(sender), age_secs: 0 }];
    }
}

fn versions(log: &ReplicaLog, now: Timestamp) -> SyncMessage {
    let held = log.versions().map(|(run, version)| {
        let age = log.in_step_since(run, now);
        let age_secs =
            u32::try_from(age.as_secs()).unwrap_or(u32::MAX).saturating_add(u32::from(age.subsec_nanos() > 0));
        HeldRun { run, version, age_secs }
    });
    SyncMessage::Versions(held.take(MAX_RUNS).collect())
}

/// A digest of what a log holds: 64 bits, the same on every platform. A collision costs one skipped exchange.
fn summary(log: &ReplicaLog) -> u64 {
    let mut hasher = SipHasher13::new();
    for (run, version) in log.versions() {
        // A run that never published says nothing, and whether a node has heard of it is no difference.
        if version != Version::NONE {
            hasher.write(&run.raw().to_le_bytes());
            hasher.write(&version.raw().to_le_bytes());
        }
    }
    hasher.finish()
}
