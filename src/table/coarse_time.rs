//! Points in time that fit into one byte.

use std::time::Duration;

use crate::bucket::Timestamp;

/// A point in time in one byte: units of four milliseconds, modulo one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CoarseTime(u8);

impl CoarseTime {
    const UNIT: Duration = Duration::from_millis(4);
    /// Ages from here on are taken for a point in the future.
    const FUTURE: u8 = 192;

    /// Rounded up, so that no age is too great.
    pub(super) fn of(time: Timestamp) -> Self {
        Self(time.as_nanos().div_ceil(Self::UNIT.as_nanos() as u64) as u8)
    }

    pub(super) const fn from_raw(raw: u8) -> Self {
        Self(raw)
    }

    pub(super) const fn raw(self) -> u8 {
        self.0
    }

    pub(super) fn age(self, now: Timestamp) -> Duration {
        let now = (now.as_nanos() / Self::UNIT.as_nanos() as u64) as u8;
        // Whoever asks may have read the clock a little earlier: what looks like most of a second is no age.
        let units = now.wrapping_sub(self.0);
        if units >= Self::FUTURE { Duration::ZERO } else { Self::UNIT * u32::from(units) }
    }
}
