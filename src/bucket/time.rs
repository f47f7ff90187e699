//! Time as an argument.

use std::time::Duration;

/// Fractions of a nanosecond in which a [`Tat`](super::Tat) counts.
///
/// Whole nanoseconds are too coarse: one permit of 700,000 per second lasts 1,428.57 ns. Sixteenths keep every rate
/// up to [`Quota::MAX_RATE_PER_SECOND`](super::Quota::MAX_RATE_PER_SECOND) within 0.0032 %, and leave 36 years in a
/// `u64`.
pub(super) const TICKS_PER_NANO: u64 = 16;

/// A point on one process's monotonic clock, in nanoseconds since that clock started.
///
/// It never leaves the process. All arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The start of the clock.
    pub const ZERO: Self = Self(0);
    /// The last point that can be expressed, 584 years after the start.
    pub const MAX: Self = Self(u64::MAX);

    /// The point `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The point `millis` milliseconds after the start, or [`Timestamp::MAX`].
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero where `earlier` is in fact later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The point `by` later, or [`Timestamp::MAX`].
    pub fn saturating_add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(by)))
    }

    /// The point `by` earlier, or [`Timestamp::ZERO`].
    pub fn saturating_sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(saturating_nanos(by)))
    }

    pub(super) const fn ticks(self) -> u64 {
        self.0.saturating_mul(TICKS_PER_NANO)
    }
}

/// Whole nanoseconds of `duration`, at most `u64::MAX`.
pub(super) fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
