//! How old news is when it is merged.

use std::time::Duration;

use crate::bucket::Timestamp;

/// The greatest age of news, of one peer and of late.
///
/// Two periods are kept, so that what is read covers the last one at least and the last two at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lag {
    began: Timestamp,
    present: Duration,
    last: Duration,
}

impl Lag {
    /// Longer than metrics are usually collected apart, so that none is missed.
    const PERIOD: Duration = Duration::from_secs(30);

    /// News of that age was merged.
    pub(super) fn note(&mut self, age: Duration, now: Timestamp) {
        *self = self.at(now);
        self.present = self.present.max(age);
    }

    /// The greatest age of late; zero without news.
    pub(super) fn greatest(&self, now: Timestamp) -> Duration {
        let Self { present, last, .. } = self.at(now);
        present.max(last)
    }

    fn at(self, now: Timestamp) -> Self {
        let passed = now.saturating_since(self.began);
        if passed < Self::PERIOD {
            return self;
        }
        let last = if passed < Self::PERIOD * 2 { self.present } else { Duration::ZERO };
        Self { began: now, present: Duration::ZERO, last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_greatest_age_is_kept_for_a_period_and_forgotten_after_two() {
        let mut lag = Lag::default();
        assert_eq!(lag.greatest(Timestamp::from_millis(5)), Duration::ZERO);
        lag.note(MS(200), Timestamp::from_millis(1_000));
        lag.note(MS(50), Timestamp::from_millis(2_000));
        assert_eq!(lag.greatest(Timestamp::from_millis(29_000)), MS(200));
        lag.note(MS(10), Timestamp::from_millis(31_000));
        assert_eq!(lag.greatest(Timestamp::from_millis(60_000)), MS(200));
        assert_eq!(lag.greatest(Timestamp::from_millis(61_000)), MS(10));
        assert_eq!(lag.greatest(Timestamp::from_millis(100_000)), Duration::ZERO);
    }
}
