//! The replica log: every run's cells, in version order.

use std::{collections::BTreeMap, time::Duration};

use smallvec::SmallVec;

use crate::bucket::Timestamp;

use super::{
    Cell, Count, Delta, Digest, Epoch, KeyRecord, News, RunCell, RunId, ScopeId, Version,
    cells::{CellId, Cells, RunSlot, Stored},
    held::Held,
    order::Order,
    slots::Slots,
};

/// Bounds of a [`ReplicaLog`].
#[derive(Clone, Copy, Debug)]
pub struct LogLimits {
    /// Most cells of our own, the oldest of which gives way to a new one; and most keys from which on a key that only other
    /// runs use is not kept: its deltas are charged, and leave no baseline.
    pub max_keys: usize,
    /// Most runs. Cells of runs beyond are not kept.
    pub max_runs: usize,
}

/// What became of a cell that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// A baseline was known; this is what it lacked. All zero if nothing.
    News(News),
    /// No baseline was known. A delta's own permits are all that can be charged; a record brings a level.
    NoBaseline(News),
    /// Refused: it is about our own run, or its version belongs to another cell. Nothing changed.
    Refused,
}

/// What one step of a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Cells dropped.
    pub dropped: usize,
    /// Whether the round goes on with the next call.
    pub more: bool,
}

/// All cells that one node holds. Used by the gossip task alone, so there are no locks in it.
#[derive(Debug)]
pub struct ReplicaLog {
    own: RunId,
    /// Epoch of own cells that are created next. Raised when own cells are dropped.
    epoch: Epoch,
    cells: Cells,
    /// Ordered, so that nothing which reaches the wire depends on a hash seed.
    runs: BTreeMap<RunId, Run>,
    slots: Slots,
    limits: LogLimits,
    /// How long a cell lives that its run does not publish.
    key_ttl: Duration,
    /// Where the sweep goes on; `None` at the start of a round.
    sweep_after: Option<(RunId, Version)>,
}

#[derive(Debug)]
struct Run {
    /// What cells call it.
    slot: RunSlot,
    /// Exactly one place for each cell of this run.
    order: Order,
    held: Held,
    /// When this node last knew that it missed nothing of this run, if it ever did.
    in_step: Option<Timestamp>,
    /// The latest epoch of which a cell was dropped here, or not kept.
    dropped: Option<Epoch>,
}

impl Run {
    fn new(slot: RunSlot) -> Self {
        Self { slot, order: Order::default(), held: Held::default(), in_step: None, dropped: None }
    }

    /// Whether a cell of `epoch` that is not here was never here, and began after this node was last in step.
    fn is_new(&self, epoch: Epoch) -> bool {
        self.in_step.is_some() && self.dropped.is_none_or(|dropped| epoch > dropped)
    }
}

impl ReplicaLog {
    /// An empty log of the run `own`, whose cells live for `key_ttl` after they were last published.
    pub fn new(own: RunId, limits: LogLimits, key_ttl: Duration) -> Self {
        let (slots, slot) = Slots::new(own);
        Self {
            own,
            epoch: Epoch::default(),
            cells: Cells::default(),
            runs: BTreeMap::from([(own, Run::new(slot))]),
            slots,
            limits,
            key_ttl,
            sweep_after: None,
        }
    }

    /// The run that this log belongs to.
    pub fn own(&self) -> RunId {
        self.own
    }

    /// Cells held, of all runs.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// Keys with at least one cell.
    pub fn keys(&self) -> usize {
        self.cells.keys()
    }

    /// Raises our own cell of a key by `permits`, and gives it our next version.
    pub fn publish(&mut self, scope: ScopeId, digest: Digest, permits: u64, now: Timestamp) -> Delta {
        let version = self.own_version().next();
        let key_ttl = self.key_ttl;
        let id = self.own_cell(digest);
        let cell = id.map(|id| self.cells.get(id));
        // Peers may have dropped a cell that was idle for so long. Where it begins anew must not depend on who swept first.
        let begun = cell.filter(|cell| now.saturating_since(cell.heard) < key_ttl).map(|cell| cell.count);
        if let Some(cell) = cell
            && begun.is_none()
        {
            self.end_epoch(cell.count.epoch);
        }
        let own_cells = self.runs.get(&self.own).map_or(0, |own| own.order.len());
        if cell.is_none() && own_cells >= self.limits.max_keys {
            self.drop_oldest_own();
        }
        let before = begun.unwrap_or(Count { epoch: self.epoch, permits: 0 });
        let after = Count { permits: before.permits.saturating_add(permits), ..before };
        let Some(own) = self.runs.get_mut(&self.own) else {
            debug_assert!(false, "a log has its own run");
            return Delta { scope, digest, epoch: after.epoch, from: before.permits, to: after.permits, version };
        };
        let stored = Stored { run: own.slot, count: after, version, heard: now };
        let id = match id {
            Some(id) => {
                self.cells.set(id, stored);
                Some(id)
            }
            None => self.cells.insert(scope, digest, stored),
        };
        if let Some(cell) = cell {
            own.order.remove(cell.version);
        }
        if let Some(id) = id {
            own.order.insert(version, id);
        }
        own.held.cover(own.held.upto(), version);
        Delta { scope, digest, epoch: after.epoch, from: before.permits, to: after.permits, version }
    }

