//! How long to leave a server alone that fails.

use std::time::Duration;

/// Doubles from one failure to the next, up to a bound under a second, so that a server that is back is used again
/// within one.
///
/// Half of each wait is random, as a server that comes back would else be dialled by all of its clients at once.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_millis(500);

    /// It failed once more. Returns how long not to try again; `random` is any number.
    pub(super) fn failed(&mut self, random: u64) -> Duration {
        let longest = Self::FIRST.saturating_mul(1 << self.failures.min(16)).min(Self::LONGEST);
        self.failures = self.failures.saturating_add(1);
        let half = longest / 2;
        half + half.mul_f64(random as f64 / u64::MAX as f64)
    }

    /// It works.
    pub(super) fn worked(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_half_a_second_and_half_of_each_is_random() {
        let waits = |random| {
            let mut backoff = Backoff::default();
            [(); 7].map(|()| backoff.failed(random).as_millis())
        };
        assert_eq!(waits(u64::MAX), [20, 40, 80, 160, 320, 500, 500]);
        assert_eq!(waits(0), [10, 20, 40, 80, 160, 250, 250]);
    }

    #[test]
    fn a_server_that_fails_for_ever_is_still_tried_twice_a_second() {
        let mut backoff = Backoff { failures: u32::MAX };
        assert_eq!(backoff.failed(u64::MAX), Duration::from_millis(500));
        backoff.worked();
        assert_eq!(backoff.failed(u64::MAX), Duration::from_millis(20));
    }
}
