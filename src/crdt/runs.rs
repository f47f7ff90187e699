//! What is known of each run, and the numbers under which its cells name it.

use std::{
    collections::{BTreeMap, btree_map},
    num::NonZeroU32,
    ops::RangeFrom,
};

use crate::bucket::Timestamp;

use super::{Epoch, RunId, held::Held, order::Order};

/// Stands for a run in its cells, as long as the run is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunSlot(NonZeroU32);

impl RunSlot {
    /// Our own run's.
    pub(super) const OWN: Self = Self(NonZeroU32::MIN);

    fn after(runs: usize) -> Option<Self> {
        u32::try_from(runs).ok().and_then(|runs| Self::OWN.0.checked_add(runs)).map(Self)
    }

    pub(super) fn raw(self) -> u32 {
        self.0.get()
    }
}

/// What is known of one run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) slot: RunSlot,
    /// Exactly one place for each cell of this run, at its version.
    pub(super) order: Order,
    pub(super) held: Held,
    /// When this node last knew that it missed nothing of this run, if it ever did.
    pub(super) in_step: Option<Timestamp>,
    /// The latest epoch of which a cell was dropped here, or not kept.
    pub(super) dropped: Option<Epoch>,
}

impl Run {
    fn new(slot: RunSlot) -> Self {
        Self { slot, order: Order::default(), held: Held::default(), in_step: None, dropped: None }
    }

    /// Whether a cell of `epoch` that is not here was never here, and began after this node was last in step.
    pub(super) fn is_new(&self, epoch: Epoch) -> bool {
        self.in_step.is_some() && self.dropped.is_none_or(|dropped| epoch > dropped)
    }

    /// Notes that a cell of `epoch` is missing here, if any.
    pub(super) fn note_dropped(&mut self, epoch: Option<Epoch>) {
        self.dropped = self.dropped.max(epoch);
    }
}

/// All runs that are known, always with our own.
#[derive(Debug)]
pub(super) struct Runs {
    /// Ordered, so that nothing which reaches the wire depends on a hash seed.
    by_id: BTreeMap<RunId, Run>,
    /// Slots of runs that went. Together with those in use they are the first ones, without a gap.
    free: Vec<RunSlot>,
}

impl Runs {
    pub(super) fn new(own: RunId) -> Self {
        Self { by_id: BTreeMap::from([(own, Run::new(RunSlot::OWN))]), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn get(&self, id: RunId) -> Option<&Run> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: RunId) -> Option<&mut Run> {
        self.by_id.get_mut(&id)
    }

    /// A run that is known, or that begins here if there are fewer than `max`.
    pub(super) fn begin(&mut self, id: RunId, max: usize) -> Option<&mut Run> {
        let known = self.by_id.len();
        match self.by_id.entry(id) {
            btree_map::Entry::Occupied(run) => Some(run.into_mut()),
            btree_map::Entry::Vacant(_) if known >= max => None,
            btree_map::Entry::Vacant(vacant) => {
                let slot = self.free.pop().or_else(|| RunSlot::after(known))?;
                Some(vacant.insert(Run::new(slot)))
            }
        }
    }

    /// All runs, in their order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (RunId, &Run)> {
        self.by_id.iter().map(|(id, run)| (*id, run))
    }

    /// The first run of `range`.
    pub(super) fn first_in(&mut self, range: RangeFrom<RunId>) -> Option<(RunId, &mut Run)> {
        self.by_id.range_mut(range).next().map(|(id, run)| (*id, run))
    }

    /// Forgets the runs that `keep` does not want. None of them may have cells.
    pub(super) fn retain(&mut self, keep: impl Fn(RunId, &Run) -> bool) {
        let free = &mut self.free;
        self.by_id.retain(|id, run| {
            let stays = keep(*id, run);
            if !stays {
                debug_assert!(run.order.is_empty(), "{id:?} goes and leaves cells");
                free.push(run.slot);
            }
            stays
        });
    }
}