    fn own_cell(&self, digest: Digest) -> Option<CellId> {
        self.runs.get(&self.own).and_then(|own| self.find(self.cells.first_of(digest), own.slot))
    }

    /// The cell of a run among those from `first` on.
    fn find(&self, first: Option<CellId>, run: RunSlot) -> Option<CellId> {
        self.cells.linked(first).find(|id| self.cells.get(*id).run == run)
    }

    /// A cell of `epoch` ended: one that begins anew needs a later epoch. Cells of an epoch end over a long time, so that one
    /// step serves many of them.
    fn end_epoch(&mut self, epoch: Epoch) {
        if epoch == self.epoch {
            self.epoch = epoch.next();
        }
    }

    fn drop_oldest_own(&mut self) {
        let Some(own) = self.runs.get_mut(&self.own) else { return };
        let Some((version, id)) = own.order.first() else { return };
        own.order.remove(version);
        let epoch = self.cells.get(id).count.epoch;
        self.cells.remove(id);
        self.end_epoch(epoch);
    }

    /// Merges a delta that `run` itself sent.
    pub fn apply_delta(&mut self, run: RunId, delta: &Delta, now: Timestamp) -> Applied {
        let count = Count { epoch: delta.epoch, permits: delta.to };
        let arrival = Cell { run, count, version: delta.version, heard: now };
        self.merge(delta.scope, delta.digest, arrival, Some(delta.from), now)
    }

    /// Merges one cell of a record that some member passed on.
    pub fn apply_record(&mut self, record: &KeyRecord, cell: &RunCell, now: Timestamp) -> Applied {
        let heard = now.saturating_sub(Duration::from_secs(cell.age_secs.into()));
        let arrival = Cell { run: cell.run, count: cell.count, version: cell.version, heard };
        self.merge(record.scope, record.digest, arrival, None, now)
    }

    /// `from` is the count at which the sender's own report begins; a record reports nothing of its own, only a state.
    fn merge(&mut self, scope: ScopeId, digest: Digest, arrival: Cell, from: Option<u64>, now: Timestamp) -> Applied {
        // Versions begin at 1; a cell without one would never be swept.
        if arrival.run == self.own || arrival.version == Version::NONE {
            return Applied::Refused;
        }
        let epoch = arrival.count.epoch;
        let reported = arrival.count.permits.saturating_sub(from.unwrap_or(arrival.count.permits));
        let no_baseline = Applied::NoBaseline(News { recent: reported, ..News::default() });

        let first = self.cells.first_of(digest);
        let has_room = first.is_some() || self.cells.keys() < self.limits.max_keys;
        let Some(run) = self.run_mut(arrival.run) else {
            // Of a run that is not kept nobody knows what was charged before, so nothing is.
            return Applied::NoBaseline(News::default());
        };
        let (slot, place) = (run.slot, run.order.get(arrival.version));

        let Some(id) = self.find(first, slot) else {
            if place.is_some() {
                return Applied::Refused;
            }
            let stored = Stored { run: slot, count: arrival.count, version: arrival.version, heard: arrival.heard };
            let id = if has_room { self.cells.insert(scope, digest, stored) } else { None };
            let Some(run) = self.runs.get_mut(&arrival.run) else { return no_baseline };
            let Some(id) = id else {
                run.dropped = run.dropped.max(Some(epoch));
                return no_baseline;
            };
            run.order.insert(arrival.version, id);
            return match run.in_step {
                // It began since: all of it is news.
                Some(in_step) if run.is_new(epoch) => {
                    let gap = now.saturating_since(in_step);
                    Applied::News(News { recent: reported, missed: arrival.count.permits - reported, gap })
                }
                _ => no_baseline,
            };
        };
        let mut cell = self.cells.get(id);
        if arrival.count <= cell.count {
            return Applied::News(News::default());
        }
        if place.is_some_and(|taken| taken != id) {
            return Applied::Refused;
        }
        // A new epoch began at 0, and everything in it is news.
        let baseline = if epoch > cell.count.epoch { 0 } else { cell.count.permits };
        let fresh = arrival.count.permits.saturating_sub(baseline);
        let recent = reported.min(fresh);
        let Some(run) = self.runs.get_mut(&arrival.run) else { return no_baseline };
        let gap = now.saturating_since(cell.heard.max(run.in_step.unwrap_or_default()));
        let news = News { recent, missed: fresh - recent, gap };

        cell.count = cell.count.merge(arrival.count);
        cell.heard = cell.heard.max(arrival.heard);
        if arrival.version > cell.version {
            run.order.remove(cell.version);
            run.order.insert(arrival.version, id);
            cell.version = arrival.version;
        }
        self.cells.set(id, cell);
        Applied::News(news)
    }

