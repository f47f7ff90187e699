//! An exact sliding window.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use crate::{
    backend::{Policy, RateLimiter, Refill},
    bucket::{Decision, Quota},
};

use super::{
    Deciding, Redis, RedisError,
    limiter::Scripted,
    script::{Op, Script},
};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("sliding_log.lua")));

/// A sliding window log: at most [`burst_size`](Quota::burst_size) permits in any stretch of
/// [`refill_time`](Quota::refill_time), exactly, whoever of all clients asks.
///
/// `Quota::per_minute(60)` is 60 permits in any minute, and `Quota::per_second(100).burst(50)` 50 in any half of a second. It
/// keeps one entry for each request that passed within the window, some 20 bytes; where that is too much,
/// [`TokenBucket`](super::TokenBucket) keeps one number. Time is the server's, in microseconds.
///
/// A refusal's `retry_after` ends when the oldest permits in the way have left the window, and `reset_after` when all have. A
/// charge goes into debt by one more burst at most; a refund takes back what was consumed last. Made by
/// [`Redis::sliding_log`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SlidingLog(Arc<Scripted>);

impl SlidingLog {
    pub(super) fn new(redis: &Redis, name: &str, quota: Quota) -> Self {
        let terms = [quota.burst_size(), window(&quota)];
        Self(Arc::new(Scripted::new(redis, "log", name, quota, &SCRIPT, &terms)))
    }

    /// Forgets what was used of a key.
    ///
    /// # Errors
    ///
    /// As a decision has. Nothing was forgotten then, or the answer was lost.
    pub async fn reset(&self, key: impl AsRef<[u8]>) -> Result<(), RedisError> {
        self.0.reset(key.as_ref()).await
    }

    fn ask(&self, key: &[u8], op: Op, permits: u64) -> Deciding {
        let (limit, most) = (self.0.policy().quota.burst_size(), self.0.most());
        let impossible = matches!(op, Op::Decide | Op::Peek) && permits > most;
        // What consumes nothing need not write, and what goes into debt does so by one more burst.
        let (op, permits) = match op {
            _ if impossible => (Op::Peek, 0),
            Op::Decide if permits == 0 => (Op::Peek, 0),
            _ => (op, permits.min(limit.saturating_mul(2))),
        };
        let window = window(&self.0.policy().quota);
        self.0.ask(key, op, permits, move |numbers| {
            let (used, reset, wait) = match *numbers {
                [used] => (used, window, None),
                [used, reset] => (used, reset, None),
                [used, reset, wait] => (used, reset, Some(wait)),
                _ => return None,
            };
            let (remaining, reset_after) = (most.min(limit.saturating_sub(used)), Duration::from_micros(reset));
            Some(match wait {
                _ if impossible => Decision::refuse(most, remaining, reset_after, None),
                Some(wait) => Decision::refuse(most, remaining, reset_after, Some(Duration::from_micros(wait))),
                None => Decision::allow(most, remaining, reset_after),
            })
        })
    }
}

/// In microseconds, rounded up.
fn window(quota: &Quota) -> u64 {
    let micros = quota.refill_time().as_nanos().div_ceil(1_000);
    // At most ten years.
    u64::try_from(micros).unwrap_or(u64::MAX)
}

impl RateLimiter for SlidingLog {
    type Error = RedisError;
    type Deciding = Deciding;

    fn decide(&self, key: &[u8], cost: u64) -> Deciding {
        self.ask(key, Op::Decide, cost)
    }

    fn peek(&self, key: &[u8], cost: u64) -> Deciding {
        self.ask(key, Op::Peek, cost)
    }

    fn charge(&self, key: &[u8], permits: u64) -> Deciding {
        self.ask(key, Op::Charge, permits)
    }

    fn refund(&self, key: &[u8], permits: u64) -> Deciding {
        self.ask(key, Op::Refund, permits)
    }

    fn policy(&self) -> Policy {
        self.0.policy()
    }

    fn refill(&self) -> Refill {
        Refill::Window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_the_time_in_which_the_burst_comes_back() {
        assert_eq!(window(&Quota::per_minute(60)), 60_000_000);
        assert_eq!(window(&Quota::per_second(100).burst(50)), 500_000);
        assert_eq!(window(&Quota::per_second(1_000_000).burst(1)), 1);
        // 1 of 700,000 a second comes back within 1.4 us: never too early.
        assert_eq!(window(&Quota::per_second(700_000).burst(1)), 2);
        let longest = Quota::every(Quota::MAX_INTERVAL).burst(120);
        assert!(window(&longest) * 2 + 2_000_000_000_000_000 < 1 << 53);
    }
}
