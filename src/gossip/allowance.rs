//! How often something may happen that strangers can cause.

use std::time::Duration;

use crate::bucket::Timestamp;

/// A rate with a burst, as a theoretical arrival time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    each: Duration,
    burst: Duration,
    /// When all of the burst would be there again.
    full: Timestamp,
}

impl Allowance {
    /// `per_second`, and `burst` at once; neither is 0.
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        let each = Duration::from_secs(1) / per_second.max(1);
        Self { each, burst: each * burst, full: Timestamp::ZERO }
    }

    /// Whether it may happen now. If so, it did.
    pub(super) fn take(&mut self, now: Timestamp) -> bool {
        let full = self.full.max(now).saturating_add(self.each);
        let may = full.saturating_since(now) <= self.burst;
        if may {
            self.full = full;
        }
        may
    }

    /// Whether it says nothing that a new one does not say.
    pub(super) fn is_full(&self, now: Timestamp) -> bool {
        self.full <= now
    }
}
