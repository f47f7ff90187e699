//! Where a digest's bucket is: linear hashing over groups.

use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::crdt::Digest;

use super::{
    group::{Group, Link, SLOTS, Slot},
    groups::Groups,
    overflow::Overflow,
    prefetch::prefetch,
};

/// All groups, by linear hashing (Litwin, "Linear hashing: a new tool for file and table addressing", 1980).
///
/// There are as many home groups as the keys need, not a power of two: one is added for every few keys that come, and takes
/// over about half of what one other holds. So growth is paid for in steps of one group, memory follows the keys
/// without peaks, and nothing that a decision may be looking at moves or is freed.
#[derive(Debug)]
pub(super) struct Index {
    homes: Groups,
    /// Home groups in use. Grows under `growth`, and only while the group that is being divided is locked: whoever has
    /// a lock and finds `len` unchanged, or its group still the right one, has the right group.
    len: AtomicUsize,
    most: usize,
    overflow: Overflow,
    growth: Mutex<()>,
}

/// Keys a home group at which one more is added. At 3 of 4 places some 18 groups of 100 overflow, and a key costs 50 bytes.
/// At 3.5 it would be 46 bytes, and a tenth slower with 100,000 keys.
const LOAD: usize = 3;

impl Index {
    /// Overflow groups behind one home group. The limit bounds what it costs where somebody aims at one group. By chance no
    /// group needs so many: one whose turn to be divided is still to come holds up to six keys on average, and nine while a
    /// grower that was interrupted keeps the others from growing (see [`Index::grow_for`]). With four groups one in some
    /// thousand then had no room for its 21st key; for the 37th it is one in 10^11.
    const MAX_CHAIN: usize = 8;

    /// Room for `max_keys` keys at the working load.
    pub(super) fn new(max_keys: usize) -> Self {
        let most = Self::homes_for(max_keys);
        Self {
            homes: Groups::new(most),
            len: AtomicUsize::new(most.min(Groups::CHUNK)),
            most,
            // So many that taking one never fails.
            overflow: Overflow::new(most.saturating_mul(Self::MAX_CHAIN)),
            growth: Mutex::new(()),
        }
    }

    /// Home groups that `keys` keys need.
    pub(super) fn homes_for(keys: usize) -> usize {
        keys.div_ceil(LOAD).max(1)
    }

    /// Home groups in use.
    pub(super) fn len(&self) -> usize {
        self.len.load(Acquire)
    }

    /// Where `digest` belongs now, and a hint to the processor to get it from memory.
    #[inline]
    pub(super) fn place(&self, digest: Digest) -> Place<'_> {
        let len = self.len();
        let home = home_of(digest, len);
        let group = self.homes.at(home);
        prefetch(group);
        Place { digest, len, home, group }
    }

    /// Locks the group that a digest belongs to, and what overflows from it.
    #[inline]
    pub(super) fn lock<'i>(&'i self, place: &Place<'i>) -> Chain<'i> {
        place.group.lock();
        let chain = Chain { home: place.group, number: place.home, index: self };
        // The lock ordered this after any division of this group.
        let len = self.len.load(Relaxed);
        if len == place.len || home_of(place.digest, len) == place.home {
            chain
        } else {
            self.lock_moved(chain, place.digest)
        }
    }

    #[cold]
    fn lock_moved<'i>(&'i self, chain: Chain<'i>, digest: Digest) -> Chain<'i> {
        drop(chain);
        self.lock(&self.place(digest))
    }

    /// Locks the home group number `home`, which is below [`Index::len`].
    #[inline]
    pub(super) fn lock_home(&self, home: usize) -> Chain<'_> {
        let group = self.homes.at(home);
        group.lock();
        Chain { home: group, number: home, index: self }
    }

    /// As [`Index::lock_home`], where nobody holds the lock.
    pub(super) fn try_lock_home(&self, home: usize) -> Option<Chain<'_>> {
        let group = self.homes.at(home);
        group.try_lock().then(|| Chain { home: group, number: home, index: self })
    }

    /// Locks the groups that these digests belong to.
    pub(super) fn lock_all(&self, digests: impl Iterator<Item = Digest> + Clone) -> Chains<'_> {
        loop {
            let len = self.len();
            let mut homes: SmallVec<[usize; FEW]> = digests.clone().map(|digest| home_of(digest, len)).collect();
            // In one order, so that nobody waits for somebody who waits for him. (Whoever divides a group has locked the new
            // one, which nobody knows yet, and waits for one old one.)
            homes.sort_unstable();
            homes.dedup();
            let chains = Chains { len, chains: homes.iter().map(|home| self.lock_home(*home)).collect() };
            // As in `lock`: no group that is locked here was divided since.
            let now = self.len.load(Relaxed);
            if now == len || digests.clone().all(|digest| home_of(digest, now) == home_of(digest, len)) {
                return chains;
            }
        }
    }

    /// Adds home groups until there are enough for `keys`, two at most: whoever adds a key makes room for more than one,
    /// so that nobody has to do it for all. Calls `moved` with the number of a new group for each bucket that went
    /// there, under its lock. The caller holds no lock.
    pub(super) fn grow_for(&self, keys: usize, mut moved: impl FnMut(usize, Slot<'_>)) {
        for _ in 0..2 {
            let (len, wanted) = (self.len.load(Relaxed), Self::homes_for(keys).min(self.most));
            if len >= wanted {
                return;
            }
            let growing = match self.growth.try_lock() {
                Some(growing) => growing,
                // Somebody else is at it, and goes on to the next.
                None if wanted <= len + len / 2 => return,
                // But may have been interrupted meanwhile: chains would grow to where no key finds room.
                None => self.growth.lock(),
            };
            self.divide(&mut moved);
            drop(growing);
        }
    }

    fn divide(&self, moved: &mut impl FnMut(usize, Slot<'_>)) {
        let new = self.len.load(Relaxed);
        if new >= self.most {
            return;
        }
        // Where the digests of the new group have been so far.
        let old = new & ((new + 1).next_power_of_two() - 1) >> 1;
        let to = self.lock_home(new);
        let from = self.lock_home(old);
        from.retain(|slot| {
            if home_of(slot.digest(), new + 1) == old {
                return true;
            }
            // There is room: what came from one chain fits into another.
            if let Some(place) = to.free_slot() {
                slot.copy_to(&place);
                moved(new, place);
            }
            false
        });
        // Release pairs with the Acquire in `len`: whoever sees the new group sees what is in it.
        self.len.store(new + 1, Release);
    }
}

/// Where a digest belongs, as of when it was looked up.
#[derive(Clone, Copy, Debug)]
pub struct Place<'i> {
    digest: Digest,
    /// Home groups in use then.
    len: usize,
    home: usize,
    group: &'i Group,
}