    /// Notes that everything which `run` published in `(from, to]` has arrived from itself. Returns whether nothing
    /// before is missing.
    ///
    /// A run of which nothing is known begins here, within the limits.
    pub fn cover(&mut self, run: RunId, from: Version, to: Version, now: Timestamp) -> bool {
        let Some(run) = self.run_mut(run) else { return true };
        let before = run.held.upto();
        let contiguous = run.held.cover(from, to);
        // A frame that comes twice, or late, does not say that nothing came after it.
        if contiguous && to > before {
            run.in_step = run.in_step.max(Some(now));
        }
        contiguous
    }

    /// Notes that everything which `run` published in `(from, to]` has arrived from somebody else, but for cells of epochs up to
    /// `dropped`, some of which that one does not have. It says nothing of how fresh that is; see
    /// [`ReplicaLog::note_in_step`].
    pub fn fill(&mut self, run: RunId, from: Version, to: Version, dropped: Option<Epoch>) {
        if let Some(run) = self.run_mut(run) {
            run.held.cover(from, to);
            run.dropped = run.dropped.max(dropped);
        }
    }

    /// Notes that a cell of `run` was not taken.
    pub fn note_dropped(&mut self, run: RunId, epoch: Epoch) {
        if let Some(run) = self.run_mut(run) {
            run.dropped = run.dropped.max(Some(epoch));
        }
    }

    /// The latest epoch of `run` of which a cell is missing here, though its version is held.
    pub fn dropped(&self, run: RunId) -> Option<Epoch> {
        self.runs.get(&run)?.dropped
    }

    /// Whether everything that `run` published in `(from, to]` is held.
    pub fn holds(&self, run: RunId, from: Version, to: Version) -> bool {
        self.runs.get(&run).is_some_and(|run| run.held.holds(from, to))
    }

    /// How many runs are known.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Notes that at `at` the run had published nothing beyond `version`. If that is held here, nothing was missed
    /// until then.
    ///
    /// A run of which nothing is known begins here, within the limits.
    pub fn note_in_step(&mut self, run: RunId, version: Version, at: Timestamp) {
        let Some(run) = self.run_mut(run) else { return };
        if run.held.upto() >= version {
            run.in_step = run.in_step.max(Some(at));
        }
    }

    /// Another run than our own, begun if there is room.
    fn run_mut(&mut self, run: RunId) -> Option<&mut Run> {
        if run == self.own {
            return None;
        }
        if !self.runs.contains_key(&run) {
            let has_room = self.runs.len() < self.limits.max_runs;
            let slot = has_room.then(|| self.slots.take(run))??;
            self.runs.insert(run, Run::new(slot));
        }
        self.runs.get_mut(&run)
    }

    /// How long ago nothing of `run` was missed; zero for our own, for ever if it was never so.
    pub fn in_step_since(&self, run: RunId, now: Timestamp) -> Duration {
        if run == self.own {
            return Duration::ZERO;
        }
        let in_step = self.runs.get(&run).and_then(|run| run.in_step);
        in_step.map_or(Duration::MAX, |in_step| now.saturating_since(in_step))
    }

    /// The highest version of `run` up to which nothing is missing.
    pub fn version_of(&self, run: RunId) -> Version {
        self.runs.get(&run).map_or(Version::NONE, |run| run.held.upto())
    }

