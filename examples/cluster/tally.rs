//! What came of the requests, beside what one central bucket says of the same ones.

use std::time::Duration;

use peerlimit::{Limiter, Quota};

/// What came of some of the requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) offered: u64,
    pub(crate) admitted: u64,
    /// Passed by the central bucket.
    pub(crate) central: u64,
    /// Refused by the node, passed by the central bucket.
    pub(crate) refused_alone: u64,
    /// Most permits above `burst + rate * t` over any span of time, in bursts.
    pub(crate) above: f64,
}

impl Tally {
    /// Admitted by the cluster in units of what the central bucket passed.
    pub(crate) fn ratio(&self) -> f64 {
        self.admitted as f64 / self.central.max(1) as f64
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.admitted += other.admitted;
        self.central += other.central;
        self.refused_alone += other.refused_alone;
        self.above = self.above.max(other.above);
    }
}

/// Watches every request, right after the node has decided on it.
#[derive(Debug)]
pub(crate) struct Judge {
    central: Limiter,
    /// Permits per second.
    rate: f64,
    burst: f64,
    /// A leaky bucket without a rim: what was admitted and has not drained at the quota's rate. It stands above the
    /// burst by exactly what the worst span of time that ends now was above its envelope.
    level: f64,
    level_at: Duration,
    /// Since it was last taken.
    pub(crate) tally: Tally,
}

impl Judge {
    pub(crate) fn new(quota: Quota) -> Self {
        Self {
            central: Limiter::local(quota),
            rate: quota.count() as f64 / quota.period().as_secs_f64(),
            burst: quota.burst_size() as f64,
            level: 0.0,
            level_at: Duration::ZERO,
            tally: Tally::default(),
        }
    }

    /// A request for `key` came at `now`, and a node `admitted` it or not.
    pub(crate) fn arrival(&mut self, now: Duration, key: &str, admitted: bool) {
        let central = self.central.allow(key);
        self.tally.offered += 1;
        self.tally.central += u64::from(central);
        self.tally.refused_alone += u64::from(central && !admitted);
        if admitted {
            self.tally.admitted += 1;
            let drained = now.saturating_sub(self.level_at).as_secs_f64() * self.rate;
            self.level = (self.level - drained).max(0.0) + 1.0;
            self.level_at = now;
            self.tally.above = self.tally.above.max((self.level - self.burst) / self.burst);
        }
    }
}
