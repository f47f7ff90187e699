//! A quota with its own key space.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    bucket::{Decision, Quota, Timestamp},
    crdt::Digest,
    table::{Rule, ScopeSpec, Table},
};

use super::{Shared, observed::Watch};

/// A named quota with its own key space, on the node of the [`Limiter`](super::Limiter) that it comes from.
///
/// Cheap to clone. It keeps its node running.
#[derive(Clone, Debug)]
pub struct Scope {
    pub(super) spec: Arc<ScopeSpec>,
    pub(super) shared: Arc<Shared>,
}

impl Scope {
    pub(super) fn new(shared: &Arc<Shared>, name: &str, quota: Quota) -> Self {
        let spec = shared.table.scopes().get_or_add(&shared.digest_key, name, quota);
        if spec.quota() != quota {
            tracing::warn!(scope = name, kept = ?spec.quota(), ignored = ?quota, "scope is there with another quota");
        }
        Self::from_spec(spec, shared)
    }

    pub(super) fn from_spec(spec: Arc<ScopeSpec>, shared: &Arc<Shared>) -> Self {
        Self { spec, shared: Arc::clone(shared) }
    }

    /// Keys that are looked up together: about as many lines of memory as a core waits for at once.
    const AT_ONCE: usize = 16;

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.spec.name()
    }

    /// Its quota.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.spec.quota()
    }

    /// Decides by another quota from now on. What was used of each key stays used: where 60 of 100 permits were missing,
    /// 60 are missing of 200 then, and a bucket of 20 is in debt, at most by one more burst.
    ///
    /// Decisions go on meanwhile and see either quota whole. It looks at each key once: some tens of milliseconds for a million.
    /// It is this node's quota alone; set it on all members. [`Quota::refuse_all`] blocks everything.
    pub fn set_quota(&self, quota: Quota) {
        self.shared.table.set_quota(&self.spec, quota, self.shared.clock.now());
    }

    /// As [`Limiter::allow`](super::Limiter::allow), in this scope.
    #[inline]
    #[must_use = "a decision that nobody looks at limits nothing"]
    pub fn allow(&self, key: impl AsRef<[u8]>) -> bool {
        self.check(key).allowed
    }

    /// As [`Limiter::check`](super::Limiter::check), in this scope.
    #[inline]
    pub fn check(&self, key: impl AsRef<[u8]>) -> Decision {
        self.check_n(key, 1)
    }

    /// As [`Limiter::check_n`](super::Limiter::check_n), in this scope.
    #[inline]
    pub fn check_n(&self, key: impl AsRef<[u8]>, cost: u64) -> Decision {
        let watch = Watch::start(&self.shared.clock);
        let decision = self.decided(key.as_ref(), cost);
        self.spec.tally().count(&decision);
        watch.stop(&self.shared.clock, &self.shared.observed);
        decision
    }

    /// Decides, and counts nothing.
    #[inline(always)]
    pub(super) fn decided(&self, key: &[u8], cost: u64) -> Decision {
        let digest = self.spec.hasher().digest(key);
        // In this order: while the clock is read, the bucket comes from memory.
        let place = self.shared.table.place(digest);
        let now = self.shared.clock.now();
        if self.spec.controls().in_use() {
            return self.controlled(digest, key, cost, now);
        }
        self.shared.table.decide_at(&place, &self.spec.rule(), cost, now)
    }

    /// As [`Limiter::check_many`](super::Limiter::check_many), in this scope.
    pub fn check_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Decision> {
        let table = &self.shared.table;
        let mut decisions = Vec::with_capacity(keys.len());
        for keys in keys.chunks(Self::AT_ONCE) {
            // All of them are looked up before the first is decided, so their memory is waited for together.
            let look_up = |key: &K| table.place(self.spec.hasher().digest(key.as_ref()));
            let places: SmallVec<[_; Self::AT_ONCE]> = keys.iter().map(look_up).collect();
            let (rule, controlled) = (self.spec.rule(), self.spec.controls().in_use());
            let now = self.shared.clock.now();
            decisions.extend(keys.iter().zip(&places).map(|(key, place)| {
                let decision = if controlled {
                    self.controlled(place.digest(), key.as_ref(), 1, now)
                } else {
                    table.decide_at(place, &rule, 1, now)
                };
                self.spec.tally().count(&decision);
                decision
            }));
        }
        decisions
    }

    /// As [`Limiter::peek`](super::Limiter::peek), in this scope.
    #[inline]
    pub fn peek(&self, key: impl AsRef<[u8]>) -> Decision {
        self.peek_n(key, 1)
    }

    /// What [`check_n`](Self::check_n) would say now. Changes nothing.
    #[inline]
    pub fn peek_n(&self, key: impl AsRef<[u8]>, cost: u64) -> Decision {
        let digest = self.spec.hasher().digest(key.as_ref());
        let now = self.shared.clock.now();
        let decision = self.shared.table.peek(&self.spec.rule(), digest, cost, now);
        if self.spec.controls().in_use() { self.overruled(digest, decision) } else { decision }
    }

    /// As [`Limiter::charge`](super::Limiter::charge), in this scope.
    pub fn charge(&self, key: impl AsRef<[u8]>, permits: u64) {
        let _state = self.charged(key.as_ref(), permits);
    }

    /// Charges, and returns the bucket as it is then.
    pub(super) fn charged(&self, key: &[u8], permits: u64) -> Decision {
        self.corrected(key, |table, rule, digest, now| table.spend(rule, digest, permits, now))
    }

    /// As [`Limiter::refund`](super::Limiter::refund), in this scope.
    pub fn refund(&self, key: impl AsRef<[u8]>, permits: u64) {
        let _state = self.refunded(key.as_ref(), permits);
    }

    /// Gives back, and returns the bucket as it is then.
    pub(super) fn refunded(&self, key: &[u8], permits: u64) -> Decision {
        self.corrected(key, |table, rule, digest, now| table.refund(rule, digest, permits, now))
    }

    /// Corrects the bucket of a key, unless that is exempt, and returns it as it is then.
    fn corrected(&self, key: &[u8], correct: impl FnOnce(&Table, &Rule, Digest, Timestamp) -> Decision) -> Decision {
        let digest = self.spec.hasher().digest(key);
        if self.is_exempt(digest) {
            return self.peek_n(key, 0);
        }
        let now = self.shared.clock.now();
        correct(&self.shared.table, &self.spec.rule(), digest, now)
    }
}
