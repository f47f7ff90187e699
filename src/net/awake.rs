//! Time that goes on while the host sleeps.
#![allow(clippy::disallowed_methods, reason = "with `net::clock`, the place that the lint points to")]

use std::time::Duration;

/// A point in time on a clock that goes on while the host sleeps.
///
/// Bucket levels travel as what is missing *now*: a host that slept for an hour and does not know of it would believe its
/// buckets as empty as an hour ago, and its peers would believe it. `Instant` stands still meanwhile on Linux, so there
/// it is `CLOCK_BOOTTIME` that is read. Elsewhere it is `Instant`, whatever that does in a sleep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start(Reading);

#[cfg(target_os = "linux")]
type Reading = Duration;
#[cfg(not(target_os = "linux"))]
type Reading = std::time::Instant;

impl Start {
    pub(super) fn now() -> Self {
        Self(read())
    }

    /// The time since then, sleep included.
    pub(super) fn elapsed(self) -> Duration {
        #[cfg(target_os = "linux")]
        return read().saturating_sub(self.0);
        #[cfg(not(target_os = "linux"))]
        return self.0.elapsed();
    }
}

#[cfg(target_os = "linux")]
fn read() -> Reading {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // Neither is negative: this clock begins at 0.
    let (secs, nanos) = (u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0));
    Duration::new(secs, nanos)
}

#[cfg(not(target_os = "linux"))]
fn read() -> Reading {
    std::time::Instant::now()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn it_runs_as_fast_as_the_other_clock_while_nothing_sleeps() {
        let (before, start) = (Instant::now(), Start::now());
        while before.elapsed() < Duration::from_millis(20) {}
        let inside = start.elapsed();
        assert!(inside <= before.elapsed(), "{inside:?}");
        // What passes between two lines of this is not bounded, but a clock in other units would show.
        assert!(inside > Duration::from_millis(1), "{inside:?}");
    }
}
