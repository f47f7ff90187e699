//! The one clock.
#![allow(clippy::disallowed_methods, reason = "this is the place that the lint points to")]

use std::{
    fmt,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crossbeam_utils::CachePadded;
use tokio::sync::Notify;

use crate::bucket::Timestamp;

use super::awake::Start;

/// Where a limiter's time comes from.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System(Arc<System>),
    Manual(ManualClock),
}

/// The operating system's monotonic clock that counts the time in which the host sleeps, read through the processor's
/// counter.
///
/// To ask the operating system takes two to three times as long as reading the counter. But counters differ from what they
/// are taken for: a little all the time, and much when a virtual machine moves. So the counter only carries the time on from
/// when the operating system was last asked, a millisecond ago at most. Where there is no such counter, quanta asks the
/// operating system each time.
struct System {
    counter: quanta::Clock,
    /// The counter at the start.
    counter_start: u64,
    start: Start,
    /// What the counter is behind the operating system, modulo 2^64. On a line of their own, as all threads read them.
    shared: CachePadded<Shared>,
}

#[derive(Default)]
struct Shared {
    behind: AtomicU64,
    /// The latest time that any thread has read, as far as it was worth writing down.
    latest: AtomicU64,
}

impl Clock {
    /// Steps in which `latest` moves. Small against every quota, large against the cost of sharing a cache line.
    const LATEST_STEP: u64 = 1_000_000;

    /// The operating system's monotonic clock, starting now. The first call in a process may take 200 ms, to find out how fast
    /// the processor's counter runs.
    pub fn system() -> Self {
        let counter = quanta::Clock::new();
        let counter_start = counter.raw();
        let system = System { counter, counter_start, start: Start::now(), shared: CachePadded::default() };
        Self(Source::System(Arc::new(system)))
    }

    /// Sleeps until then.
    ///
    /// # Panics
    ///
    /// On the system's clock, outside of a tokio runtime that has a timer.
    pub(crate) async fn sleep_until(&self, until: Timestamp) {
        match &self.0 {
            // Another clock than the runtime's: it may be a little behind.
            Source::System(_) => loop {
                let left = until.saturating_since(self.now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left).await;
            },
            Source::Manual(manual) => manual.reaches(until).await,
        }
    }

    /// What comes of `work` if it is done before `deadline`.
    pub(crate) async fn before<T>(&self, deadline: Timestamp, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            // What is done is done.
            biased;
            done = work => Some(done),
            () = self.sleep_until(deadline) => None,
        }
    }

    /// The time now. It never goes back by more than a millisecond, whatever the operating system's clock does.
    #[inline]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System(system) => Timestamp::from_nanos(system.now()),
            Source::Manual(manual) => manual.now(),
        }
    }
}

impl System {
    /// Longest time between two readings of the counter that count as one.
    const AT_ONCE: u64 = 5_000;

    #[inline]
    fn now(&self) -> u64 {
        // Relaxed: only the values matter, and stale ones are at most one step off.
        let read = self.counted().wrapping_add(self.shared.behind.load(Relaxed));
        let latest = self.shared.latest.load(Relaxed);
        if read.wrapping_sub(latest) < Clock::LATEST_STEP { read } else { self.ask() }
    }

    #[inline]
    fn counted(&self) -> u64 {
        self.counter.delta_as_nanos(self.counter_start, self.counter.raw())
    }

    /// Asks the operating system, and notes what the counter is behind it.
    #[cold]
    fn ask(&self) -> u64 {
        let mut now = 0;
        // Another thread may get the processor in between; what was read before and after does not belong together then.
        for _ in 0..3 {
            let before = self.counted();
            now = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            if self.counted().wrapping_sub(before) <= Self::AT_ONCE {
                self.shared.behind.store(now.wrapping_sub(before), Relaxed);
                break;
            }
        }
        never_back(&self.shared.latest, now)
    }
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System").field("now", &Duration::from_nanos(self.now())).finish_non_exhaustive()
    }
}

/// Some clocks go back, between cores or for good. A bucket would then look fuller of debt than it is, and refuse; so
/// all threads follow the one that is ahead.
#[inline]
fn never_back(latest: &AtomicU64, read: u64) -> u64 {
    // Relaxed: only the value matters, and a stale one is at most one step off.
    let seen = latest.load(Relaxed);
    if read.saturating_sub(seen) >= Clock::LATEST_STEP {
        latest.fetch_max(read, Relaxed);
    }
    read.max(seen)
}

impl From<ManualClock> for Clock {
    fn from(clock: ManualClock) -> Self {
        Self(Source::Manual(clock))
    }
}

/// A clock that stands still until it is told to move, for tests of your own limits. Clones are one clock. Whoever
/// [waits](crate::Limiter::until_ready) goes on when it is moved.
///
/// ```
/// use peerlimit::{Limiter, ManualClock, Quota};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let limiter = Limiter::local_with_clock(Quota::per_second(1), clock.clone());
/// assert!(limiter.allow("user"));
/// assert!(!limiter.allow("user"));
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.allow("user"));
/// ```
#[derive(Clone, Default)]
pub struct ManualClock(Arc<Hand>);

#[derive(Default)]
struct Hand {
    nanos: AtomicU64,
    moved: Notify,
}

impl ManualClock {
    /// A clock at 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves it on by `by`, at most up to 584 years after 0.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        // Relaxed: whoever needs an order between this and a decision has it by other means.
        let moved = self.0.nanos.fetch_update(Relaxed, Relaxed, |now| Some(now.saturating_add(by)));
        debug_assert!(moved.is_ok(), "the update always has a value");
        self.0.moved.notify_waiters();
    }

    async fn reaches(&self, until: Timestamp) {
        loop {
            // Listens before it looks: a move in between is heard of.
            let mut moved = pin!(self.0.moved.notified());
            moved.as_mut().enable();
            if self.now() >= until {
                return;
            }
            moved.await;
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.nanos.load(Relaxed))
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&Duration::from_nanos(self.now().as_nanos())).finish()
    }
}

/// Milliseconds of the wall clock since 1970; 0 before.
pub(crate) fn wall_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_goes_back_stands_still_instead() {
        let latest = AtomicU64::new(0);
        let at = |secs: f64| (secs * 1e9) as u64;
        assert_eq!(never_back(&latest, at(10.0)), at(10.0));
        assert_eq!(never_back(&latest, at(8.4)), at(10.0));
        assert_eq!(never_back(&latest, at(10.1)), at(10.1));
        // Within a step it may go back.
        assert_eq!(never_back(&latest, at(10.1) + 999_999), at(10.1) + 999_999);
        assert_eq!(never_back(&latest, at(10.1) + 1), at(10.1) + 1);
    }
}
