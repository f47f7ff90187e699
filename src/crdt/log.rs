//! The replica log: every run's cells, in version order.

use std::time::Duration;

use crate::bucket::Timestamp;

use super::{
    Cell, Count, Delta, Digest, Epoch, KeyRecord, News, RunCell, RunId, ScopeId, Version,
    cells::{Cells, Node},
    runs::{Run, RunSlot, Runs},
};

/// Bounds of a [`ReplicaLog`].
#[derive(Clone, Copy, Debug)]
pub struct LogLimits {
    /// Most cells of our own, the oldest of which gives way to a new one; and most keys from which on a key that only other
    /// runs use is not kept: its deltas are charged, and leave no baseline.
    pub max_keys: usize,
    /// Most cells of all runs. What peers say beyond is charged, and leaves no baseline.
    pub max_cells: usize,
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
    /// Keys with at least one cell.
    keys: usize,
    runs: Runs,
    limits: LogLimits,
    /// How long a cell lives that its run does not publish.
    key_ttl: Duration,
    /// Where the sweep goes on; `None` at the start of a round.
    sweep_after: Option<(RunId, Version)>,
}

impl ReplicaLog {
    /// An empty log of the run `own`, whose cells live for `key_ttl` after they were last published.
    pub fn new(own: RunId, limits: LogLimits, key_ttl: Duration) -> Self {
        Self {
            own,
            epoch: Epoch::default(),
            cells: Cells::default(),
            keys: 0,
            runs: Runs::new(own),
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
        self.keys
    }

    /// Raises our own cell of a key by `permits`, and gives it our next version.
    pub fn publish(&mut self, scope: ScopeId, digest: Digest, permits: u64, now: Timestamp) -> Delta {
        let version = self.own_version().next();
        let at = self.cells.find(RunSlot::OWN, digest);
        let cell = at.and_then(|at| self.cells.get(at)).map(|node| node.cell(self.own));
        // Peers may have dropped a cell that was idle for so long. Where it begins anew must not depend on who swept first.
        let begun = cell.filter(|cell| now.saturating_since(cell.heard) < self.key_ttl).map(|cell| cell.count);
        if let Some(cell) = cell
            && begun.is_none()
        {
            self.end_epoch(cell.count.epoch);
        }
        if cell.is_none() && self.own_cells() >= self.limits.max_keys {
            self.drop_oldest_own();
        }
        let before = begun.unwrap_or(Count { epoch: self.epoch, permits: 0 });
        let after = Count { permits: before.permits.saturating_add(permits), ..before };
        let arrival = Cell { run: self.own, count: after, version, heard: now };

        let at = match at {
            Some(at) => {
                if let Some(node) = self.cells.get_mut(at) {
                    node.set(&arrival);
                }
                Some(at)
            }
            None => self.add_cell(RunSlot::OWN, self.scope_of(digest), scope, digest, &arrival),
        };
        if let Some(own) = self.runs.get_mut(self.own) {
            if let Some(cell) = cell {
                own.order.remove(cell.version);
            }
            if let Some(at) = at {
                own.order.insert(version, at);
            }
            own.held.cover(own.held.upto(), version);
        }
        Delta { scope, digest, epoch: after.epoch, from: before.permits, to: after.permits, version }
    }

    fn own_cells(&self) -> usize {
        self.runs.get(self.own).map_or(0, |own| own.order.len())
    }

    /// A cell of `epoch` ended: one that begins anew needs a later epoch. Cells of an epoch end over a long time, so that one
    /// step serves many of them.
    fn end_epoch(&mut self, epoch: Epoch) {
        if epoch == self.epoch {
            self.epoch = epoch.next();
        }
    }

    fn drop_oldest_own(&mut self) {
        let Some(own) = self.runs.get_mut(self.own) else { return };
        let Some((version, at)) = own.order.first_from(Version::NONE) else { return };
        own.order.remove(version);
        if let Some(node) = self.remove_cell(at) {
            self.end_epoch(node.epoch);
        }
    }

    /// Adds a run's first cell of a key, whose scope is `known` if the key is. Its place in the order is the caller's
    /// business.
    fn add_cell(
        &mut self,
        run: RunSlot,
        known: Option<ScopeId>,
        scope: ScopeId,
        digest: Digest,
        arrival: &Cell,
    ) -> Option<u32> {
        let at = self.cells.insert(Node::new(run, known.unwrap_or(scope), digest, arrival))?;
        self.keys += usize::from(known.is_none());
        Some(at)
    }

    /// Removes a cell. Its place in the order is the caller's business.
    fn remove_cell(&mut self, at: u32) -> Option<Node> {
        let node = self.cells.remove(at)?;
        self.keys -= usize::from(self.scope_of(node.digest).is_none());
        Some(node)
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

        let Some(run) = self.runs.begin(arrival.run, self.limits.max_runs) else {
            // Of a run that is not kept nobody knows what was charged before, so nothing is.
            return Applied::NoBaseline(News::default());
        };
        let place = run.order.get(arrival.version);
        let at = self.cells.find(run.slot, digest);
        let Some((at, node)) = at.and_then(|at| Some((at, self.cells.get_mut(at)?))) else {
            if place.is_some() {
                return Applied::Refused;
            }
            return self.begin_cell(scope, digest, &arrival, reported, now);
        };
        let held = node.count();
        if arrival.count <= held {
            return Applied::News(News::default());
        }
        if place.is_some_and(|taken| taken != at) {
            return Applied::Refused;
        }
        // A new epoch began at 0, and everything in it is news.
        let baseline = if epoch > held.epoch { 0 } else { held.permits };
        let fresh = arrival.count.permits.saturating_sub(baseline);
        let recent = reported.min(fresh);
        let gap = now.saturating_since(node.heard.max(run.in_step.unwrap_or_default()));
        let news = News { recent, missed: fresh - recent, gap };

        node.set_count(held.merge(arrival.count));
        node.heard = node.heard.max(arrival.heard);
        if arrival.version > node.version {
            run.order.remove(node.version);
            run.order.insert(arrival.version, at);
            node.version = arrival.version;
        }
        Applied::News(news)
    }

    /// Takes the first cell of a known run and a key, which reports so many permits, if there is room for it.
    fn begin_cell(&mut self, scope: ScopeId, digest: Digest, arrival: &Cell, reported: u64, now: Timestamp) -> Applied {
        let no_baseline = Applied::NoBaseline(News { recent: reported, ..News::default() });
        let known = self.scope_of(digest);
        let has_room = self.cells() < self.limits.max_cells && (known.is_some() || self.keys < self.limits.max_keys);
        let slot = self.runs.get(arrival.run).map(|run| run.slot).filter(|_| has_room);
        let at = slot.and_then(|slot| self.add_cell(slot, known, scope, digest, arrival));

        let Some(run) = self.runs.get_mut(arrival.run) else { return no_baseline };
        let Some(at) = at else {
            run.note_dropped(Some(arrival.count.epoch));
            return no_baseline;
        };
        run.order.insert(arrival.version, at);
        match run.in_step {
            // It began since: all of it is news.
            Some(in_step) if run.is_new(arrival.count.epoch) => {
                let gap = now.saturating_since(in_step);
                Applied::News(News { recent: reported, missed: arrival.count.permits - reported, gap })
            }
            _ => no_baseline,
        }
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
            run.note_dropped(dropped);
        }
    }

