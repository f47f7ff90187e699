//! Quotas that change while their buckets are in use.

use crate::{
    bucket::{Decision, Quota, Timestamp},
    crdt::Digest,
};

use super::{Rule, ScopeSpec, Table, group::Slot};

impl Table {
    /// Decides by another quota from now on. What is missing in each bucket stays, in permits, down to the debt floor of the new
    /// quota: a spent bucket is spent under either.
    ///
    /// A decision sees the old quota or the new one, and never waits for this. It goes once through the table, which takes about
    /// as long as a sweep.
    pub fn set_quota(&self, spec: &ScopeSpec, quota: Quota, now: Timestamp) {
        let Some(_changing) = self.scopes.set_quota(spec, quota) else { return };
        // Decisions do this for the buckets that they meet. But a bucket can tell only the last few quotas apart.
        let mut home = 0;
        // Groups that are added meanwhile come last.
        while home < self.index.len() {
            let chain = self.index.lock_home(home);
            for slot in chain.slots().filter(|slot| slot.measure().scope() == spec.index()) {
                self.measure_anew(&slot, spec, now);
            }
            home += 1;
        }
    }

    /// A decision whose bucket is measured by another quota than its rule. It begins anew.
    #[cold]
    pub(super) fn decide_anew(&self, digest: Digest, rule: Rule, cost: u64, now: Timestamp) -> Decision {
        let chain = self.index.lock(&self.place(digest));
        let rule = chain.find(digest).map_or(rule, |slot| self.present_rule(&slot, &rule, now));
        drop(chain);
        self.decide(&rule, digest, cost, now)
    }

    /// The present rule of a bucket which is measured by another quota than `rule`, or the other way around. Measures it by
    /// that.
    #[cold]
    pub(super) fn present_rule(&self, slot: &Slot<'_>, rule: &Rule, now: Timestamp) -> Rule {
        let Some(spec) = self.scopes.get(rule.measure.scope()) else {
            debug_assert!(false, "scopes are never removed");
            return *rule;
        };
        self.measure_anew(slot, &spec, now)
    }

    fn measure_anew(&self, slot: &Slot<'_>, spec: &ScopeSpec, now: Timestamp) -> Rule {
        let rule = spec.rule();
        let measure = slot.measure();
        if measure != rule.measure {
            slot.set_tat(rule.gcra.measure_anew(slot.tat(), now, spec.interval_of(measure)));
            slot.set_measure(rule.measure);
        }
        rule
    }
}
