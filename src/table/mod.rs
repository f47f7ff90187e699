//! The buckets of one node, as the hot path sees them.
//!
//! `digest -> bucket {TAT, unsent}` in groups of four on two neighbouring cache lines, each group under a lock of one
//! bit. A decision takes that lock for one probe, moves the TAT, and adds what it admitted to `unsent`; the first unsent
//! permit since the last flush marks the group as dirty, and enough of them as urgent. The gossip task collects from
//! marked groups, and moves TATs by news from peers.
//!
//! The table knows nothing of counts or peers: it may drop a bucket that is full, and no count is touched.
//!
//! | module | holds |
//! |---|---|
//! | `group` | four buckets and their lock |
//! | `index` | which group a digest belongs to: linear hashing, growth, overflow |
//! | `groups`, `overflow` | where groups live |
//! | `marks`, `telling` | which groups have something to tell, and who collects it |
//! | `eviction` | sweep, and room at the cap |
//! | `scopes`, `terms` | quotas under names |
//! | `controls`, `top_keys`, `tally` | what an operator sets aside, watches, and counts |
//! | `together` | several buckets at once |
//! | `quotas` | quotas that change in use |
//! | `corrections` | costs that were known only later, and refunds |

mod coarse_time;
mod controls;
mod corrections;
mod eviction;
mod group;
mod groups;
mod index;
mod marks;
mod overflow;
mod prefetch;
mod quotas;
mod scopes;
mod tally;
mod telling;
mod terms;
mod together;
mod top_keys;

#[cfg(test)]
mod tests;

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crossbeam_utils::CachePadded;

use crate::{
    bucket::{Decision, Gcra, Missing, Tat, Timestamp},
    crdt::Digest,
};

pub use controls::{Controls, Override};
pub use corrections::Refund;
pub use eviction::SweepPosition;
pub use index::Place;
pub use scopes::{Measure, ScopeIndex, ScopeSpec, Scopes};
pub use tally::{Outcome, Tally};
pub use together::Request;
pub use top_keys::TopKey;

use corrections::Refunds;
use group::{Slot, Wants};
use index::{Chain, Index};
use marks::Marks;

/// How large a table may grow, and whether anybody collects what it admits.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// Most buckets that the table holds.
    pub max_keys: usize,
    /// Whether admissions are kept as unsent for a gossip task. Without one they would pile up.
    pub publish: bool,
}

/// The part of a decision that its scope contributes.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Which scope, and by which of its quotas.
    pub measure: Measure,
    /// Its arithmetic.
    pub gcra: Gcra,
    /// Ticks of slack that one unsent permit outweighs: beyond that a key is urgent. 0 where there is nobody to tell.
    pub push_weight: u64,
    /// Its name.
    pub name: &'static str,
}

impl Rule {
    /// What to answer of an admission that left `tat`.
    #[inline(always)]
    fn allowed(&self, tat: Tat, now: Timestamp) -> Decision {
        self.gcra.allowed(tat, now).by(self.name)
    }

    /// What to answer of a request for `cost` permits that `tat` does not admit.
    fn refused(&self, tat: Tat, now: Timestamp, cost: u64) -> Decision {
        self.gcra.refused(tat, now, cost).by(self.name)
    }

    /// The bucket as it is, for a request that wants nothing of it.
    fn state(&self, tat: Tat, now: Timestamp) -> Decision {
        self.gcra.state(tat, now).by(self.name)
    }
}

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
    index: Index,
    max_keys: u64,
    scopes: Scopes,
    /// Whether somebody collects what is admitted. Relaxed: it changes once, and what is kept for nobody is ignored.
    publish: AtomicBool,
    /// Groups with a bucket that has unsent permits.
    dirty: Marks,
    /// Groups with a bucket whose unsent permits are urgent.
    urgent: Marks,
    /// Set when a key became urgent, cleared by the drain. Pairs the hot path with the gossip task: see `raise_urgent`.
    any_urgent: CachePadded<AtomicBool>,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
    counters: CachePadded<Counters>,
    refunds: Refunds,
    /// Where the next search for a bucket to recycle begins.
    hand: CachePadded<AtomicUsize>,
}

