//! The generic cell rate algorithm (ITU-T I.371, annex A), and the two laws by which news from peers moves a bucket.

use std::time::Duration;

use super::{Decision, Quota, Timestamp, time::TICKS_PER_NANO};

/// Theoretical arrival time: the instant at which a bucket would be full again, in sixteenths of a nanosecond.
///
/// `tokens = burst - max(0, TAT - now) / T`, with `T` the interval of one permit. A TAT at or before `now` is a full
/// bucket, whatever its quota, so a bucket whose TAT is long past says nothing that its absence does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tat(u64);

impl Tat {
    /// A bucket that was never touched.
    pub const FULL: Self = Self(0);

    /// From what [`Tat::raw`] gave.
    pub(crate) const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The form in which a table keeps it.
    pub(crate) const fn raw(self) -> u64 {
        self.0
    }

    /// Whether the bucket has been full at least since `since`.
    pub const fn is_full_since(self, since: Timestamp) -> bool {
        self.0 <= since.ticks()
    }

    /// Time until the bucket is full.
    pub const fn until_full(self, now: Timestamp) -> Duration {
        ticks_to_duration(self.0.saturating_sub(now.ticks()))
    }
}

/// Permits missing until a bucket is full, in 1/65,536 of a permit: the form in which a level crosses the wire.
///
/// It depends neither on any clock nor on the quota of whoever reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missing(u64);

impl Missing {
    const FRACTION_BITS: u32 = 16;

    /// From its wire form.
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// Its wire form: 1/65,536 of a permit.
    pub const fn raw(self) -> u64 {
        self.0
    }
}

/// A quota in the units of the hot path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra {
    /// `T`: the time of one permit, in ticks. Never 0.
    interval: u64,
    /// What one admitted permit costs, in ticks: `T`, or more where only a share of the rate may be used.
    price: u64,
    /// `burst * T`: how far a TAT may run ahead of now by admissions.
    tolerance: u64,
    /// `(burst + max_debt) * T`: how far a TAT may run ahead of now by any means (P4, P6).
    floor: u64,
    /// Most permits of one admission, and of a full bucket: 0 where the quota refuses everything.
    burst: u64,
}

impl Gcra {
    /// The arithmetic of `quota`. Debt is bounded by one more burst.
    pub const fn new(quota: &Quota) -> Self {
        let interval = quota.interval_ticks();
        // Fits: a refill takes at most ten years, 5.1e18 ticks.
        let tolerance = quota.burst_size() * interval;
        let burst = if quota.refuses_all() { 0 } else { quota.burst_size() };
        Self::from_parts(interval, interval, tolerance, burst)
    }

    /// From what [`Gcra::parts`] gave.
    pub(crate) const fn from_parts(interval: u64, price: u64, tolerance: u64, burst: u64) -> Self {
        // As above, twice as much fits too.
        Self { interval, price, tolerance, floor: tolerance * 2, burst }
    }

    /// The form in which a scope keeps it: interval, price, tolerance, burst.
    pub(crate) const fn parts(&self) -> [u64; 4] {
        [self.interval, self.price, self.tolerance, self.burst]
    }

    /// `T` in ticks.
    pub(crate) const fn interval(&self) -> u64 {
        self.interval
    }

    /// The same bucket, of whose rate and burst only `seen / all` may be used here: each permit costs `all / seen` of
    /// one. Levels keep their meaning, so a share may change at any time. `seen` is from 1 to `all`.
    #[must_use]
    pub fn with_share(self, seen: u32, all: u32) -> Self {
        Self { price: self.price_of(seen, all), ..self }
    }

    /// What a permit costs where only `seen / all` of the quota may be used, in ticks.
    fn price_of(&self, seen: u32, all: u32) -> u64 {
        let price = u128::from(self.interval) * u128::from(all.max(seen)) / u128::from(seen.max(1));
        u64::try_from(price).unwrap_or(u64::MAX).clamp(self.interval, self.tolerance)
    }

    /// What `cost` permits cost, in ticks: never more than a full bucket holds, so that what the quota allows is
    /// possible at any share.
    #[inline]
    const fn ticks_of(&self, cost: u64) -> u64 {
        let ticks = cost.saturating_mul(self.price);
        if ticks > self.tolerance { self.tolerance } else { ticks }
    }

    /// What news of `permits` costs. At a share of the quota no more than a full bucket, as it did where they were admitted.
    const fn news_ticks(&self, permits: u64) -> u64 {
        if self.price == self.interval { permits.saturating_mul(self.interval) } else { self.ticks_of(permits) }
    }

    /// Time from empty to full.
    pub const fn refill_time(&self) -> Duration {
        ticks_to_duration(self.tolerance)
    }

    /// The TAT after admitting `cost` permits now, or `None` where they do not fit.
    ///
    /// At `cost` 0 it says whether the bucket is out of debt.
    #[inline]
    pub const fn admit(&self, tat: Tat, now: Timestamp, cost: u64) -> Option<Tat> {
        if cost > self.burst {
            return None;
        }
        let now = now.ticks();
        let after = max(tat.0, now).saturating_add(self.ticks_of(cost));
        if after - now <= self.tolerance { Some(Tat(after)) } else { None }
    }

    /// Ticks that may still be admitted: `remaining * T`, the part of the next permit included.
    #[inline]
    pub(crate) const fn slack(&self, tat: Tat, now: Timestamp) -> u64 {
        self.tolerance.saturating_sub(tat.0.saturating_sub(now.ticks()))
    }

