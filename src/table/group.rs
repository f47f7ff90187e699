//! Four buckets on two neighbouring cache lines, under one lock.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use crossbeam_utils::Backoff;

use crate::{
    bucket::{Tat, Timestamp},
    crdt::Digest,
};

use super::{Measure, Rule, Unsent, coarse_time::CoarseTime};

/// Buckets of one group.
pub(super) const SLOTS: usize = 4;

/// A group of buckets: 128 bytes, which processors fetch as a pair of lines.
///
/// All fields but the lock bit belong to whoever holds the lock: that of this group, or of the home group to which it is
/// an overflow. They are atomics only because shared memory is; Relaxed loads and stores of them are plain ones.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(super) struct Group {
    digests: [[AtomicU64; SLOTS]; 2],
    tats: [AtomicU64; SLOTS],
    /// A flush is due long before one saturates: it would take 2^32 permits of one key in one interval.
    unsent: [AtomicU32; SLOTS],
    /// [`Measure`], and the flag [`URGENT`].
    measures: [AtomicU16; SLOTS],
    /// When the first of the unsent permits was admitted.
    since: [AtomicU8; SLOTS],
    /// From the lowest bit: locked (1), occupied slots (4), link (27).
    header: AtomicU32,
}

const LOCKED: u32 = 1;
const OCCUPIED_SHIFT: u32 = 1;
const OCCUPIED: u32 = ((1 << SLOTS) - 1) << OCCUPIED_SHIFT;
const LINK_SHIFT: u32 = OCCUPIED_SHIFT + SLOTS as u32;
/// Set in `measures` while the group is marked for this bucket's sake.
const URGENT: u16 = 1 << Measure::BITS;

/// The overflow group that continues a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link(u32);

impl Link {
    /// Overflow groups that can be told apart.
    pub(super) const MAX: usize = (1 << (u32::BITS - LINK_SHIFT)) - 1;

    /// To the overflow group number `index`, which is below [`Link::MAX`].
    pub(super) fn to(index: usize) -> Self {
        debug_assert!(index < Self::MAX, "{index}");
        Self(index as u32 + 1)
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize - 1
    }
}

impl Group {
    /// Waits for the lock. It is held for some tens of nanoseconds at a time, but its holder may be interrupted.
    #[inline]
    pub(super) fn lock(&self) {
        if !self.try_lock() {
            self.lock_contended();
        }
    }

    #[cold]
    fn lock_contended(&self) {
        let backoff = Backoff::new();
        while !self.try_lock() {
            // Spins, then lets others run: one of them may be the holder.
            backoff.snooze();
        }
    }

    /// Takes the lock if nobody has it.
    #[inline]
    pub(super) fn try_lock(&self) -> bool {
        let header = self.header.load(Relaxed);
        // Acquire pairs with the Release in `unlock`: what the last holder wrote is seen.
        header & LOCKED == 0 && self.header.compare_exchange(header, header | LOCKED, Acquire, Relaxed).is_ok()
    }

    /// Gives the lock back. Only the holder calls this.
    #[inline]
    pub(super) fn unlock(&self) {
        // No one else writes the header meanwhile, so this needs no read-modify-write.
        self.header.store(self.header.load(Relaxed) & !LOCKED, Release);
    }

    /// The slot of `digest`.
    #[inline]
    pub(super) fn find(&self, digest: Digest) -> Option<Slot<'_>> {
        let mut matching = 0;
        for (at, word) in self.digests[0].iter().enumerate() {
            matching |= u32::from(word.load(Relaxed) == digest.word()) << at;
        }
        matching &= self.occupied();
        while matching != 0 {
            let slot = self.slot(matching.trailing_zeros() as usize);
            if slot.digest() == digest {
                return Some(slot);
            }
            matching &= matching - 1;
        }
        None
    }

    /// The slots in use.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot<'_>> {
        let occupied = self.occupied();
        (0..SLOTS).filter(move |at| occupied & 1 << at != 0).map(|at| self.slot(at))
    }

    /// A slot that is not in use.
    pub(super) fn free_slot(&self) -> Option<Slot<'_>> {
        let at = self.occupied().trailing_ones() as usize;
        (at < SLOTS).then(|| self.slot(at))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.occupied() == 0
    }

    /// The group in which this one goes on.
    #[inline]
    pub(super) fn link(&self) -> Option<Link> {
        let link = self.header.load(Relaxed) >> LINK_SHIFT;
        (link != 0).then_some(Link(link))
    }

    pub(super) fn set_link(&self, link: Option<Link>) {
        let raw = link.map_or(0, |link| link.0);
        self.update_header(|header| header & (LOCKED | OCCUPIED) | raw << LINK_SHIFT);
    }

    fn slot(&self, at: usize) -> Slot<'_> {
        Slot { group: self, at: at % SLOTS }
    }

    fn occupied(&self) -> u32 {
        (self.header.load(Relaxed) & OCCUPIED) >> OCCUPIED_SHIFT
    }

    fn update_header(&self, update: impl FnOnce(u32) -> u32) {
        self.header.store(update(self.header.load(Relaxed)), Relaxed);
    }
}

