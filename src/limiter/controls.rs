//! Exemptions, blocked keys, resets, and scopes that only watch.

use std::time::Duration;

use crate::{
    bucket::{Decision, Timestamp},
    crdt::Digest,
    table::{Override, TopKey},
};

use super::Scope;

impl Scope {
    /// Lets everything pass from now on, or no longer; what the quota would have refused is marked as
    /// [`shadowed`](Decision::shadowed). Use it to try a quota on live traffic.
    ///
    /// Requests that the quota allows consume permits as ever; those that it would have refused consume nothing. It is so on this
    /// node; set it on all members.
    ///
    /// ```
    /// use peerlimit::{Limiter, Quota};
    ///
    /// let limiter = Limiter::local(Quota::per_minute(100));
    /// let trial = limiter.scope("trial", Quota::per_minute(1));
    /// trial.set_shadow(true);
    /// assert!(!trial.check("user:123").shadowed);
    /// let decision = trial.check("user:123");
    /// assert!(decision.allowed && decision.shadowed);
    /// ```
    pub fn set_shadow(&self, shadow: bool) {
        self.spec.controls().set_shadow(shadow);
    }

    /// Whether it [only watches](Self::set_shadow).
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.spec.controls().is_shadow()
    }

    /// Lets all requests of a key pass, and consume nothing, until [`release`](Self::release): health checks, a customer with a
    /// contract. On this node; set it on all members. Takes memory for each exempt key.
    pub fn exempt(&self, key: impl AsRef<[u8]>) {
        self.spec.controls().set_override(self.digest(key), Some(Override::Exempt));
    }

    /// Refuses all requests of a key until [`release`](Self::release), and says that they are
    /// [impossible](Decision::is_impossible). On this node; set it on all members. Takes memory for each blocked key.
    pub fn block(&self, key: impl AsRef<[u8]>) {
        self.spec.controls().set_override(self.digest(key), Some(Override::Blocked));
    }

    /// Lets the quota decide on a key again that was [exempt](Self::exempt) or [blocked](Self::block).
    pub fn release(&self, key: impl AsRef<[u8]>) {
        self.spec.controls().set_override(self.digest(key), None);
    }

    /// Fills a key's bucket, here and, with the next flush, at all members: everything that is missing in it is
    /// [given back](Self::refund).
    pub fn reset(&self, key: impl AsRef<[u8]>) {
        self.refund(key, u64::MAX);
    }

    /// Counts from now on which keys ask for most, with room for so many, and keeps their names for
    /// [`top_keys`](Self::top_keys). 0 ends it and forgets them; other numbers begin anew.
    ///
    /// Off by default: a limiter forgets keys as they are, and keeps digests. With `room` keys, each that asks for more than
    /// a `room`th of all permits is found. Each costs some 200 bytes and its name, and a decision in this scope some hundred
    /// nanoseconds more; where several threads decide at the same time, a part of their requests goes uncounted.
    pub fn track_top_keys(&self, room: usize) {
        self.spec.controls().track(room);
    }

    /// The keys that asked this node for most since [`track_top_keys`](Self::track_top_keys), at most `most` of them, the
    /// greatest first. Nothing without it.
    ///
    /// ```
    /// use peerlimit::{Limiter, Quota};
    ///
    /// let limiter = Limiter::local(Quota::per_minute(10));
    /// let users = limiter.scope("user", Quota::per_minute(2));
    /// users.track_top_keys(100);
    /// for key in ["ann", "bob", "ann", "ann"] {
    ///     let _ = users.check(key);
    /// }
    /// let top = users.top_keys(10);
    /// assert_eq!((top[0].key.as_slice(), top[0].asked, top[0].admitted), (&b"ann"[..], 3, 2));
    /// ```
    #[must_use]
    pub fn top_keys(&self, most: usize) -> Vec<TopKey> {
        self.spec.controls().top_keys(most)
    }

    fn digest(&self, key: impl AsRef<[u8]>) -> Digest {
        self.spec.hasher().digest(key.as_ref())
    }

    /// What is done to a key whatever its bucket says.
    pub(super) fn override_of(&self, digest: Digest) -> Option<Override> {
        let controls = self.spec.controls();
        if controls.in_use() { controls.override_of(digest) } else { None }
    }

    pub(super) fn is_exempt(&self, digest: Digest) -> bool {
        self.override_of(digest) == Some(Override::Exempt)
    }

    /// A decision in a scope whose controls may be in use.
    #[cold]
    pub(super) fn controlled(&self, digest: Digest, key: &[u8], cost: u64, now: Timestamp) -> Decision {
        let (table, rule) = (&self.shared.table, self.spec.rule());
        let by_quota = match self.override_of(digest) {
            // Consumes nothing.
            Some(_) => table.peek(&rule, digest, cost, now),
            None => table.decide(&rule, digest, cost, now),
        };
        let decision = self.overruled(digest, by_quota);
        self.spec.controls().note(digest, key, cost, &decision);
        decision
    }

    /// What is answered in a scope whose controls may be in use, where the quota alone would say `by_quota`.
    pub(super) fn overruled(&self, digest: Digest, by_quota: Decision) -> Decision {
        let limit = by_quota.limit;
        match self.override_of(digest) {
            Some(Override::Exempt) => {
                Decision { exempt: true, ..Decision::allow(limit, limit, Duration::ZERO) }.by(self.name())
            }
            Some(Override::Blocked) => Decision::refuse(limit, 0, Duration::ZERO, None).by(self.name()),
            None => {
                let shadowed = !by_quota.allowed && self.is_shadow();
                Decision { allowed: by_quota.allowed || shadowed, shadowed, ..by_quota }
            }
        }
    }
}
