//! When to connect again.

use std::time::Duration;

use crate::bucket::Timestamp;

/// The pause after the first failure. It doubles with each further one.
const FIRST: Duration = Duration::from_millis(10);

/// Pauses that grow while nothing works, each between half of its length and all of it.
///
/// So a server that comes back is not met by all its clients at once. Connections by themselves do not end the growth,
/// answers do: a server that accepts connections but answers nothing of use is not asked for new ones without end.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    retry_at: Timestamp,
}

impl Backoff {
    /// The earliest time of the next attempt.
    pub(super) fn retry_at(&self) -> Timestamp {
        self.retry_at
    }

    /// A connection failed. `random` is any number.
    pub(super) fn failed(&mut self, now: Timestamp, longest: Duration, random: u64) {
        let pause = FIRST.saturating_mul(1 << self.failures.min(16)).min(longest);
        self.failures = self.failures.saturating_add(1);
        let half = pause / 2;
        let jitter = u64::try_from((pause - half).as_nanos()).map_or(0, |nanos| random % nanos.max(1));
        self.retry_at = now.saturating_add(half).saturating_add(Duration::from_nanos(jitter));
    }

    /// A connection was of use.
    pub(super) fn worked(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_double_up_to_the_longest_and_are_jittered() {
        let now = Timestamp::from_millis(5_000);
        let mut backoff = Backoff::default();
        assert!(backoff.retry_at() <= now);
        for failures in 0..40_u32 {
            let full = Duration::from_millis(10 << failures.min(10)).min(LONGEST);
            // As many failures twice, with the least and the greatest of numbers.
            let mut other = Backoff { failures, retry_at: Timestamp::ZERO };
            backoff.failed(now, LONGEST, 0);
            other.failed(now, LONGEST, u64::MAX - 1);
            for backoff in [&backoff, &other] {
                let pause = backoff.retry_at().saturating_since(now);
                assert!(pause >= full / 2 && pause < full, "{pause:?} after {failures} failures");
            }
            assert_ne!(backoff.retry_at(), other.retry_at());
        }
    }

    #[test]
    fn an_answer_ends_the_growth() {
        let mut backoff = Backoff::default();
        for _ in 0..10 {
            backoff.failed(Timestamp::ZERO, LONGEST, 1);
        }
        backoff.worked();
        assert_eq!(backoff.retry_at(), Timestamp::ZERO);
        backoff.failed(Timestamp::ZERO, LONGEST, 1);
        assert!(backoff.retry_at() < Timestamp::from_millis(10));
    }
}