    /// Whole permits that may still be admitted.
    #[inline]
    const fn remaining(&self, tat: Tat, now: Timestamp) -> u64 {
        let permits = self.slack(tat, now) / self.price;
        if permits < self.burst { permits } else { self.burst }
    }

    /// What to answer of an admission that left `tat`.
    #[inline]
    pub const fn allowed(&self, tat: Tat, now: Timestamp) -> Decision {
        Decision::allow(self.burst, self.remaining(tat, now), tat.until_full(now))
    }

    /// What to answer of a request for `cost` permits that `tat` does not admit.
    pub const fn refused(&self, tat: Tat, now: Timestamp, cost: u64) -> Decision {
        let retry_after = if cost > self.burst {
            None
        } else {
            let ahead = tat.0.saturating_sub(now.ticks());
            let wait = ahead.saturating_add(self.ticks_of(cost)).saturating_sub(self.tolerance);
            Some(ticks_to_duration(wait))
        };
        Decision::refuse(self.burst, self.remaining(tat, now), tat.until_full(now), retry_after)
    }

    /// Additive law: `permits` are news, on top of what this bucket knows.
    ///
    /// `TAT = max(TAT, now) + permits * T`, `T` being the price where a share is used, but never beyond the debt
    /// floor. Never earlier than before.
    #[must_use]
    pub const fn charge(&self, tat: Tat, now: Timestamp, permits: u64) -> Tat {
        if permits == 0 {
            return tat;
        }
        let charged = max(tat.0, now.ticks()).saturating_add(self.news_ticks(permits));
        self.above_floor(tat, now, charged)
    }

    /// The bucket as it is, for a request that wants nothing of it.
    pub const fn state(&self, tat: Tat, now: Timestamp) -> Decision {
        match self.admit(tat, now, 0) {
            Some(_) => self.allowed(tat, now),
            None => self.refused(tat, now, 0),
        }
    }

    /// The TAT of a bucket that was measured by permits of `interval` ticks: as many permits are missing as before, but none
    /// beyond the debt floor.
    #[must_use]
    pub(crate) const fn measure_anew(&self, tat: Tat, now: Timestamp, interval: u64) -> Tat {
        let missing = tat.0.saturating_sub(now.ticks());
        if missing == 0 {
            return tat;
        }
        let missing = missing as u128 * self.interval as u128 / interval as u128;
        let bounded = if missing > self.floor as u128 { self.floor } else { missing as u64 };
        Tat(now.ticks().saturating_add(bounded))
    }

    /// `permits` were consumed for nothing. Returns the TAT without them, never before now, and how many of them that was:
    /// what is missing, rounded up, at most.
    pub const fn refund(&self, tat: Tat, now: Timestamp, permits: u64) -> (Tat, u64) {
        let missing = tat.0.saturating_sub(now.ticks());
        let most = missing.div_ceil(self.price);
        let given = if permits < most { permits } else { most };
        let back = given.saturating_mul(self.price);
        // Not before now, so that nothing is left over for later; and a bucket that is full already stays as it is.
        (Tat(tat.0 - if back < missing { back } else { missing }), given)
    }

    /// Max law: another node saw `missing` permits missing; the later of two TATs is the better estimate.
    ///
    /// `TAT = max(TAT, now + missing * T)`, but never beyond the debt floor. Never earlier than before.
    #[must_use]
    pub const fn raise(&self, tat: Tat, now: Timestamp, missing: Missing) -> Tat {
        let ticks = (missing.0 as u128 * self.interval as u128) >> Missing::FRACTION_BITS;
        let ticks = if ticks > self.floor as u128 { self.floor } else { ticks as u64 };
        if ticks == 0 {
            return tat;
        }
        self.above_floor(tat, now, now.ticks().saturating_add(ticks))
    }

    /// What is missing until the bucket is full, rounded down: a level that is passed on never over-charges.
    pub const fn missing(&self, tat: Tat, now: Timestamp) -> Missing {
        self.missing_besides(tat, now, 0)
    }

    /// What is missing besides `permits` that were admitted at the present price.
    pub(crate) const fn missing_besides(&self, tat: Tat, now: Timestamp, permits: u64) -> Missing {
        let ahead = tat.0.saturating_sub(now.ticks()).saturating_sub(permits.saturating_mul(self.price));
        let raw = ((ahead as u128) << Missing::FRACTION_BITS) / self.interval as u128;
        Missing(if raw > u64::MAX as u128 { u64::MAX } else { raw as u64 })
    }

    /// By how much the bucket is below empty, in thousandths of a permit.
    pub(crate) const fn debt(&self, tat: Tat, now: Timestamp) -> u64 {
        let below = tat.0.saturating_sub(now.ticks()).saturating_sub(self.tolerance);
        let debt = below as u128 * 1_000 / self.interval as u128;
        if debt > u64::MAX as u128 { u64::MAX } else { debt as u64 }
    }

    const fn above_floor(&self, tat: Tat, now: Timestamp, wanted: u64) -> Tat {
        let latest = now.ticks().saturating_add(self.floor);
        let bounded = if wanted > latest { latest } else { wanted };
        Tat(max(tat.0, bounded))
    }
}

const fn max(a: u64, b: u64) -> u64 {
    if a > b { a } else { b }
}

/// Rounded up: whoever waits that long is not early.
const fn ticks_to_duration(ticks: u64) -> Duration {
    Duration::from_nanos(ticks.div_ceil(TICKS_PER_NANO))
}
