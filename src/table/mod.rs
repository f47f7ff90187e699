//! The buckets of one node, as the hot path sees them.
//!
//! `digest -> bucket {TAT, unsent}` in shards. A decision locks one shard for the time of one probe, moves the TAT,
//! and adds what it admitted to `unsent`; the first unsent permit since the last flush puts the digest on the shard's
//! dirty list, and enough of them on its urgent list. The gossip task drains these lists and moves TATs by news from
//! peers.
//!
//! The table knows nothing of counts or peers: it may drop a bucket that is full, and no count is touched.

mod scopes;
mod shard;

#[cfg(test)]
mod tests;

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};

use crate::{
    bucket::{Decision, Gcra, Missing, Tat, Timestamp},
    crdt::Digest,
};

pub use scopes::{ScopeIndex, ScopeSpec, Scopes};
pub use shard::Unsent;
use shard::{Listing, Shard};

/// How large a table may grow, and whether anybody collects what it admits.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// Most buckets that the table holds, divided among the 256 shards. At least one for each.
    pub max_keys: usize,
    /// Whether admissions are kept as unsent for a gossip task. Without one they would pile up.
    pub publish: bool,
}

/// The part of a decision that its scope contributes.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Which scope.
    pub scope: ScopeIndex,
    /// Its arithmetic.
    pub gcra: Gcra,
    /// Ticks of slack that one unsent permit outweighs: beyond that a key is urgent. 0 where there is nobody to tell.
    pub push_weight: u64,
}

/// What peers said of one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// Additive law: permits that are news.
    pub permits: u64,
    /// Max law: the level that a peer saw.
    pub missing: Missing,
    /// Since when the permits were consumed, and when the level was no lower than that. Not after now.
    pub as_of: Timestamp,
}

impl Charge {
    /// News alone.
    pub fn news(permits: u64, as_of: Timestamp) -> Self {
        Self { permits, as_of, ..Self::default() }
    }

    /// Whether it can move a bucket.
    pub fn says_anything(&self) -> bool {
        self.permits != 0 || self.missing != Missing::default()
    }
}

/// All buckets of one node, of all scopes.
pub struct Table {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    scopes: Scopes,
    /// Whether somebody collects what is admitted. Relaxed: it changes once, and what is kept for nobody is ignored.
    publish: AtomicBool,
    /// Of one shard. Keys spread evenly enough that the shards fill up together.
    max_keys: usize,
    /// Set when a key became urgent, cleared by the drain. Pairs the hot path with the gossip task: see `mark_urgent`.
    urgent: AtomicBool,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    keys: AtomicU64,
    idle: AtomicU64,
    recycled: AtomicU64,
    untracked: AtomicU64,
}

/// What happened to buckets so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Buckets held now.
    pub keys: u64,
    /// Buckets dropped because they were idle and full.
    pub idle: u64,
    /// Buckets dropped at the cap to make room.
    pub recycled: u64,
    /// Decisions and charges at the cap for which no bucket could be kept.
    pub untracked: u64,
}

impl Table {
    /// Shards of every table: enough that two threads rarely meet, few enough that a drain touches them all in
    /// microseconds.
    const SHARDS: usize = 256;

    /// An empty table.
    pub fn new(options: TableOptions) -> Self {
        let shards = (0..Self::SHARDS).map(|_| CachePadded::new(Mutex::new(Shard::default())));
        Self {
            shards: shards.collect(),
            scopes: Scopes::default(),
            publish: AtomicBool::new(options.publish),
            max_keys: (options.max_keys / Self::SHARDS).max(1),
            urgent: AtomicBool::new(false),
            wake: OnceLock::new(),
            counters: Counters::default(),
        }
    }

    /// The scopes that buckets of this table belong to.
    pub fn scopes(&self) -> &Scopes {
        &self.scopes
    }

    /// Nobody collects any more what is admitted: this node decides alone from now on. What was not collected keeps no bucket
    /// from being dropped.
    pub fn detach(&self) {
        self.publish.store(false, Ordering::Relaxed);
        self.scopes.set_peers(0);
        self.scopes.set_share(1, 1);
    }

    fn publishes(&self) -> bool {
        self.publish.load(Ordering::Relaxed)
    }

    /// Calls `wake` from the hot path whenever a key became urgent and none was before. The first call of this method
    /// wins.
    pub fn on_urgent(&self, wake: impl Fn() + Send + Sync + 'static) {
        // A second waker has no one to wake: a table is driven by one gossip task.
        let _already_set = self.wake.set(Box::new(wake));
    }

