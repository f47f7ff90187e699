//! The engine's life: becoming ready, sweeping, leaving.

use std::time::Duration;

use crate::{bucket::Timestamp, table::SweepPosition};

use super::{super::wire::Tag, Engine, Event, Join, StreamId};

impl Engine {
    pub(super) fn check_ready(&mut self, now: Timestamp) {
        let (since, patience) = match self.join {
            Join::Searching(at) => (at, Self::TRANSFER_PATIENCE),
            Join::Announced(at) if self.peers.is_empty() => (at, Self::ALONE_AFTER),
            Join::Announced(at) => (at, Self::TRANSFER_PATIENCE),
            Join::Ready => return,
        };
        if now.saturating_since(since) >= patience {
            if self.peers.is_empty() {
                self.events.push_back(Event::NobodyAnswers(self.found.len()));
            }
            self.become_ready();
        }
    }

    /// Whether it is known by now that all members are newcomers, as those of a cluster that starts are: those who were
    /// there before answer an announcement within a few round trips.
    pub(super) fn no_elder_comes(&self, now: Timestamp) -> bool {
        let waited = |at| now.saturating_since(at) >= Self::ELDERS_COME;
        let has_elders = || self.peers.values().any(|peer| peer.is_elder);
        match self.join {
            Join::Searching(at) | Join::Announced(at) => waited(at) && !has_elders(),
            Join::Ready => true,
        }
    }

    pub(super) fn become_ready(&mut self) {
        if self.join != Join::Ready {
            self.join = Join::Ready;
            self.events.push_back(Event::Ready);
        }
    }

    pub(super) fn sweep(&mut self, now: Timestamp) {
        let Some(sweeping) = self.config.sweeping else {
            self.deadlines.sweep = Timestamp::MAX;
            return;
        };
        if !self.sweep.buckets_done {
            self.sweep.at = self.table.sweep(self.sweep.at, Self::SWEEP_STEP, sweeping.key_ttl, now);
            self.sweep.buckets_done = self.sweep.at.is_start();
        }
        if !self.sweep.cells_done {
            let table = &self.table;
            let swept = self.log.sweep(now, Self::SWEEP_STEP, |digest| !table.is_full(digest, now));
            self.stats.cells_evicted += swept.dropped as u64;
            self.sweep.cells_done = !swept.more;
        }
        let round_over = self.sweep.buckets_done && self.sweep.cells_done;
        if round_over {
            self.sweep = SweepRound::default();
            self.forget_dead_runs();
        }
        // Small steps, so that neither decisions nor peers wait for a sweep.
        let pause = if round_over { sweeping.interval } else { Duration::from_millis(1) };
        self.deadlines.sweep = now.saturating_add(pause);
    }

    /// Forgets runs that are no members and have no cells left.
    pub(super) fn forget_dead_runs(&mut self) {
        let peers = &self.peers;
        self.log.forget_runs(|run| peers.contains_key(&run));
    }

    /// After a pause nothing is known of how things stand: exchanges that were open then say how they stood, and members
    /// that went on know better.
    pub(super) fn notice_pause(&mut self, now: Timestamp) {
        if self.pauses.turn(now) {
            tracing::debug!("this process was stopped for a while; compares notes");
            let open: Vec<StreamId> = self.exchanges.keys().copied().collect();
            for id in open {
                self.break_off(now, id);
            }
            self.compare_notes_soon(now);
        }
    }

    /// Tells everybody that this is no failure.
    pub(super) fn say_leaving(&mut self) {
        let frame = self.seal.datagram(Tag::Leave, &[]);
        self.send_to_peers(frame.into_iter().collect());
    }

    pub(super) fn finish_leaving(&mut self, now: Timestamp) {
        // Whatever was admitted while a peer took the rest.
        self.flush_all(now);
        self.say_leaving();
        if let Err(error) = self.membership.leave(now) {
            tracing::debug!(%error, "cannot say good-bye");
        }
        // foca picks a few members at random each time; a small cluster hears it whole.
        for _ in 0..2 {
            if let Err(error) = self.membership.gossip(now) {
                tracing::debug!(%error, "cannot say good-bye");
            }
        }
        self.drain_swim(now);
        self.left = true;
        self.events.push_back(Event::Left);
    }
}

/// How far a round of the sweep has come.
#[derive(Debug, Default)]
pub(super) struct SweepRound {
    at: SweepPosition,
    buckets_done: bool,
    cells_done: bool,
}