    /// Notes that a cell of `run` was not taken.
    pub fn note_dropped(&mut self, run: RunId, epoch: Epoch) {
        if let Some(run) = self.run_mut(run) {
            run.note_dropped(Some(epoch));
        }
    }

    /// The latest epoch of `run` of which a cell is missing here, though its version is held.
    pub fn dropped(&self, run: RunId) -> Option<Epoch> {
        self.runs.get(run)?.dropped
    }

    /// Whether everything that `run` published in `(from, to]` is held.
    pub fn holds(&self, run: RunId, from: Version, to: Version) -> bool {
        self.runs.get(run).is_some_and(|run| run.held.holds(from, to))
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
        if run == self.own { None } else { self.runs.begin(run, self.limits.max_runs) }
    }

    /// When this node last knew that it missed nothing of another run, if it ever did.
    pub fn in_step(&self, run: RunId) -> Option<Timestamp> {
        self.runs.get(run)?.in_step
    }

    /// How long ago nothing of `run` was missed; zero for our own, for ever if it was never so.
    pub fn in_step_since(&self, run: RunId, now: Timestamp) -> Duration {
        if run == self.own {
            return Duration::ZERO;
        }
        self.in_step(run).map_or(Duration::MAX, |in_step| now.saturating_since(in_step))
    }

    /// The highest version of `run` up to which nothing is missing.
    pub fn version_of(&self, run: RunId) -> Version {
        self.runs.get(run).map_or(Version::NONE, |run| run.held.upto())
    }

    /// Whether some delta of `run` is known to be lost or late.
    pub fn has_gap(&self, run: RunId) -> bool {
        self.runs.get(run).is_some_and(|run| run.held.has_gap())
    }