    /// Decides on `cost` permits and consumes them if they pass.
    #[inline]
    pub fn decide(&self, rule: &Rule, digest: Digest, cost: u64, now: Timestamp) -> Decision {
        let mut shard = self.shard(digest).lock();
        let Some(bucket) = shard.find(digest) else {
            return self.decide_unknown(shard, rule, digest, cost, now);
        };
        let Some(tat) = rule.gcra.admit(bucket.tat, now, cost) else {
            return rule.gcra.refused(bucket.tat, now, cost);
        };
        // A request that costs nothing touches nothing.
        if cost != 0 {
            bucket.tat = tat;
        }
        if cost != 0 && self.publishes() {
            let listing = bucket.add_unsent(cost, rule, now);
            self.list(shard, listing, digest);
        }
        rule.gcra.allowed(tat, now)
    }

    #[cold]
    fn decide_unknown(
        &self,
        mut shard: MutexGuard<'_, Shard>,
        rule: &Rule,
        digest: Digest,
        cost: u64,
        now: Timestamp,
    ) -> Decision {
        let Some(tat) = rule.gcra.admit(Tat::FULL, now, cost) else {
            return rule.gcra.refused(Tat::FULL, now, cost);
        };
        // A full bucket says nothing that its absence does not say.
        if cost != 0
            && let Some(bucket) = self.insert(&mut shard, rule.scope, digest, now)
        {
            bucket.tat = tat;
            if self.publishes() {
                let listing = bucket.add_unsent(cost, rule, now);
                self.list(shard, listing, digest);
            }
        }
        rule.gcra.allowed(tat, now)
    }

    /// What [`Table::decide`] would say. Changes nothing.
    pub fn peek(&self, rule: &Rule, digest: Digest, cost: u64, now: Timestamp) -> Decision {
        let tat = self.shard(digest).lock().find(digest).map_or(Tat::FULL, |bucket| bucket.tat);
        match rule.gcra.admit(tat, now, cost) {
            // A peek consumes nothing, so it reports the bucket as it is.
            Some(_) => rule.gcra.allowed(tat, now),
            None => rule.gcra.refused(tat, now, cost),
        }
    }

    /// Moves a bucket by what peers said of it. A bucket that stays full is not created.
    ///
    /// What was admitted here and not told may become urgent by it: less is left than when it was admitted.
    pub fn charge(&self, rule: &Rule, digest: Digest, charge: Charge, now: Timestamp) {
        let gcra = &rule.gcra;
        // The later of two estimates that each never over-charge.
        let moved =
            |tat| gcra.charge(tat, charge.as_of, charge.permits).max(gcra.raise(tat, charge.as_of, charge.missing));
        let mut shard = self.shard(digest).lock();
        if let Some(bucket) = shard.find(digest) {
            bucket.tat = moved(bucket.tat);
            if bucket.unsent() != 0 && self.publishes() {
                let listing = bucket.relist(rule, now);
                self.list(shard, listing, digest);
            }
            return;
        }
        let tat = moved(Tat::FULL);
        if tat.is_full_since(now) {
            return;
        }
        if let Some(bucket) = self.insert(&mut shard, rule.scope, digest, now) {
            bucket.tat = tat;
        }
    }

    /// What is missing in a bucket besides the permits admitted here that nobody was told of yet.
    ///
    /// These will travel as a delta of their own; a level that held them too would charge them twice.
    pub fn missing(&self, gcra: &Gcra, digest: Digest, now: Timestamp) -> Missing {
        match self.shard(digest).lock().find(digest) {
            Some(bucket) => gcra.missing_besides(bucket.tat, now, bucket.unsent()),
            None => Missing::default(),
        }
    }

    /// Whether a bucket is full, or not there, which is the same.
    pub fn is_full(&self, digest: Digest, now: Timestamp) -> bool {
        self.shard(digest).lock().find(digest).is_none_or(|bucket| bucket.tat.is_full_since(now))
    }

    /// Takes the unsent permits of all keys that became urgent since the last drain.
    pub fn drain_urgent(&self, now: Timestamp, into: &mut Vec<Unsent>) {
        // Acquire pairs with the Release in `mark_urgent`: what was listed before the flag rose is seen below; what
        // is listed later raises it again.
        if !self.urgent.swap(false, Ordering::AcqRel) {
            return;
        }
        for shard in &self.shards {
            shard.lock().drain_urgent(now, into);
        }
    }

