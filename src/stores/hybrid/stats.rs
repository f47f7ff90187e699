//! What a hybrid has done.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::breaker::State;

/// Counters of a [`Hybrid`](super::Hybrid) since it was made, and sizes as they are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HybridStats {
    /// Whom it asks.
    pub state: State,
    /// Times that the primary was well and it opened. That it is not back yet, when probed, does not count.
    pub openings: u64,
    /// Calls that went to the primary to see whether it is back.
    pub probes: u64,
    /// Calls that the primary answered.
    pub by_primary: u64,
    /// Calls that the fallback answered.
    pub by_fallback: u64,
    /// Calls that neither answered.
    pub unanswered: u64,
    /// Errors of the primary.
    pub primary_errors: u64,
    /// Calls that the primary did not answer in time.
    pub primary_timeouts: u64,
    /// Errors of the fallback.
    pub fallback_errors: u64,
    /// Calls that the fallback did not answer in time.
    pub fallback_timeouts: u64,
    /// Keys of which the fallback admitted something that the primary was not charged yet.
    pub owed_keys: u64,
    /// Permits that the primary was charged of what the fallback had admitted.
    pub repaid: u64,
    /// Admissions by the fallback that the primary will not be charged: there was no room for their keys, or it failed again and
    /// again when it was to be charged. Many of them, and the primary starts with more than it should.
    pub not_repaid: u64,
    /// Admissions by the primary that a fallback with a server of its own was too slow to be told of.
    pub not_warmed: u64,
}

/// Counters; relaxed, as nothing depends on their order.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) openings: AtomicU64,
    pub(super) probes: AtomicU64,
    pub(super) by_primary: AtomicU64,
    pub(super) by_fallback: AtomicU64,
    pub(super) unanswered: AtomicU64,
    pub(super) primary_errors: AtomicU64,
    pub(super) primary_timeouts: AtomicU64,
    pub(super) fallback_errors: AtomicU64,
    pub(super) fallback_timeouts: AtomicU64,
    pub(super) repaid: AtomicU64,
    pub(super) not_repaid: AtomicU64,
    pub(super) not_warmed: AtomicU64,
    /// Admissions that found the fallback in debt.
    pub(super) in_debt: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self, state: State, owed_keys: usize) -> HybridStats {
        HybridStats {
            state,
            openings: self.openings.load(Relaxed),
            probes: self.probes.load(Relaxed),
            by_primary: self.by_primary.load(Relaxed),
            by_fallback: self.by_fallback.load(Relaxed),
            unanswered: self.unanswered.load(Relaxed),
            primary_errors: self.primary_errors.load(Relaxed),
            primary_timeouts: self.primary_timeouts.load(Relaxed),
            fallback_errors: self.fallback_errors.load(Relaxed),
            fallback_timeouts: self.fallback_timeouts.load(Relaxed),
            owed_keys: owed_keys as u64,
            repaid: self.repaid.load(Relaxed),
            not_repaid: self.not_repaid.load(Relaxed),
            not_warmed: self.not_warmed.load(Relaxed),
        }
    }
}

pub(super) fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Relaxed);
}
