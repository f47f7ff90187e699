//! What is new in a cell, and how much of it a bucket still has to be charged for.

use std::time::Duration;

use crate::bucket::Gcra;

/// Permits that a cell gained since its baseline, by how long ago they may have been admitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Admitted just now: the part that the delta itself reports.
    pub recent: u64,
    /// Admitted at some time during `gap`: the part that earlier deltas reported and that never arrived.
    pub missed: u64,
    /// How long nothing was heard of it.
    pub gap: Duration,
}

impl News {
    /// Permits to charge by the additive law. What was consumed earlier than one refill time ago has been refilled since, so a
    /// gap longer than that charges its share only (P4).
    pub fn charge(&self, gcra: &Gcra) -> u64 {
        self.recent.saturating_add(gcra.still_missing(self.missed, self.gap))
    }
}