    /// Takes the unsent permits of all keys.
    pub fn drain_dirty(&self, now: Timestamp, into: &mut Vec<Unsent>) {
        self.urgent.store(false, Ordering::Release);
        self.drain_dirty_from(0, usize::MAX, now, into);
    }

    /// Takes the unsent permits of the keys in the shards from `shard` on, until `into` holds at least `enough`.
    /// Returns the shard to go on with, or `None` after the last one.
    pub fn drain_dirty_from(
        &self,
        shard: usize,
        enough: usize,
        now: Timestamp,
        into: &mut Vec<Unsent>,
    ) -> Option<usize> {
        for (index, shard) in self.shards.iter().enumerate().skip(shard) {
            if into.len() >= enough {
                return Some(index);
            }
            shard.lock().drain_dirty(now, into);
        }
        None
    }

    /// Whether a key became urgent since the last drain. A partial drain may have taken it already.
    pub fn is_urgent(&self) -> bool {
        self.urgent.load(Ordering::Acquire)
    }

    /// Looks at the next `buckets` places of one shard, and drops those that have been full for `idle`. Successive
    /// calls visit all shards in turn; one call holds one lock for the time of `buckets` places.
    ///
    /// Returns the position to continue from.
    pub fn sweep(&self, from: SweepPosition, buckets: usize, idle: Duration, now: Timestamp) -> SweepPosition {
        let full_since = now.saturating_sub(idle);
        // Before the clock has run for `idle`, nothing can have been idle for so long.
        if full_since == Timestamp::ZERO {
            return SweepPosition { shard: 0, place: 0 };
        }
        let Some(shard) = self.shards.get(from.shard) else {
            return SweepPosition::default();
        };
        let mut shard = shard.lock();
        let (dropped, next) = shard.sweep(from.place, buckets, full_since, self.publishes());
        drop(shard);
        self.counters.keys.fetch_sub(dropped, Ordering::Relaxed);
        self.counters.idle.fetch_add(dropped, Ordering::Relaxed);
        match next {
            Some(place) => SweepPosition { place, ..from },
            None if from.shard + 1 < self.shards.len() => SweepPosition { shard: from.shard + 1, place: 0 },
            None => SweepPosition::default(),
        }
    }

    /// Counters so far. Relaxed: the figures need not agree with each other.
    pub fn stats(&self) -> TableStats {
        TableStats {
            keys: self.counters.keys.load(Ordering::Relaxed),
            idle: self.counters.idle.load(Ordering::Relaxed),
            recycled: self.counters.recycled.load(Ordering::Relaxed),
            untracked: self.counters.untracked.load(Ordering::Relaxed),
        }
    }

    fn shard(&self, digest: Digest) -> &Mutex<Shard> {
        // The map inside a shard uses `word`, so the shard is chosen by bits independent of it.
        &self.shards[(digest.other_word() % Self::SHARDS as u64) as usize]
    }

    fn insert<'s>(
        &self,
        shard: &'s mut Shard,
        scope: ScopeIndex,
        digest: Digest,
        now: Timestamp,
    ) -> Option<&'s mut shard::Bucket> {
        if shard.len() >= self.max_keys {
            if !shard.recycle(&self.scopes, now, self.publishes()) {
                self.counters.untracked.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            self.counters.recycled.fetch_add(1, Ordering::Relaxed);
        } else {
            self.counters.keys.fetch_add(1, Ordering::Relaxed);
        }
        Some(shard.insert(scope, digest))
    }

    fn list(&self, mut shard: MutexGuard<'_, Shard>, listing: Listing, digest: Digest) {
        let is_urgent = shard.list(listing, digest);
        // Whoever is woken may want the shard.
        drop(shard);
        if is_urgent {
            self.mark_urgent();
        }
    }

    fn mark_urgent(&self) {
        // Release pairs with the Acquire in `drain_urgent`. Only the change wakes: a burst of urgent keys costs one
        // wake-up.
        if !self.urgent.swap(true, Ordering::AcqRel)
            && let Some(wake) = self.wake.get()
        {
            wake();
        }
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// Where a sweep goes on. The default is the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepPosition {
    shard: usize,
    place: usize,
}

impl SweepPosition {
    /// Whether the last call finished a round over all shards (or none has begun).
    pub fn is_start(self) -> bool {
        self == Self::default()
    }
}
