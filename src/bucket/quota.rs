//! The rule: how many permits, how fast, how many at once.

use std::time::Duration;

use super::time::TICKS_PER_NANO;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const DAY: u64 = 24 * 60 * 60;

/// A rate and a burst: `burst` permits at once, `count` per `period` sustained.
///
/// A `Quota` can only be built valid, so nothing fails on first use. Two kinds of constructor lead to one:
///
/// - [`per_second`](Self::per_second) and its kin for values written in the source. They are `const`: in a constant
///   or a `const { }` block, nonsense does not compile.
/// - [`Quota::new`] and [`Quota::with_burst`] for values known at run time. They return a [`QuotaError`].
///
/// | what | least | most |
/// |---|---|---|
/// | rate | 1 in 30 days | 1,000,000 per second |
/// | burst | 1 | 2^32 - 1, and no more than ten years of the rate |
///
/// Within this range a rate is kept within 0.0032 % of nominal.
///
/// ```
/// use peerlimit::Quota;
/// use std::time::Duration;
///
/// const LOGIN: Quota = Quota::per_minute(5);
/// let api = Quota::per_second(100).burst(50);
/// assert_eq!(api.refill_time(), Duration::from_millis(500));
///
/// let configured = Quota::new(700, Duration::from_secs(60))?;
/// assert_eq!(configured.burst_size(), 700);
/// assert!(Quota::new(0, Duration::from_secs(1)).is_err());
/// # assert_eq!(LOGIN.burst_size(), 5);
/// # Ok::<(), peerlimit::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    count: u64,
    period: Duration,
    burst: u64,
    refuses_all: bool,
}

impl Quota {
    /// The highest rate, in permits per second.
    pub const MAX_RATE_PER_SECOND: u64 = 1_000_000;
    /// The longest time that one permit may take to come back: 30 days.
    pub const MAX_INTERVAL: Duration = Duration::from_secs(30 * DAY);
    /// The largest burst.
    pub const MAX_BURST: u64 = u32::MAX as u64;
    /// The longest time that an empty bucket may take to refill: ten years of 365 days.
    pub const MAX_REFILL_TIME: Duration = Duration::from_secs(10 * 365 * DAY);

    /// `count` permits per `period`, with a burst of `count`.
    ///
    /// # Errors
    ///
    /// A [`QuotaError`] that names the field, its value and the bound, where rate or burst is outside the range above.
    pub const fn new(count: u64, period: Duration) -> Result<Self, QuotaError> {
        if count == 0 {
            return Err(QuotaError::ZeroCount);
        }
        if period.is_zero() {
            return Err(QuotaError::ZeroPeriod);
        }
        let nanos = period.as_nanos();
        // One permit's interval is compared by cross-multiplication, so that no rounding decides.
        let fastest = count as u128 * (NANOS_PER_SECOND / Self::MAX_RATE_PER_SECOND) as u128;
        if nanos < fastest {
            return Err(QuotaError::TooFast { count, period });
        }
        if nanos > count as u128 * Self::MAX_INTERVAL.as_nanos() {
            return Err(QuotaError::TooSlow { count, period });
        }
        Self { count, period, burst: 0, refuses_all: false }.with_burst(count)
    }

    /// The same rate with room for `burst` permits at once.
    ///
    /// # Errors
    ///
    /// A [`QuotaError`] that names the burst and its bound.
    pub const fn with_burst(self, burst: u64) -> Result<Self, QuotaError> {
        if burst == 0 {
            return Err(QuotaError::ZeroBurst);
        }
        if burst > Self::MAX_BURST {
            return Err(QuotaError::BurstTooLarge { burst });
        }
        let refill = burst as u128 * self.period.as_nanos();
        if refill > self.count as u128 * Self::MAX_REFILL_TIME.as_nanos() {
            return Err(QuotaError::RefillTooLong { burst, count: self.count, period: self.period });
        }
        Ok(Self { burst, ..self })
    }

    /// `count` permits per second, with a burst of `count`.
    ///
    /// # Panics
    ///
    /// Where [`Quota::new`] would return an error; in a constant that is a compile error. Use `new` for values that
    /// come from outside.
    pub const fn per_second(count: u64) -> Self {
        Self::known_good(Self::new(count, Duration::from_secs(1)))
    }

    /// `count` permits per minute, with a burst of `count`.
    ///
    /// # Panics
    ///
    /// As [`Quota::per_second`].
    pub const fn per_minute(count: u64) -> Self {
        Self::known_good(Self::new(count, Duration::from_secs(60)))
    }

    /// `count` permits per hour, with a burst of `count`.
    ///
    /// # Panics
    ///
    /// As [`Quota::per_second`].
    pub const fn per_hour(count: u64) -> Self {
        Self::known_good(Self::new(count, Duration::from_secs(60 * 60)))
    }

    /// `count` permits per day of 24 hours, with a burst of `count`.
    ///
    /// # Panics
    ///
    /// As [`Quota::per_second`].
    pub const fn per_day(count: u64) -> Self {
        Self::known_good(Self::new(count, Duration::from_secs(DAY)))
    }