    /// For each run the highest version up to which nothing is missing, in the order of the runs.
    pub fn versions(&self) -> impl Iterator<Item = (RunId, Version)> + '_ {
        self.runs.iter().map(|(id, run)| (id, run.held.upto()))
    }

    /// Our own version: how much we have published.
    pub fn own_version(&self) -> Version {
        self.version_of(self.own)
    }

    /// Whether the log keeps anything of `run`.
    pub fn has_cells_of(&self, run: RunId) -> bool {
        self.runs.get(run).is_some_and(|run| !run.order.is_empty())
    }

    /// The cells of a key, in the order of their runs.
    pub fn cells_of(&self, digest: Digest) -> impl Iterator<Item = Cell> + '_ {
        self.nodes_of(digest).map(|(run, node)| node.cell(run))
    }

    fn nodes_of(&self, digest: Digest) -> impl Iterator<Item = (RunId, &Node)> {
        self.runs.iter().filter_map(move |(id, run)| {
            let at = self.cells.find(run.slot, digest)?;
            Some((id, self.cells.get(at)?))
        })
    }

    /// Up to `most` keys that some run published since `since`, some of each run's newest.
    pub fn hot_keys(&self, since: Timestamp, most: usize) -> Vec<Digest> {
        let mut hot = Vec::new();
        for (_, run) in self.runs.iter() {
            let newest = run.order.newest().map_while(|at| self.cells.get(at).filter(|node| node.heard >= since));
            hot.extend(newest.map(|node| node.digest).take(most.div_ceil(self.runs.len())));
        }
        hot.sort_unstable();
        hot.dedup();
        hot.truncate(most);
        hot
    }

    pub(super) fn scope_of(&self, digest: Digest) -> Option<ScopeId> {
        self.nodes_of(digest).next().map(|(_, node)| node.scope)
    }

    /// The cell of `run` with the highest version in `(low, below)`.
    pub(super) fn newest_between(&self, run: RunId, low: Version, below: Version) -> Option<(Version, Digest)> {
        let (version, at) = self.runs.get(run)?.order.last_below(below).filter(|(version, _)| *version > low)?;
        self.cells.get(at).map(|node| (version, node.digest))
    }

    /// Looks at up to `budget` cells that nobody published for the time to live, each run's oldest first, and drops
    /// those that are not needed. A cell is needed as long as its bucket is not full again, which `keep` tells, but not if
    /// another cell of its key is in use: that one makes the key known to newcomers, and what this one counted has been
    /// told to everybody long ago. Else runs that are dead would stay as long as a key of theirs is busy.
    ///
    /// Successive calls go on where the last one ended.
    pub fn sweep(&mut self, now: Timestamp, budget: usize, keep: impl Fn(Digest) -> bool) -> Swept {
        let mut swept = Swept::default();
        let (mut at_run, mut after) = self.sweep_after.take().unwrap_or((RunId::from_raw(0), Version::NONE));
        for _ in 0..budget {
            // A run that went meanwhile leaves the cursor between two others.
            let Some((id, run)) = self.runs.first_in(at_run..) else { return swept };
            if id != at_run {
                (at_run, after) = (id, Version::NONE);
            }
            let oldest = run.order.first_from(after.next());
            let idle_cell = oldest.and_then(|(version, at)| {
                let node = self.cells.get(at)?;
                (now.saturating_since(node.heard) >= self.key_ttl).then_some((version, at, node.digest, node.epoch))
            });
            let Some((version, at, digest, epoch)) = idle_cell else {
                let Some(next) = id.raw().checked_add(1) else { return swept };
                (at_run, after) = (RunId::from_raw(next), Version::NONE);
                continue;
            };
            after = version;
            if keep(digest) && !self.is_in_use(digest, now) {
                continue;
            }
            let Some(run) = self.runs.get_mut(id) else { continue };
            run.order.remove(version);
            run.note_dropped(Some(epoch));
            self.remove_cell(at);
            swept.dropped += 1;
            if id == self.own {
                self.end_epoch(epoch);
            }
        }
        self.sweep_after = Some((at_run, after));
        swept.more = true;
        swept
    }

    /// Whether some run published the key within the time to live.
    pub fn is_in_use(&self, digest: Digest, now: Timestamp) -> bool {
        self.nodes_of(digest).any(|(_, node)| now.saturating_since(node.heard) < self.key_ttl)
    }

    /// Forgets the runs that have no cells left and that `keep` does not name. They do not come back from a slower
    /// peer: a run without cells is only learned from itself.
    pub fn forget_runs(&mut self, keep: impl Fn(RunId) -> bool) {
        let own = self.own;
        self.runs.retain(|id, run| id == own || !run.order.is_empty() || keep(id));
    }
}