#[derive(Default)]
struct Counters {
    keys: AtomicU64,
    idle: AtomicU64,
    recycled: AtomicU64,
    untracked: AtomicU64,
    excess_thousandths: AtomicU64,
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
    /// Permits by which news of peers took buckets below empty.
    pub excess: u64,
}

impl Table {
    /// An empty table.
    pub fn new(options: TableOptions) -> Self {
        let max_keys = options.max_keys.max(1);
        let most_groups = Index::homes_for(max_keys);
        Self {
            index: Index::new(max_keys),
            max_keys: max_keys as u64,
            scopes: Scopes::default(),
            publish: AtomicBool::new(options.publish),
            dirty: Marks::new(most_groups),
            urgent: Marks::new(most_groups),
            any_urgent: CachePadded::default(),
            wake: OnceLock::new(),
            counters: CachePadded::default(),
            refunds: Refunds::default(),
            hand: CachePadded::default(),
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

    /// Looks up where `digest` belongs, and asks for the memory there without waiting for it. So whoever looks up early, before the
    /// clock is read or some decisions ahead, waits less.
    #[inline]
    pub fn place(&self, digest: Digest) -> Place<'_> {
        self.index.place(digest)
    }

    /// Decides on `cost` permits and consumes them if they pass.
    #[inline]
    pub fn decide(&self, rule: &Rule, digest: Digest, cost: u64, now: Timestamp) -> Decision {
        self.decide_at(&self.place(digest), rule, cost, now)
    }

    /// As [`Table::decide`], of a digest that was looked up.
    // Always inlined: most callers want one field of the decision, and the others cost a division.
    #[inline(always)]
    pub fn decide_at<'t>(&'t self, place: &Place<'t>, rule: &Rule, cost: u64, now: Timestamp) -> Decision {
        let chain = self.index.lock(place);
        let Some(slot) = chain.find(place.digest()) else {
            return self.decide_unknown(chain, *rule, place.digest(), cost, now);
        };
        if slot.measure() != rule.measure {
            drop(chain);
            return self.decide_anew(place.digest(), *rule, cost, now);
        }
        let tat = slot.tat();
        let Some(admitted) = rule.gcra.admit(tat, now, cost) else {
            drop(chain);
            return rule.refused(tat, now, cost);
        };
        // A request that costs nothing touches nothing.
        if cost != 0 {
            slot.set_tat(admitted);
            if self.publishes() {
                let wants = slot.add_unsent(cost, rule, now);
                self.mark(chain, wants);
            }
        }
        rule.allowed(admitted, now)
    }

    #[cold]
    fn decide_unknown(&self, chain: Chain<'_>, rule: Rule, digest: Digest, cost: u64, now: Timestamp) -> Decision {
        let Some(admitted) = rule.gcra.admit(Tat::FULL, now, cost) else {
            return rule.refused(Tat::FULL, now, cost);
        };
        // A full bucket says nothing that its absence does not say.
        if cost != 0
            && let Some(slot) = self.insert(&chain, rule.measure, digest, now)
        {
            slot.set_tat(admitted);
            if self.publishes() {
                let wants = slot.add_unsent(cost, &rule, now);
                self.mark(chain, wants);
            } else {
                drop(chain);
            }
            self.grow();
        }
        rule.allowed(admitted, now)
    }

    /// The rule by which a bucket is measured once this returns: `rule`, unless its quota was changed meanwhile.
    #[inline]
    fn measured(&self, slot: &Slot<'_>, rule: &Rule, now: Timestamp) -> Rule {
        if slot.measure() == rule.measure { *rule } else { self.present_rule(slot, rule, now) }
    }