impl Place<'_> {
    /// Of whom.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

/// The home group of `digest` among `len`.
#[inline]
fn home_of(digest: Digest, len: usize) -> usize {
    // Groups up to the next power of two that are not there yet are still in their lower half's twin.
    let mask = len.next_power_of_two() - 1;
    let home = digest.word() as usize & mask;
    if home < len { home } else { home & mask >> 1 }
}

/// A locked home group and the groups that it overflows into.
#[derive(Debug)]
pub(super) struct Chain<'i> {
    home: &'i Group,
    number: usize,
    index: &'i Index,
}

impl Drop for Chain<'_> {
    #[inline]
    fn drop(&mut self) {
        self.home.unlock();
    }
}

/// Locked chains of several digests.
#[derive(Debug)]
pub(super) struct Chains<'i> {
    /// Home groups in use when they were looked up.
    len: usize,
    /// By their numbers.
    chains: SmallVec<[Chain<'i>; FEW]>,
}

/// Digests whose chains need no memory of their own.
const FEW: usize = 4;

impl<'i> Chains<'i> {
    /// The chain of one of the digests that these were locked for.
    pub(super) fn of(&self, digest: Digest) -> Option<&Chain<'i>> {
        let home = home_of(digest, self.len);
        let at = self.chains.binary_search_by_key(&home, |chain| chain.number).ok()?;
        self.chains.get(at)
    }
}

impl Chain<'_> {
    /// The home group's number.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    #[inline]
    pub(super) fn find(&self, digest: Digest) -> Option<Slot<'_>> {
        self.home.find(digest).or_else(|| self.home.link().and_then(|link| self.find_from(link, digest)))
    }

    #[cold]
    fn find_from(&self, link: Link, digest: Digest) -> Option<Slot<'_>> {
        self.groups_from(Some(link)).find_map(|group| group.find(digest))
    }

    /// Slots, in use or not.
    pub(super) fn places(&self) -> usize {
        self.groups().count() * SLOTS
    }

    /// The slots in use.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot<'_>> {
        self.groups().flat_map(Group::slots)
    }

    /// A slot of the home group that is not in use.
    pub(super) fn home_slot(&self) -> Option<Slot<'_>> {
        self.home.free_slot()
    }

    /// A slot that is not in use, in a further overflow group if need be; `None` where the chain may not grow.
    pub(super) fn free_slot(&self) -> Option<Slot<'_>> {
        let mut last = self.home;
        let mut groups = 0;
        for group in self.groups() {
            if let Some(slot) = group.free_slot() {
                return Some(slot);
            }
            (last, groups) = (group, groups + 1);
        }
        if groups > Index::MAX_CHAIN {
            return None;
        }
        let link = self.index.overflow.take()?;
        last.set_link(Some(link));
        self.index.overflow.group(link).free_slot()
    }

    /// Drops the buckets that `keep` does not want, and gives back the overflow groups that are not needed for the others.
    /// Returns how many were dropped.
    pub(super) fn retain(&self, mut keep: impl FnMut(Slot<'_>) -> bool) -> usize {
        let mut dropped = 0;
        for slot in self.slots() {
            if !keep(slot) {
                slot.clear();
                dropped += 1;
            }
        }
        while let Some((before, last)) = self.last_link() {
            let overflow = self.index.overflow.group(last);
            while let Some(slot) = overflow.slots().next()
                && let Some(place) =
                    self.groups().take_while(|group| !std::ptr::eq(*group, overflow)).find_map(Group::free_slot)
            {
                slot.copy_to(&place);
                slot.clear();
            }
            if !overflow.is_empty() {
                break;
            }
            before.set_link(None);
            self.index.overflow.give_back(last);
        }
        dropped
    }

    /// The last overflow group, and the group that leads to it.
    fn last_link(&self) -> Option<(&Group, Link)> {
        self.groups().filter_map(|group| group.link().map(|link| (group, link))).last()
    }

    fn groups(&self) -> impl Iterator<Item = &Group> {
        std::iter::once(self.home).chain(self.groups_from(self.home.link()))
    }

    fn groups_from(&self, first: Option<Link>) -> impl Iterator<Item = &Group> {
        let overflow = &self.index.overflow;
        std::iter::successors(first.map(|link| overflow.group(link)), |group| {
            group.link().map(|link| overflow.group(link))
        })
    }
}
