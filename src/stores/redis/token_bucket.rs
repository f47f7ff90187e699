//! A token bucket.

use std::sync::{Arc, LazyLock};

use crate::{
    backend::{Policy, RateLimiter},
    bucket::{Decision, Gcra, Quota, Tat, Timestamp},
};

use super::{
    Deciding, Redis, RedisError,
    limiter::Scripted,
    script::{Op, Script},
};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("token_bucket.lua")));

/// At the highest rate a permit takes a microsecond.
const TICKS_PER_MICRO: u64 = Gcra::new(&Quota::per_second(Quota::MAX_RATE_PER_SECOND)).interval();

/// A token bucket: the quota as [`Limiter`](crate::Limiter) means it, by the same arithmetic, kept in one number a key.
///
/// The bucket is the generic cell rate algorithm (ITU-T I.371, annex A) over the server's time, in microseconds, and with
/// permits as exact as a local limiter has them. A charge goes into debt by one more burst at most. Where the quota of a name
/// changes, the time until a bucket is full stays. Made by [`Redis::token_bucket`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    scripted: Arc<Scripted>,
    gcra: Gcra,
}

impl TokenBucket {
    pub(super) fn new(redis: &Redis, name: &str, quota: Quota) -> Self {
        let gcra = Gcra::new(&quota);
        let (micros, ticks) = split(gcra.interval());
        let terms = [quota.burst_size(), micros, ticks];
        Self { scripted: Arc::new(Scripted::new(redis, "bucket", name, quota, &SCRIPT, &terms)), gcra }
    }

    /// Fills the bucket of a key.
    ///
    /// # Errors
    ///
    /// As a decision has. Nothing was changed then, or the answer was lost.
    pub async fn reset(&self, key: impl AsRef<[u8]>) -> Result<(), RedisError> {
        self.scripted.reset(key.as_ref()).await
    }

    /// Asks the script what becomes of so many permits, and reads its answer as of a bucket at time 0.
    fn ask(
        &self,
        key: &[u8],
        op: Op,
        permits: u64,
        decision: impl FnOnce(&Gcra, bool, Tat) -> Decision + Send + 'static,
    ) -> Deciding {
        let gcra = self.gcra;
        // No bucket is further from full than two bursts.
        let burst = self.scripted.policy().quota.burst_size();
        self.scripted.ask(key, op, permits.min(2 * burst), move |numbers| {
            let (code, ticks) = match *numbers {
                [code] => (code, 0),
                [code, ticks] => (code, ticks),
                _ => return None,
            };
            let ahead = (code / 2).saturating_mul(TICKS_PER_MICRO).saturating_add(ticks);
            Some(decision(&gcra, code % 2 == 1, Tat::from_raw(ahead)))
        })
    }

    fn look(&self, key: &[u8], cost: u64) -> Deciding {
        self.ask(key, Op::Peek, 0, move |gcra, _, tat| match gcra.admit(tat, NOW, cost) {
            Some(_) => gcra.allowed(tat, NOW),
            None => gcra.refused(tat, NOW, cost),
        })
    }
}

/// The script tells times from now on.
const NOW: Timestamp = Timestamp::ZERO;

/// Ticks as the script takes them: microseconds, and what is left.
const fn split(ticks: u64) -> (u64, u64) {
    (ticks / TICKS_PER_MICRO, ticks % TICKS_PER_MICRO)
}

impl RateLimiter for TokenBucket {
    type Error = RedisError;
    type Deciding = Deciding;

    fn decide(&self, key: &[u8], cost: u64) -> Deciding {
        // What consumes nothing need not write.
        if cost == 0 || cost > self.scripted.most() {
            return self.look(key, cost);
        }
        self.ask(
            key,
            Op::Decide,
            cost,
            move |gcra, passed, tat| {
                if passed { gcra.allowed(tat, NOW) } else { gcra.refused(tat, NOW, cost) }
            },
        )
    }

    fn peek(&self, key: &[u8], cost: u64) -> Deciding {
        self.look(key, cost)
    }

    fn charge(&self, key: &[u8], permits: u64) -> Deciding {
        if permits == 0 {
            return self.look(key, 0);
        }
        self.ask(key, Op::Charge, permits, |gcra, _, tat| gcra.state(tat, NOW))
    }

    fn refund(&self, key: &[u8], permits: u64) -> Deciding {
        if permits == 0 {
            return self.look(key, 0);
        }
        self.ask(key, Op::Refund, permits, |gcra, _, tat| gcra.state(tat, NOW))
    }

    fn policy(&self) -> Policy {
        self.scripted.policy()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_counts_in_the_same_ticks() {
        let line = format!("local TICKS = {TICKS_PER_MICRO}\n");
        assert!(include_str!("token_bucket.lua").contains(&line), "{line}");
    }

    #[test]
    fn the_largest_numbers_are_exact_in_a_double() {
        let longest = Quota::every(Quota::MAX_INTERVAL).burst(120);
        let gcra = Gcra::new(&longest);
        let ahead = 2 * longest.burst_size() * gcra.interval();
        // Until 2235: 8.36e15 us after 1970.
        assert!(split(ahead).0 + 8_362_000_000_000_000 < 1 << 53);
        assert!(split(ahead).1 < TICKS_PER_MICRO);
    }
}