/// The place of one bucket. Whoever has one holds the group's lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot<'g> {
    group: &'g Group,
    /// Below [`SLOTS`].
    at: usize,
}

/// What a bucket wants after permits were added that nobody was told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wants {
    /// They are the first.
    pub(super) flush: bool,
    /// They became urgent.
    pub(super) push: bool,
}

impl Slot<'_> {
    #[inline]
    pub(super) fn digest(&self) -> Digest {
        let [words, others] = &self.group.digests;
        Digest::from_words(words[self.at].load(Relaxed), others[self.at].load(Relaxed))
    }

    #[inline]
    pub(super) fn tat(&self) -> Tat {
        Tat::from_raw(self.group.tats[self.at].load(Relaxed))
    }

    #[inline]
    pub(super) fn set_tat(&self, tat: Tat) {
        self.group.tats[self.at].store(tat.raw(), Relaxed);
    }

    /// Permits admitted here that nobody was told of.
    #[inline]
    pub(super) fn unsent(&self) -> u64 {
        self.group.unsent[self.at].load(Relaxed).into()
    }

    /// Its scope, and the quota by which its TAT is measured.
    #[inline]
    pub(super) fn measure(&self) -> Measure {
        Measure::from_raw(self.group.measures[self.at].load(Relaxed) & !URGENT)
    }

    pub(super) fn set_measure(&self, measure: Measure) {
        let measures = &self.group.measures[self.at];
        measures.store(measures.load(Relaxed) & URGENT | measure.raw(), Relaxed);
    }

    pub(super) fn is_urgent(&self) -> bool {
        self.group.measures[self.at].load(Relaxed) & URGENT != 0
    }

    /// Puts a full bucket of `digest` here, whatever was here before.
    pub(super) fn fill(&self, measure: Measure, digest: Digest) {
        let (group, at) = (self.group, self.at);
        group.digests[0][at].store(digest.word(), Relaxed);
        group.digests[1][at].store(digest.other_word(), Relaxed);
        group.tats[at].store(Tat::FULL.raw(), Relaxed);
        group.unsent[at].store(0, Relaxed);
        group.measures[at].store(measure.raw(), Relaxed);
        group.since[at].store(0, Relaxed);
        group.update_header(|header| header | 1 << at << OCCUPIED_SHIFT);
    }

    /// Nothing is here any more.
    pub(super) fn clear(&self) {
        self.group.update_header(|header| header & !(1 << self.at << OCCUPIED_SHIFT));
    }

    /// Puts the same bucket into another slot, whatever was there before.
    pub(super) fn copy_to(&self, to: &Slot<'_>) {
        to.fill(self.measure(), self.digest());
        to.set_tat(self.tat());
        to.group.unsent[to.at].store(self.group.unsent[self.at].load(Relaxed), Relaxed);
        to.group.measures[to.at].store(self.group.measures[self.at].load(Relaxed), Relaxed);
        to.group.since[to.at].store(self.group.since[self.at].load(Relaxed), Relaxed);
    }

    /// Keeps `cost` admitted permits for the next push or flush.
    #[inline]
    pub(super) fn add_unsent(&self, cost: u64, rule: &Rule, now: Timestamp) -> Wants {
        let unsent = &self.group.unsent[self.at];
        let before = unsent.load(Relaxed);
        if before == 0 {
            self.group.since[self.at].store(CoarseTime::of(now).raw(), Relaxed);
        }
        unsent.store(before.saturating_add(u32::try_from(cost).unwrap_or(u32::MAX)), Relaxed);
        Wants { flush: before == 0, push: self.becomes_urgent(rule, now) }
    }

    /// Whether the unsent permits now outweigh what is left, and did not before.
    #[inline]
    pub(super) fn becomes_urgent(&self, rule: &Rule, now: Timestamp) -> bool {
        let weight = self.unsent().saturating_mul(rule.push_weight);
        if rule.push_weight == 0 || weight < rule.gcra.slack(self.tat(), now) || self.is_urgent() {
            return false;
        }
        let measure = &self.group.measures[self.at];
        measure.store(measure.load(Relaxed) | URGENT, Relaxed);
        true
    }

    /// Takes up to so many permits back of those that nobody was told of. Returns how many.
    pub(super) fn take_back(&self, permits: u64) -> u64 {
        let unsent = self.unsent();
        let taken = permits.min(unsent);
        // Never above what was there, which fits.
        self.group.unsent[self.at].store(u32::try_from(unsent - taken).unwrap_or(u32::MAX), Relaxed);
        taken
    }

    /// Takes what nobody was told of.
    pub(super) fn take_unsent(&self, now: Timestamp) -> Option<Unsent> {
        let permits = self.unsent();
        if permits == 0 {
            return None;
        }
        let measure = self.measure();
        self.group.unsent[self.at].store(0, Relaxed);
        self.group.measures[self.at].store(measure.raw(), Relaxed);
        let since = CoarseTime::from_raw(self.group.since[self.at].load(Relaxed));
        Some(Unsent { scope: measure.scope(), digest: self.digest(), permits, age: since.age(now) })
    }
}