    /// One permit every `interval`, with a burst of one.
    ///
    /// # Panics
    ///
    /// As [`Quota::per_second`].
    pub const fn every(interval: Duration) -> Self {
        Self::known_good(Self::new(1, interval))
    }

    /// The same rate with room for `burst` permits at once.
    ///
    /// # Panics
    ///
    /// Where [`Quota::with_burst`] would return an error; in a constant that is a compile error.
    pub const fn burst(self, burst: u64) -> Self {
        Self::known_good(self.with_burst(burst))
    }

    /// The same quota, but that every request is refused, and says that it is [impossible](crate::Decision::is_impossible).
    ///
    /// To block a scope for a while, set this and then the quota as it was: what is used goes on to be forgotten at its rate.
    ///
    /// ```
    /// use peerlimit::{Limiter, Quota};
    ///
    /// const NORMAL: Quota = Quota::per_hour(10);
    /// let limiter = Limiter::local(NORMAL);
    /// assert!(limiter.allow("user"));
    /// limiter.default_scope().set_quota(NORMAL.refuse_all());
    /// assert!(limiter.check("user").is_impossible());
    /// limiter.default_scope().set_quota(NORMAL);
    /// assert_eq!(limiter.check("user").remaining, 8);
    /// ```
    #[must_use]
    pub const fn refuse_all(self) -> Self {
        Self { refuses_all: true, ..self }
    }

    /// Whether it refuses everything.
    pub const fn refuses_all(&self) -> bool {
        self.refuses_all
    }

    /// Permits per [`period`](Self::period).
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The period in which [`count`](Self::count) permits come back.
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// Permits that a full bucket holds.
    pub const fn burst_size(&self) -> u64 {
        self.burst
    }

    /// How long an empty bucket takes to be full again: `burst / rate`, rounded down to nanoseconds.
    pub const fn refill_time(&self) -> Duration {
        let nanos = self.burst as u128 * self.period.as_nanos() / self.count as u128;
        // At most MAX_REFILL_TIME, 3.2e17 ns.
        Duration::from_nanos(nanos as u64)
    }

    /// The time of one permit in ticks, rounded to the nearest: at least 16,000, at most 4.2e16.
    pub(super) const fn interval_ticks(&self) -> u64 {
        let ticks = self.period.as_nanos() * TICKS_PER_NANO as u128;
        let count = self.count as u128;
        ((ticks + count / 2) / count) as u64
    }

    #[allow(clippy::panic, reason = "documented: a quota written in the source is nonsense")]
    const fn known_good(result: Result<Self, QuotaError>) -> Self {
        match result {
            Ok(quota) => quota,
            Err(error) => panic!("{}", error.summary()),
        }
    }
}

/// Why a quota cannot be. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaError {
    /// The count is zero: such a quota would refuse everything for ever.
    #[error("quota count is 0, must be at least 1")]
    ZeroCount,
    /// The period is zero.
    #[error("quota period is 0 s, must be longer")]
    ZeroPeriod,
    /// The burst is zero: such a quota would refuse everything for ever.
    #[error("quota burst is 0, must be at least 1")]
    ZeroBurst,
    /// More than [`Quota::MAX_RATE_PER_SECOND`].
    #[error("quota rate is {count} per {period:?}, must be at most {} per second", Quota::MAX_RATE_PER_SECOND)]
    TooFast {
        /// The count asked for.
        count: u64,
        /// The period asked for.
        period: Duration,
    },
    /// Less than one permit per [`Quota::MAX_INTERVAL`].
    #[error("quota rate is {count} per {period:?}, must be at least 1 per {:?}", Quota::MAX_INTERVAL)]
    TooSlow {
        /// The count asked for.
        count: u64,
        /// The period asked for.
        period: Duration,
    },
    /// More than [`Quota::MAX_BURST`].
    #[error("quota burst is {burst}, must be at most {}", Quota::MAX_BURST)]
    BurstTooLarge {
        /// The burst asked for.
        burst: u64,
    },
    /// The burst takes longer than [`Quota::MAX_REFILL_TIME`] to come back.
    #[error("quota burst is {burst} at {count} per {period:?}, must refill within {:?}", Quota::MAX_REFILL_TIME)]
    RefillTooLong {
        /// The burst asked for.
        burst: u64,
        /// The count of the rate.
        count: u64,
        /// The period of the rate.
        period: Duration,
    },
}

impl QuotaError {
    /// What can be said where nothing can be formatted.
    const fn summary(&self) -> &'static str {
        match self {
            Self::ZeroCount => "quota count is 0, must be at least 1",
            Self::ZeroPeriod => "quota period is 0 s, must be longer",
            Self::ZeroBurst => "quota burst is 0, must be at least 1",
            Self::TooFast { .. } => "quota rate is above 1,000,000 per second",
            Self::TooSlow { .. } => "quota rate is below 1 per 30 days",
            Self::BurstTooLarge { .. } => "quota burst is above 2^32 - 1",
            Self::RefillTooLong { .. } => "quota burst takes more than ten years to refill",
        }
    }
}
