//! What is new in a cell, and how much of it a bucket still has to be charged for.

use std::time::Duration;

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
    /// Permits to charge by the additive law to a bucket that refills in `refill_time`.
    ///
    /// What was missed for longer than that is not charged. All of it may have come back since, and the count does
    /// not tell how much; the sender's level does, which the max law takes from the next record. Charging it would
    /// refuse requests after each healed partition that no central bucket refuses (P2, P4).
    pub fn charge(&self, refill_time: Duration) -> u64 {
        let missed = if self.gap <= refill_time { self.missed } else { 0 };
        self.recent.saturating_add(missed)
    }
}