    /// What [`Table::decide`] would say. Changes nothing.
    pub fn peek(&self, rule: &Rule, digest: Digest, cost: u64, now: Timestamp) -> Decision {
        let (tat, rule) = match self.index.lock(&self.place(digest)).find(digest) {
            Some(slot) => {
                let rule = self.measured(&slot, rule, now);
                (slot.tat(), rule)
            }
            None => (Tat::FULL, *rule),
        };
        match rule.gcra.admit(tat, now, cost) {
            // A peek consumes nothing, so it reports the bucket as it is.
            Some(_) => rule.allowed(tat, now),
            None => rule.refused(tat, now, cost),
        }
    }

    /// Moves a bucket by what peers said of it. A bucket that stays full is not created.
    ///
    /// What was admitted here and not told may become urgent by it: less is left than when it was admitted.
    pub fn charge(&self, rule: &Rule, digest: Digest, charge: Charge, now: Timestamp) {
        // The later of two estimates that each never over-charge.
        let moved = |gcra: &Gcra, tat| {
            gcra.charge(tat, charge.as_of, charge.permits).max(gcra.raise(tat, charge.as_of, charge.missing))
        };
        let chain = self.index.lock(&self.place(digest));
        if let Some(slot) = chain.find(digest) {
            let rule = self.measured(&slot, rule, now);
            let (before, after) = (slot.tat(), moved(&rule.gcra, slot.tat()));
            slot.set_tat(after);
            self.count_excess(&rule, before, after, now);
            if slot.unsent() != 0 && self.publishes() {
                let wants = Wants { flush: false, push: slot.becomes_urgent(&rule, now) };
                self.mark(chain, wants);
            }
            return;
        }
        let tat = moved(&rule.gcra, Tat::FULL);
        if tat.is_full_since(now) {
            return;
        }
        if let Some(slot) = self.insert(&chain, rule.measure, digest, now) {
            slot.set_tat(tat);
            drop(chain);
            self.grow();
        }
        self.count_excess(rule, Tat::FULL, tat, now);
    }

    /// Counts what the cluster admitted beyond what one bucket would have: news of it takes the bucket below empty.
    fn count_excess(&self, rule: &Rule, before: Tat, after: Tat, now: Timestamp) {
        let more = rule.gcra.debt(after, now).saturating_sub(rule.gcra.debt(before, now));
        if more != 0 {
            self.counters.excess_thousandths.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// What is missing in a bucket besides the permits admitted here that nobody was told of yet.
    ///
    /// These will travel as a delta of their own; a level that held them too would charge them twice.
    pub fn missing(&self, rule: &Rule, digest: Digest, now: Timestamp) -> Missing {
        match self.index.lock(&self.place(digest)).find(digest) {
            Some(slot) => {
                let rule = self.measured(&slot, rule, now);
                rule.gcra.missing_besides(slot.tat(), now, slot.unsent())
            }
            None => Missing::default(),
        }
    }

    /// Whether a bucket is full, or not there, which is the same.
    pub fn is_full(&self, digest: Digest, now: Timestamp) -> bool {
        self.index.lock(&self.place(digest)).find(digest).is_none_or(|slot| slot.tat().is_full_since(now))
    }

    /// Counters so far. Relaxed: the figures need not agree with each other.
    pub fn stats(&self) -> TableStats {
        TableStats {
            keys: self.counters.keys.load(Ordering::Relaxed),
            idle: self.counters.idle.load(Ordering::Relaxed),
            recycled: self.counters.recycled.load(Ordering::Relaxed),
            untracked: self.counters.untracked.load(Ordering::Relaxed),
            excess: self.counters.excess_thousandths.load(Ordering::Relaxed) / 1_000,
        }
    }

    /// Makes room for the keys to come. The caller holds no lock.
    fn grow(&self) {
        let keys = usize::try_from(self.counters.keys.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        let mut urgent = false;
        self.index.grow_for(keys, |group, slot| {
            // Its marks stay behind.
            if slot.unsent() != 0 {
                self.dirty.set(group);
            }
            if slot.is_urgent() {
                self.urgent.set(group);
                urgent = true;
            }
        });
        if urgent {
            self.raise_urgent();
        }
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
