//! One key's share: arithmetic without lock or clock.

use std::time::Duration;

use crate::{
    backend::{RateLimiter, Refill},
    bucket::{Decision, Timestamp},
};

/// A bucket as a decision left it behind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Level {
    /// Permits missing until it is full.
    missing: f64,
    /// Permits that come back each second.
    rate: f64,
}

impl Level {
    /// As an answer of `limiter` tells it.
    pub(in super::super) fn of(limiter: &impl RateLimiter, answer: &Decision) -> Self {
        // Counts below 2^53 are exact, and a quota's burst is below 2^32.
        let missing = answer.limit.saturating_sub(answer.remaining) as f64;
        Self { missing, rate: rate(limiter) }
    }

    /// Where `limiter` cannot be asked: what is missing if nobody else used the key.
    pub(in super::super) fn alone(limiter: &impl RateLimiter, share: &Share, now: Timestamp) -> Self {
        let rate = rate(limiter);
        let refilled = rate * now.saturating_since(share.at).as_secs_f64();
        Self { missing: (share.older + share.own - refilled).max(0.0), rate }
    }

    #[cfg(test)]
    pub(super) fn new(missing: f64, rate: f64) -> Self {
        Self { missing, rate }
    }
}

/// Permits that come back each second. Of a window none do until they all do, and then they are not missing any more.
fn rate(limiter: &impl RateLimiter) -> f64 {
    let quota = limiter.policy().quota;
    match limiter.refill() {
        Refill::Steady => quota.count() as f64 / quota.period().as_secs_f64(),
        Refill::Window => 0.0,
    }
}

/// Permits of one key that this process admitted by the fallback and that are not refilled yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Share {
    /// Permits that were missing before the first of them. What comes back comes back of these first: they are older, and the
    /// primary knows of them or had others to blame.
    older: f64,
    own: f64,
    /// When the two were as they are.
    at: Timestamp,
}

impl Eq for Share {}

impl Share {
    /// The first admission, which left `level` behind.
    pub(super) fn first(permits: u64, level: Level, now: Timestamp) -> Self {
        let own = permits as f64;
        Self { older: (level.missing - own).max(0.0), own, at: now }
    }

    /// One more admission, which left `level` behind.
    pub(super) fn admit(&mut self, permits: u64, level: Level, now: Timestamp) {
        let permits = permits as f64;
        self.refill(Level { missing: level.missing - permits, ..level }, now);
        self.own += permits;
    }

    /// What is left of it when the bucket is at `level`.
    #[must_use]
    pub(in super::super) fn now(mut self, level: Level, now: Timestamp) -> Self {
        self.refill(level, now);
        self
    }

    fn refill(&mut self, level: Level, now: Timestamp) {
        let refilled = level.rate * now.saturating_since(self.at).as_secs_f64();
        let of_older = self.older.min(refilled);
        self.older -= of_older;
        // The rest is of what all replicas admitted since, and of that this process bears its part.
        let (refilled, missing) = (refilled - of_older, (level.missing - self.older).max(0.0));
        if missing + refilled > 0.0 {
            self.own *= missing / (missing + refilled);
        }
        self.own = self.own.min(missing);
        self.at = self.at.max(now);
    }

    /// Whole permits, to the nearest.
    pub(in super::super) fn permits(&self) -> u64 {
        // Rounded, and never negative; a cast saturates.
        self.own.round() as u64
    }

    /// Whether nothing is left of it if nobody else used the key.
    pub(super) fn is_refilled(&self, level: Level, now: Timestamp) -> bool {
        let longest = Duration::try_from_secs_f64((self.older + self.own) / level.rate).unwrap_or(Duration::MAX);
        now.saturating_since(self.at) >= longest
    }

    pub(super) fn give_back(&mut self, permits: u64) {
        self.own = (self.own - permits as f64).max(0.0);
    }

    pub(super) fn take_back(&mut self, permits: u64) {
        self.own += permits as f64;
    }
}
