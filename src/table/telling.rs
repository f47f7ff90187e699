//! What peers are to be told: marks on the hot path, and the gossip task that collects from marked groups.

use std::sync::atomic::Ordering;

use crate::bucket::Timestamp;

use super::{
    Table, Unsent,
    group::{Slot, Wants},
    index::Chain,
    marks::Marks,
};

impl Table {
    /// Calls `wake` from the hot path whenever a key became urgent and none was before. The first call of this method
    /// wins.
    pub fn on_urgent(&self, wake: impl Fn() + Send + Sync + 'static) {
        // A second waker has no one to wake: a table is driven by one gossip task.
        let _already_set = self.wake.set(Box::new(wake));
    }

    /// Takes the unsent permits of all keys that became urgent since the last drain.
    pub fn drain_urgent(&self, now: Timestamp, into: &mut Vec<Unsent>) {
        // Acquire pairs with the Release in `raise_urgent`: what was marked before the flag rose is seen below; what
        // is marked later raises it again.
        if self.any_urgent.swap(false, Ordering::AcqRel) {
            self.collect(&self.urgent, 0, usize::MAX, into, |slot| slot.is_urgent().then(|| slot.take_unsent(now))?);
        }
    }

    /// Takes the unsent permits of all keys.
    pub fn drain_dirty(&self, now: Timestamp, into: &mut Vec<Unsent>) {
        self.any_urgent.store(false, Ordering::Release);
        self.drain_dirty_from(0, usize::MAX, now, into);
    }

    /// Takes the unsent permits of keys, from the place `from` of all on, until `into` holds at least `enough`. Returns
    /// the place to go on from, or `None` at the end.
    pub fn drain_dirty_from(
        &self,
        from: usize,
        enough: usize,
        now: Timestamp,
        into: &mut Vec<Unsent>,
    ) -> Option<usize> {
        self.collect(&self.dirty, from, enough, into, |slot| slot.take_unsent(now))
    }

    /// Takes marks, a word at a time from the word `from` on, and what `take` finds in the groups marked.
    fn collect(
        &self,
        marks: &Marks,
        from: usize,
        enough: usize,
        into: &mut Vec<Unsent>,
        take: impl Fn(Slot<'_>) -> Option<Unsent>,
    ) -> Option<usize> {
        for word in from..self.index.len().div_ceil(Marks::PER_WORD) {
            if into.len() >= enough {
                return Some(word);
            }
            let mut marked = marks.take(word);
            while marked != 0 {
                let group = word * Marks::PER_WORD + marked.trailing_zeros() as usize;
                into.extend(self.index.lock_home(group).slots().filter_map(&take));
                marked &= marked - 1;
            }
        }
        None
    }

    /// Permits admitted here that no peer was told of yet, of all keys. Looks at each group that has some.
    pub fn unsent(&self) -> u64 {
        let mut permits = 0_u64;
        for word in 0..self.index.len().div_ceil(Marks::PER_WORD) {
            let mut marked = self.dirty.look(word);
            while marked != 0 {
                let group = word * Marks::PER_WORD + marked.trailing_zeros() as usize;
                permits =
                    self.index.lock_home(group).slots().fold(permits, |sum, slot| sum.saturating_add(slot.unsent()));
                marked &= marked - 1;
            }
        }
        permits
    }

    /// Whether a key became urgent since the last drain. A partial drain may have taken it already.
    pub fn is_urgent(&self) -> bool {
        self.any_urgent.load(Ordering::Acquire)
    }

    /// Marks the group as the bucket wants, and gives its lock back.
    #[inline]
    pub(super) fn mark(&self, chain: Chain<'_>, wants: Wants) {
        self.set_marks(chain.number(), wants);
        if wants.push {
            // Whoever is woken may want the lock.
            drop(chain);
            self.raise_urgent();
        }
    }

    /// Under the group's lock.
    #[inline]
    pub(super) fn set_marks(&self, group: usize, wants: Wants) {
        if wants.flush {
            self.dirty.set(group);
        }
        if wants.push {
            self.urgent.set(group);
        }
    }

    #[cold]
    pub(super) fn raise_urgent(&self) {
        // Release pairs with the Acquire in `drain_urgent`. Only the change wakes: a burst of urgent keys costs one
        // wake-up.
        if !self.any_urgent.swap(true, Ordering::AcqRel)
            && let Some(wake) = self.wake.get()
        {
            wake();
        }
    }
}
