//! One shard: a map of buckets, and the lists of those with something to tell.

use std::time::Duration;

use hashbrown::HashTable;

use crate::{
    bucket::{Tat, Timestamp},
    crdt::Digest,
};

use super::{Rule, ScopeIndex, Scopes};

/// Permits admitted here that no peer was told of yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsent {
    /// The scope of the key.
    pub scope: ScopeIndex,
    /// The key.
    pub digest: Digest,
    /// How many; never 0.
    pub permits: u64,
    /// How long ago the first of them was admitted: a little less than that, and much less if it was more than a
    /// second.
    pub age: Duration,
}

/// 32 bytes a bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    digest: Digest,
    pub(super) tat: Tat,
    /// A flush is due long before this saturates: it would take 2^32 permits of one key in one interval.
    unsent: u32,
    scope: ScopeIndex,
    listed: Listed,
    /// When the first of the unsent permits was admitted.
    since: CoarseTime,
}

/// The lists that a bucket is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Listed(u8);

impl Listed {
    const DIRTY: u8 = 1;
    const URGENT: u8 = 2;

    fn on(self, list: u8) -> bool {
        self.0 & list != 0
    }
}

/// A point in time in one byte: units of four milliseconds, modulo one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CoarseTime(u8);

impl CoarseTime {
    const UNIT: Duration = Duration::from_millis(4);
    /// Ages from here on are taken for a point in the future.
    const FUTURE: u8 = 192;

    /// Rounded up, so that no age is too great.
    fn of(time: Timestamp) -> Self {
        Self(time.as_nanos().div_ceil(Self::UNIT.as_nanos() as u64) as u8)
    }

    fn age(self, now: Timestamp) -> Duration {
        let now = (now.as_nanos() / Self::UNIT.as_nanos() as u64) as u8;
        // Whoever asks may have read the clock a little earlier: what looks like most of a second is no age.
        let units = now.wrapping_sub(self.0);
        if units >= Self::FUTURE { Duration::ZERO } else { Self::UNIT * u32::from(units) }
    }
}

/// Which lists a bucket has to be put on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Listing {
    dirty: bool,
    urgent: bool,
}

impl Bucket {
    pub(super) fn unsent(&self) -> u64 {
        self.unsent.into()
    }

    /// Keeps `cost` admitted permits for the next push or flush.
    pub(super) fn add_unsent(&mut self, cost: u64, rule: &Rule, now: Timestamp) -> Listing {
        if self.unsent == 0 {
            self.since = CoarseTime::of(now);
        }
        self.unsent = self.unsent.saturating_add(u32::try_from(cost).unwrap_or(u32::MAX));
        self.relist(rule, now)
    }

    /// Takes what was not sent, as it goes off a list.
    fn take_unsent(&mut self, list: u8, digest: Digest, now: Timestamp) -> Option<Unsent> {
        self.listed.0 &= !list;
        let permits = std::mem::take(&mut self.unsent).into();
        (permits != 0).then(|| Unsent { scope: self.scope, digest, permits, age: self.since.age(now) })
    }

    /// Where a bucket with unsent permits has to be listed now.
    pub(super) fn relist(&mut self, rule: &Rule, now: Timestamp) -> Listing {
        let weight = u64::from(self.unsent).saturating_mul(rule.push_weight);
        let urgent = rule.push_weight != 0 && weight >= rule.gcra.slack(self.tat, now);
        let urgent = if urgent { Listed::URGENT } else { 0 };
        let listing = Listing { dirty: !self.listed.on(Listed::DIRTY), urgent: urgent & !self.listed.0 != 0 };
        self.listed.0 |= Listed::DIRTY | urgent;
        listing
    }
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    buckets: HashTable<Bucket>,
    dirty: Vec<Digest>,
    urgent: Vec<Digest>,
    /// Where the next search for a bucket to recycle begins.
    hand: usize,
}

impl Shard {
    /// Places that one search for a bucket to recycle looks at.
    const RECYCLE_PLACES: usize = 32;

    pub(super) fn len(&self) -> usize {
        self.buckets.len()
    }

    pub(super) fn find(&mut self, digest: Digest) -> Option<&mut Bucket> {
        self.buckets.find_mut(digest.word(), |bucket| bucket.digest == digest)
    }

