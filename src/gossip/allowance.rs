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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut allowance = Allowance::new(10, 4);
        let at = Timestamp::from_millis;
        let passed = |allowance: &mut Allowance, now| (0..100).filter(|_| allowance.take(now)).count();
        assert!(allowance.is_full(at(1_000)));
        assert_eq!(passed(&mut allowance, at(1_000)), 4);
        assert_eq!(passed(&mut allowance, at(1_099)), 0);
        assert_eq!(passed(&mut allowance, at(1_100)), 1);
        assert_eq!(passed(&mut allowance, at(1_350)), 2);
        assert!(!allowance.is_full(at(1_699)));
        assert!(allowance.is_full(at(1_700)));
        // A clock that goes back gives nothing away and takes nothing for good.
        assert_eq!(passed(&mut allowance, at(9_000)), 4);
        assert_eq!(passed(&mut allowance, at(2_000)), 0);
        assert_eq!(passed(&mut allowance, at(10_000)), 4);
    }
}
