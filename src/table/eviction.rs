//! Buckets that go: the idle ones by a sweep, and at the cap whichever costs least.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use crate::{bucket::Timestamp, crdt::Digest};

use super::{Measure, Table, group::Slot, index::Chain};

/// Where a sweep goes on. The default is the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepPosition {
    /// The number of a home group.
    group: usize,
}

impl SweepPosition {
    /// Whether the last call finished a round over all groups (or none has begun).
    pub fn is_start(self) -> bool {
        self == Self::default()
    }
}

impl Table {
    /// Home groups in which the search for a bucket to recycle looks besides the newcomer's own.
    const RECYCLE_GROUPS: usize = 8;

    /// Looks at the next `buckets` places, or a few more to finish a group, and drops the buckets there that have been full
    /// for `idle`. Successive calls visit all; a lock is held for one group at a time.
    ///
    /// Returns the position to continue from.
    pub fn sweep(&self, from: SweepPosition, buckets: usize, idle: Duration, now: Timestamp) -> SweepPosition {
        let full_since = now.saturating_sub(idle);
        // Before the clock has run for `idle`, nothing can have been idle for so long.
        if full_since == Timestamp::ZERO {
            return SweepPosition::default();
        }
        let publishes = self.publishes();
        let len = self.index.len();
        let (mut group, mut places, mut dropped) = (from.group, 0, 0);
        while group < len && places < buckets {
            let chain = self.index.lock_home(group);
            places += chain.places();
            dropped += chain.retain(|slot| !slot.may_go(full_since, publishes)) as u64;
            group += 1;
        }
        self.counters.keys.fetch_sub(dropped, Relaxed);
        self.counters.idle.fetch_add(dropped, Relaxed);
        if group < len { SweepPosition { group } } else { SweepPosition::default() }
    }

    /// A full bucket for `digest`, which the caller has looked for in vain; `None` where there is no room for it. The caller
    /// lets the index grow when it has given back the lock.
    pub(super) fn insert<'c>(
        &self,
        chain: &'c Chain<'_>,
        measure: Measure,
        digest: Digest,
        now: Timestamp,
    ) -> Option<Slot<'c>> {
        let counters = &self.counters;
        let slot = if counters.keys.fetch_add(1, Relaxed) < self.max_keys {
            self.slot_below_cap(chain, now)
        } else {
            counters.keys.fetch_sub(1, Relaxed);
            self.slot_at_cap(chain, now)
        };
        match slot {
            Some(slot) => slot.fill(measure, digest),
            None => {
                counters.untracked.fetch_add(1, Relaxed);
            }
        }
        slot
    }

    /// A slot for a key that is counted already.
    fn slot_below_cap<'c>(&self, chain: &'c Chain<'_>, now: Timestamp) -> Option<Slot<'c>> {
        let publishes = self.publishes();
        if let Some(slot) = chain.home_slot() {
            return Some(slot);
        }
        // A full bucket in its own group may go at any time, and spares an overflow.
        let counters = &self.counters;
        if let Some(slot) = chain.slots().find(|slot| slot.may_go(now, publishes)) {
            counters.keys.fetch_sub(1, Relaxed);
            counters.idle.fetch_add(1, Relaxed);
            return Some(slot);
        }
        let slot = chain.free_slot();
        if slot.is_none() {
            counters.keys.fetch_sub(1, Relaxed);
            return self.recycled_slot(chain, now);
        }
        slot
    }

    /// A slot for a key in whose place another one goes: a full one if there is any nearby, else the one nearest to full.
    /// A spent bucket, one that refuses its next permit, is never dropped for a newcomer (P5).
    fn slot_at_cap<'c>(&self, chain: &'c Chain<'_>, now: Timestamp) -> Option<Slot<'c>> {
        let publishes = self.publishes();
        if let Some(slot) = chain.slots().find(|slot| slot.may_go(now, publishes)) {
            self.counters.recycled.fetch_add(1, Relaxed);
            return Some(slot);
        }
        if self.drop_elsewhere(|slot| slot.may_go(now, publishes)) {
            return self.slot_of_dropped(chain);
        }
        self.recycled_slot(chain, now).or_else(|| {
            let dropped = self.drop_elsewhere(|slot| slot.owes_nothing(publishes) && !self.is_spent(slot, now));
            dropped.then(|| self.slot_of_dropped(chain))?
        })
    }

    /// A slot in this chain for a key that takes the place of one elsewhere, and its count.
    fn slot_of_dropped<'c>(&self, chain: &'c Chain<'_>) -> Option<Slot<'c>> {
        let slot = chain.free_slot();
        if slot.is_none() {
            self.counters.keys.fetch_sub(1, Relaxed);
        }
        slot
    }

    /// The slot of that bucket of the chain that is nearest to full, unless all are spent.
    fn recycled_slot<'c>(&self, chain: &'c Chain<'_>, now: Timestamp) -> Option<Slot<'c>> {
        let publishes = self.publishes();
        let slot = chain
            .slots()
            .filter(|slot| slot.owes_nothing(publishes) && !self.is_spent(slot, now))
            .min_by_key(|slot| slot.tat())?;
        self.counters.recycled.fetch_add(1, Relaxed);
        Some(slot)
    }

    /// Drops the first bucket in the next few groups that `may_go`. The caller holds a lock already, so this waits for none.
    fn drop_elsewhere(&self, may_go: impl Fn(&Slot<'_>) -> bool) -> bool {
        let len = self.index.len();
        let hand = self.hand.fetch_add(Self::RECYCLE_GROUPS, Relaxed);
        for look in 0..Self::RECYCLE_GROUPS {
            let Some(chain) = self.index.try_lock_home(hand.wrapping_add(look) % len) else { continue };
            if let Some(slot) = chain.slots().find(&may_go) {
                slot.clear();
                self.counters.recycled.fetch_add(1, Relaxed);
                return true;
            }
        }
        false
    }

    fn is_spent(&self, slot: &Slot<'_>, now: Timestamp) -> bool {
        self.scopes.get(slot.measure().scope()).is_some_and(|scope| scope.gcra().admit(slot.tat(), now, 1).is_none())
    }
}

impl Slot<'_> {
    /// Full since then, and nothing left to tell.
    fn may_go(&self, full_since: Timestamp, publishes: bool) -> bool {
        self.owes_nothing(publishes) && self.tat().is_full_since(full_since)
    }

    fn owes_nothing(&self, publishes: bool) -> bool {
        !publishes || self.unsent() == 0
    }
}
