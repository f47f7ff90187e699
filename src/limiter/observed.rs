//! How long decisions take: one of many is measured, with the feature `metrics`, and none without.

pub(super) use sampled::{Observed, Watch};

#[cfg(feature = "metrics")]
mod sampled {
    use std::{
        cell::Cell,
        sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
        time::Duration,
    };

    use crate::{bucket::Timestamp, limiter::metrics::Reported, net::Clock};

    /// What is kept of one limiter until it is reported.
    #[derive(Debug, Default)]
    pub(in crate::limiter) struct Observed {
        pub(in crate::limiter) samples: Samples,
        pub(in crate::limiter) reported: Reported,
    }

    /// One decision of so many is measured, on each thread.
    const ONE_OF: u32 = 1024;

    /// Times that wait to be reported. What finds no room is lost, so whoever decides never waits for who reports.
    #[derive(Debug)]
    pub(in crate::limiter) struct Samples {
        /// Nanoseconds; 0 is an empty place.
        places: [AtomicU64; 256],
        next: AtomicUsize,
    }

    impl Default for Samples {
        fn default() -> Self {
            Self { places: [const { AtomicU64::new(0) }; 256], next: AtomicUsize::new(0) }
        }
    }

    impl Samples {
        fn put(&self, taken: Duration) {
            let nanos = u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX).max(1);
            let at = self.next.fetch_add(1, Relaxed) % self.places.len();
            // Relaxed: a time says nothing of anything else.
            self.places[at].store(nanos, Relaxed);
        }

        /// Takes all times that are there.
        pub(in crate::limiter) fn drain(&self) -> impl Iterator<Item = Duration> + '_ {
            let taken = self.places.iter().map(|place| place.swap(0, Relaxed));
            taken.filter(|nanos| *nanos != 0).map(Duration::from_nanos)
        }
    }

    /// Measures a decision, if it is its turn.
    pub(in crate::limiter) struct Watch(Option<Timestamp>);

    impl Watch {
        #[inline]
        pub(in crate::limiter) fn start(clock: &Clock) -> Self {
            thread_local! {
                static UNTIL_NEXT: Cell<u32> = const { Cell::new(ONE_OF) };
            }
            let is_due = |until: &Cell<u32>| {
                until.set(until.get() - 1);
                if until.get() != 0 {
                    return false;
                }
                until.set(ONE_OF);
                true
            };
            // Where a thread ends, the counter may be gone before its last decision.
            let due = UNTIL_NEXT.try_with(is_due).unwrap_or(false);
            Self(due.then(|| clock.now()))
        }

        #[inline]
        pub(in crate::limiter) fn stop(self, clock: &Clock, observed: &Observed) {
            if let Some(began) = self.0 {
                observed.samples.put(clock.now().saturating_since(began));
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn what_is_not_reported_in_time_gives_way() {
            let samples = Samples::default();
            (0..300).for_each(|time| samples.put(Duration::from_nanos(time)));
            assert_eq!(samples.drain().count(), 256);
            assert_eq!(samples.drain().count(), 0);
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod sampled {
    use crate::net::Clock;

    /// Nothing.
    #[derive(Debug, Default)]
    pub(in crate::limiter) struct Observed {}

    /// Measures nothing.
    pub(in crate::limiter) struct Watch;

    impl Watch {
        #[inline(always)]
        pub(in crate::limiter) fn start(_: &Clock) -> Self {
            Self
        }

        #[inline(always)]
        pub(in crate::limiter) fn stop(self, _: &Clock, _: &Observed) {}
    }
}