    /// Adds a full bucket. The caller has looked: it is not there.
    pub(super) fn insert(&mut self, scope: ScopeIndex, digest: Digest) -> &mut Bucket {
        debug_assert!(self.find(digest).is_none(), "{digest:?} is there already");
        let bucket = Bucket {
            digest,
            tat: Tat::FULL,
            unsent: 0,
            scope,
            listed: Listed::default(),
            since: CoarseTime::default(),
        };
        self.buckets.insert_unique(digest.word(), bucket, |bucket| bucket.digest.word()).into_mut()
    }

    /// Puts a bucket on the lists that it has to be on. Returns whether it became urgent.
    pub(super) fn list(&mut self, listing: Listing, digest: Digest) -> bool {
        if listing.dirty {
            self.dirty.push(digest);
        }
        if listing.urgent {
            self.urgent.push(digest);
        }
        listing.urgent
    }

    pub(super) fn drain_urgent(&mut self, now: Timestamp, into: &mut Vec<Unsent>) {
        let mut urgent = std::mem::take(&mut self.urgent);
        let taken = urgent.drain(..).filter_map(|digest| self.find(digest)?.take_unsent(Listed::URGENT, digest, now));
        into.extend(taken);
        self.urgent = urgent;
    }

    pub(super) fn drain_dirty(&mut self, now: Timestamp, into: &mut Vec<Unsent>) {
        self.drain_urgent(now, into);
        let mut dirty = std::mem::take(&mut self.dirty);
        let taken = dirty.drain(..).filter_map(|digest| self.find(digest)?.take_unsent(Listed::DIRTY, digest, now));
        into.extend(taken);
        self.dirty = dirty;
    }

    /// Drops the buckets among the `places` from `place` on that have been full since `full_since`. Returns how many,
    /// and where to go on, or `None` at the end.
    pub(super) fn sweep(
        &mut self,
        place: usize,
        places: usize,
        full_since: Timestamp,
        publishes: bool,
    ) -> (u64, Option<usize>) {
        let end = self.buckets.num_buckets().min(place.saturating_add(places));
        let mut dropped = 0;
        for index in place..end {
            if self.buckets.get_bucket(index).is_some_and(|bucket| bucket.may_go(full_since, publishes)) {
                self.remove_at(index);
                dropped += 1;
            }
        }
        let more = end < self.buckets.num_buckets();
        if !more {
            self.shrink();
        }
        (dropped, more.then_some(end))
    }

    /// Drops one bucket to make room: a full one if the hand finds any, else the one nearest to full. A spent bucket,
    /// one that refuses its next permit, is never dropped for a newcomer (P5). Returns whether there is room now.
    pub(super) fn recycle(&mut self, scopes: &Scopes, now: Timestamp, publishes: bool) -> bool {
        let places = self.buckets.num_buckets();
        let mut best: Option<(Tat, usize)> = None;
        for _ in 0..Self::RECYCLE_PLACES.min(places) {
            let index = self.hand % places;
            self.hand = index + 1;
            let Some(bucket) = self.buckets.get_bucket(index) else { continue };
            if bucket.may_go(now, publishes) {
                self.remove_at(index);
                return true;
            }
            let nearer = best.is_none_or(|(tat, _)| bucket.tat < tat);
            if nearer && bucket.owes_nothing(publishes) && !bucket.is_spent(scopes, now) {
                best = Some((bucket.tat, index));
            }
        }
        if let Some((_, index)) = best {
            self.remove_at(index);
        }
        best.is_some()
    }

    fn remove_at(&mut self, index: usize) {
        if let Ok(entry) = self.buckets.get_bucket_entry(index) {
            entry.remove();
        }
    }

    /// Gives memory back after a flood, with room to grow again without a rehash at once.
    fn shrink(&mut self) {
        let len = self.buckets.len();
        if self.buckets.capacity() > 4 * len.max(64) {
            self.buckets.shrink_to(2 * len, |bucket| bucket.digest.word());
        }
    }
}

impl Bucket {
    /// Full since then, and nothing left to tell.
    fn may_go(&self, full_since: Timestamp, publishes: bool) -> bool {
        self.owes_nothing(publishes) && self.tat.is_full_since(full_since)
    }

    fn owes_nothing(&self, publishes: bool) -> bool {
        self.unsent == 0 || !publishes
    }

    fn is_spent(&self, scopes: &Scopes, now: Timestamp) -> bool {
        scopes.get(self.scope).is_some_and(|scope| scope.gcra().admit(self.tat, now, 1).is_none())
    }
}
