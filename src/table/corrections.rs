//! What is put right after a decision: costs that were known only later, and permits that were consumed for nothing.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use parking_lot::Mutex;

use crate::{
    bucket::{Decision, Tat, Timestamp},
    crdt::Digest,
};

use super::{Rule, ScopeIndex, Table};

/// Permits that were given back and that peers were told of before, so that they have to be told of this too.
#[derive(Debug, Default)]
pub(super) struct Refunds {
    /// Whether there ever were any, here or at a peer. Relaxed: a hint to look.
    known: AtomicBool,
    by_key: Mutex<HashMap<Digest, Refund>>,
}

/// Permits of one key given back that no peer was told of yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refund {
    /// The scope of the key.
    pub scope: ScopeIndex,
    /// The key.
    pub digest: Digest,
    /// How many; never 0.
    pub permits: u64,
}

impl Refunds {
    /// Keys with refunds that wait for the next flush. Of further ones peers are not told: they wait for the bucket to refill.
    const MAX_KEYS: usize = 1 << 16;

    fn add(&self, refund: Refund) {
        let mut by_key = self.by_key.lock();
        if let Some(known) = by_key.get_mut(&refund.digest) {
            known.permits = known.permits.saturating_add(refund.permits);
        } else if by_key.len() < Self::MAX_KEYS {
            by_key.insert(refund.digest, refund);
        }
    }
}

impl Table {
    /// Consumes permits of something that has passed already, whether they are there or not, down to the debt floor.
    /// Returns the bucket as it is then.
    pub fn spend(&self, rule: &Rule, digest: Digest, permits: u64, now: Timestamp) -> Decision {
        let chain = self.index.lock(&self.place(digest));
        let known = chain.find(digest);
        let rule = &known.map_or(*rule, |slot| self.measured(&slot, rule, now));
        let before = known.map_or(Tat::FULL, |slot| slot.tat());
        let after = rule.gcra.charge(before, now, permits);
        if permits == 0 || after == before {
            return rule.state(after, now);
        }
        let is_new = known.is_none();
        if let Some(slot) = known.or_else(|| self.insert(&chain, rule.measure, digest, now)) {
            slot.set_tat(after);
            if self.publishes() {
                let wants = slot.add_unsent(permits, rule, now);
                self.mark(chain, wants);
            } else {
                drop(chain);
            }
            if is_new {
                self.grow();
            }
        }
        rule.state(after, now)
    }

    /// Gives permits back, at most until the bucket is full. A key that is not known has a full bucket. Returns the bucket as it
    /// is then.
    pub fn refund(&self, rule: &Rule, digest: Digest, permits: u64, now: Timestamp) -> Decision {
        let chain = self.index.lock(&self.place(digest));
        let Some(slot) = chain.find(digest) else { return rule.state(Tat::FULL, now) };
        let rule = &self.measured(&slot, rule, now);
        let (after, given) = rule.gcra.refund(slot.tat(), now, permits);
        slot.set_tat(after);
        self.refunds.known.store(true, Relaxed);
        // What nobody was told of needs no second word.
        let told = given - slot.take_back(given);
        drop(chain);
        if told != 0 && self.publishes() {
            self.refunds.add(Refund { scope: rule.measure.scope(), digest, permits: told });
        }
        rule.state(after, now)
    }

    /// Moves a bucket by what peers gave back.
    pub fn refunded(&self, rule: &Rule, digest: Digest, permits: u64, now: Timestamp) {
        self.refunds.known.store(true, Relaxed);
        let chain = self.index.lock(&self.place(digest));
        if let Some(slot) = chain.find(digest) {
            let rule = self.measured(&slot, rule, now);
            slot.set_tat(rule.gcra.refund(slot.tat(), now, permits).0);
        }
    }

    /// Whether anything was ever given back, here or by a peer: in most clusters nothing is.
    pub fn knows_refunds(&self) -> bool {
        self.refunds.known.load(Relaxed)
    }

    /// Whether permits of the key were given back here that no peer was told of yet.
    pub fn has_untold_refund(&self, digest: Digest) -> bool {
        self.refunds.by_key.lock().contains_key(&digest)
    }

    /// Takes what peers have to be told of refunds.
    pub fn drain_refunds(&self) -> Vec<Refund> {
        let mut by_key = self.refunds.by_key.lock();
        if by_key.is_empty() {
            return Vec::new();
        }
        let mut refunds: Vec<Refund> = std::mem::take(&mut *by_key).into_values().collect();
        // Nothing that reaches the wire depends on a hash seed.
        refunds.sort_unstable_by_key(|refund| (refund.scope, refund.digest));
        refunds
    }
}