    /// Whether some delta of `run` is known to be lost or late.
    pub fn has_gap(&self, run: RunId) -> bool {
        self.runs.get(&run).is_some_and(|run| run.held.has_gap())
    }

    /// For each run the highest version up to which nothing is missing, in the order of the runs.
    pub fn versions(&self) -> impl Iterator<Item = (RunId, Version)> + '_ {
        self.runs.iter().map(|(id, run)| (*id, run.held.upto()))
    }

    /// Our own version: how much we have published.
    pub fn own_version(&self) -> Version {
        self.version_of(self.own)
    }

    /// Whether the log keeps anything of `run`.
    pub fn has_cells_of(&self, run: RunId) -> bool {
        self.runs.get(&run).is_some_and(|run| !run.order.is_empty())
    }

    /// The cells of a key, in no order.
    pub fn cells_of(&self, digest: Digest) -> SmallVec<[Cell; 4]> {
        self.cells.linked(self.cells.first_of(digest)).map(|id| self.cell(id)).collect()
    }

    fn cell(&self, id: CellId) -> Cell {
        let Stored { run, count, version, heard } = self.cells.get(id);
        Cell { run: self.slots.run(run), count, version, heard }
    }

    /// Up to `most` keys that some run published since `since`, some of each run's newest.
    pub fn hot_keys(&self, since: Timestamp, most: usize) -> Vec<Digest> {
        let mut hot = Vec::new();
        for run in self.runs.values() {
            let newest = run.order.newest_first().take_while(|id| self.cells.get(*id).heard >= since);
            hot.extend(newest.take(most.div_ceil(self.runs.len())).map(|id| self.cells.key(id).1));
        }
        hot.sort_unstable();
        hot.dedup();
        hot.truncate(most);
        hot
    }

    pub(super) fn scope_of(&self, digest: Digest) -> Option<ScopeId> {
        self.cells.first_of(digest).map(|id| self.cells.key(id).0)
    }

    /// The cell of `run` with the highest version in `(low, below)`.
    pub(super) fn newest_between(&self, run: RunId, low: Version, below: Version) -> Option<(Version, Digest)> {
        let order = &self.runs.get(&run)?.order;
        let (version, id) = order.last_between(low.next(), below)?;
        Some((version, self.cells.key(id).1))
    }

    /// Looks at up to `budget` cells that nobody published for the time to live, each run's oldest first, and drops
    /// those that `keep` does not want: a cell is needed as long as its bucket is not full again. Successive calls go
    /// on where the last one ended.
    pub fn sweep(&mut self, now: Timestamp, budget: usize, keep: impl Fn(Digest) -> bool) -> Swept {
        let mut swept = Swept::default();
        let (mut at_run, mut after) = self.sweep_after.take().unwrap_or((RunId::from_raw(0), Version::NONE));
        for _ in 0..budget {
            // A run that went meanwhile leaves the cursor between two others.
            let Some((&id, run)) = self.runs.range_mut(at_run..).next() else { return swept };
            if id != at_run {
                (at_run, after) = (id, Version::NONE);
            }
            let idle_cell = run.order.first_from(after.next()).and_then(|(version, id)| {
                let cell = self.cells.get(id);
                let is_idle = now.saturating_since(cell.heard) >= self.key_ttl;
                is_idle.then(|| (version, id, self.cells.key(id).1, cell.count.epoch))
            });
            let Some((version, cell, digest, epoch)) = idle_cell else {
                let Some(next) = id.raw().checked_add(1) else { return swept };
                (at_run, after) = (RunId::from_raw(next), Version::NONE);
                continue;
            };
            after = version;
            if keep(digest) {
                continue;
            }
            run.order.remove(version);
            run.dropped = run.dropped.max(Some(epoch));
            self.cells.remove(cell);
            swept.dropped += 1;
            if id == self.own {
                self.end_epoch(epoch);
            }
        }
        self.sweep_after = Some((at_run, after));
        swept.more = true;
        swept
    }

    /// Forgets the runs that have no cells left and that `keep` does not name. They do not come back from a slower
    /// peer: a run without cells is only learned from itself.
    pub fn forget_runs(&mut self, keep: impl Fn(RunId) -> bool) {
        let (own, slots) = (self.own, &mut self.slots);
        self.runs.retain(|id, run| {
            let stays = *id == own || !run.order.is_empty() || keep(*id);
            if !stays {
                slots.give_back(run.slot);
            }
            stays
        });
    }
}
