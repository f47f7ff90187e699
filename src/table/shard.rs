//! One shard: a map of buckets, and the lists of those with something to tell.

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
}

/// 32 bytes a bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    digest: Digest,
    pub(super) tat: Tat,
    /// A flush is due long before this saturates: it would take 2^32 permits of one key in one interval.
    unsent: u32,
    scope: ScopeIndex,
    /// On the dirty list.
    dirty: bool,
    /// On the urgent list.
    urgent: bool,
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
        self.unsent = self.unsent.saturating_add(u32::try_from(cost).unwrap_or(u32::MAX));
        self.relist(rule, now)
    }

    /// Where a bucket with unsent permits has to be listed now.
    pub(super) fn relist(&mut self, rule: &Rule, now: Timestamp) -> Listing {
        let weight = u64::from(self.unsent).saturating_mul(rule.push_weight);
        let urgent = rule.push_weight != 0 && weight >= rule.gcra.slack(self.tat, now);
        let listing = Listing { dirty: !self.dirty, urgent: urgent && !self.urgent };
        self.dirty = true;
        self.urgent |= urgent;
        listing
    }
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    buckets: HashTable<Bucket>,
    dirty: Vec<(ScopeIndex, Digest)>,
    urgent: Vec<(ScopeIndex, Digest)>,
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
        let bucket = Bucket { digest, tat: Tat::FULL, unsent: 0, scope, dirty: false, urgent: false };
        self.buckets.insert_unique(digest.word(), bucket, |bucket| bucket.digest.word()).into_mut()
    }

    /// Puts a bucket on the lists that it has to be on. Returns whether it became urgent.
    pub(super) fn list(&mut self, listing: Listing, scope: ScopeIndex, digest: Digest) -> bool {
        if listing.dirty {
            self.dirty.push((scope, digest));
        }
        if listing.urgent {
            self.urgent.push((scope, digest));
        }
        listing.urgent
    }

    pub(super) fn drain_urgent(&mut self, into: &mut Vec<Unsent>) {
        let mut urgent = std::mem::take(&mut self.urgent);
        for (scope, digest) in urgent.drain(..) {
            if let Some(bucket) = self.find(digest) {
                bucket.urgent = false;
                let permits = std::mem::take(&mut bucket.unsent).into();
                if permits != 0 {
                    into.push(Unsent { scope, digest, permits });
                }
            }
        }
        self.urgent = urgent;
    }

    pub(super) fn drain_dirty(&mut self, into: &mut Vec<Unsent>) {
        self.drain_urgent(into);
        let mut dirty = std::mem::take(&mut self.dirty);
        for (scope, digest) in dirty.drain(..) {
            if let Some(bucket) = self.find(digest) {
                bucket.dirty = false;
                let permits = std::mem::take(&mut bucket.unsent).into();
                if permits != 0 {
                    into.push(Unsent { scope, digest, permits });
                }
            }
        }
        self.dirty = dirty;
    }

    /// Drops the buckets among the `places` from `place` on that have been full since `full_since`. Returns how many, and where
    /// to go on, or `None` at the end.
    pub(super) fn sweep(&mut self, place: usize, places: usize, full_since: Timestamp) -> (u64, Option<usize>) {
        let end = self.buckets.num_buckets().min(place.saturating_add(places));
        let mut dropped = 0;
        for index in place..end {
            if self.buckets.get_bucket(index).is_some_and(|bucket| bucket.may_go(full_since)) {
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

    /// Drops one bucket to make room: a full one if the hand finds any, else the one nearest to full. A spent bucket, one that
    /// refuses its next permit, is never dropped for a newcomer (P5). Returns whether there is room now.
    pub(super) fn recycle(&mut self, scopes: &Scopes, now: Timestamp) -> bool {
        let places = self.buckets.num_buckets();
        let mut best: Option<(Tat, usize)> = None;
        for _ in 0..Self::RECYCLE_PLACES.min(places) {
            let index = self.hand % places;
            self.hand = index + 1;
            let Some(bucket) = self.buckets.get_bucket(index) else { continue };
            if bucket.may_go(now) {
                self.remove_at(index);
                return true;
            }
            let nearer = best.is_none_or(|(tat, _)| bucket.tat < tat);
            if nearer && bucket.unsent == 0 && !bucket.is_spent(scopes, now) {
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
    fn may_go(&self, full_since: Timestamp) -> bool {
        self.unsent == 0 && self.tat.is_full_since(full_since)
    }

    fn is_spent(&self, scopes: &Scopes, now: Timestamp) -> bool {
        scopes.get(self.scope).is_some_and(|scope| scope.gcra().admit(self.tat, now, 1).is_none())
    }
}
