//! A walk over everything that a peer lacks, newest first, a bounded piece at a time.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::bucket::{Missing, Timestamp};

use super::{Digest, KeyRecord, ReplicaLog, RunCell, RunId, ScopeId, Version};

/// Walks each run's cells from its newest to the first that the peer holds, all runs in turn, so that busy keys go
/// first.
///
/// The walk keeps one position a run and no copy of anything: the log may change between two steps. A cell that is
/// published anew meanwhile leaves the walk, and reaches the peer as news of its own.
#[derive(Debug)]
pub struct Walk {
    /// What the peer holds of each run.
    theirs: BTreeMap<RunId, Version>,
    /// The runs of which it lacks something, in their order.
    spans: Vec<Span>,
    /// Whose turn it is.
    turn: usize,
    /// Keys in use, which go first, and which go even if the peer lacks nothing of them: for their levels.
    hot: Vec<Digest>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    run: RunId,
    /// The peer holds everything up to here.
    low: Version,
    /// We held everything up to here when the walk began.
    high: Version,
    /// Everything in `[cursor, high]` has been visited.
    cursor: Version,
}

impl Walk {
    /// Cells of one run that a turn visits.
    const TURN: usize = 32;

    /// A walk over what a peer lacks that holds `theirs`, after the `hot` keys.
    pub fn new(log: &ReplicaLog, theirs: BTreeMap<RunId, Version>, hot: Vec<Digest>) -> Self {
        let spans = log.versions().filter_map(|(run, high)| {
            let low = theirs.get(&run).copied().unwrap_or_default();
            // `high` is below the last version, since the log counts up to it one by one or takes it from a bounded
            // range.
            (high > low).then_some(Span { run, low, high, cursor: Version::from_raw(high.raw().saturating_add(1)) })
        });
        Self { spans: spans.collect(), theirs, turn: 0, hot }
    }

    /// What the peer holds once it has everything from this walk.
    pub fn covers(&self) -> impl Iterator<Item = (RunId, Version, Version)> + '_ {
        self.spans.iter().map(|span| (span.run, span.low, span.high))
    }

    /// Hands the next records to `take` until that says no, or until the end. `level` tells what is missing in a
    /// bucket.
    ///
    /// Returns whether there is more. The record that `take` refused is not lost: it comes first in the next step.
    pub fn step(
        &mut self,
        log: &ReplicaLog,
        now: Timestamp,
        mut level: impl FnMut(ScopeId, Digest) -> Option<Missing>,
        mut take: impl FnMut(KeyRecord) -> bool,
    ) -> bool {
        while let Some(&digest) = self.hot.last() {
            if !self.record(log, digest, now, &mut level).is_none_or(&mut take) {
                return true;
            }
            self.hot.pop();
        }
        let mut finished = 0;
        while finished < self.spans.len() {
            let turn = self.turn % self.spans.len();
            let mut left = Self::TURN;
            loop {
                let span = self.spans[turn];
                let Some((version, digest)) = log.newest_between(span.run, span.low, span.cursor) else {
                    self.spans[turn].cursor = span.low;
                    finished += 1;
                    break;
                };
                if left == 0 {
                    finished = 0;
                    break;
                }
                if !self.was_visited(log, turn, digest)
                    && !self.record(log, digest, now, &mut level).is_none_or(&mut take)
                {
                    return true;
                }
                self.spans[turn].cursor = version;
                left -= 1;
            }
            self.turn = turn + 1;
        }
        false
    }

    fn record(
        &self,
        log: &ReplicaLog,
        digest: Digest,
        now: Timestamp,
        level: impl FnOnce(ScopeId, Digest) -> Option<Missing>,
    ) -> Option<KeyRecord> {
        let scope = log.scope_of(digest)?;
        Some(KeyRecord { scope, digest, missing: level(scope, digest), cells: self.cells(log, digest, now) })
    }

    /// Whether the walk over another run came by this key, and so sent it.
    fn was_visited(&self, log: &ReplicaLog, turn: usize, digest: Digest) -> bool {
        log.cells_of(digest).any(|cell| {
            let at = self.span_of(cell.run);
            at.is_some_and(|at| {
                at != turn
                    && (self.spans[at].cursor..=self.spans[at].high).contains(&cell.version)
                    && cell.version > self.spans[at].low
            })
        })
    }

    /// The cells that the peer lacks, also those that were published since the walk began: whatever the level holds,
    /// the record has to name, or the peer would charge it again when it hears of it.
    fn cells(&self, log: &ReplicaLog, digest: Digest, now: Timestamp) -> SmallVec<[RunCell; 2]> {
        let held = |run| self.theirs.get(&run).copied().unwrap_or_default();
        let lacking = log.cells_of(digest).filter(|cell| cell.version > held(cell.run));
        let sent = lacking.map(|cell| {
            let age = now.saturating_since(cell.heard);
            let age_secs = age.as_secs() + u64::from(age.subsec_nanos() > 0);
            RunCell {
                run: cell.run,
                count: cell.count,
                version: cell.version,
                age_secs: u32::try_from(age_secs).unwrap_or(u32::MAX),
            }
        });
        sent.collect()
    }

    fn span_of(&self, run: RunId) -> Option<usize> {
        self.spans.binary_search_by_key(&run, |span| span.run).ok()
    }
}
