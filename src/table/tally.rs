//! How many requests a scope decided, and how. Counts with the feature `metrics`, and is nothing without.

use crate::bucket::Decision;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It may pass.
    Allowed,
    /// It may not pass.
    Refused,
    /// It may pass because its scope only watches.
    ShadowRefused,
    /// It may pass because its key is exempt.
    Exempt,
}

impl Outcome {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 4] = [Self::Allowed, Self::Refused, Self::ShadowRefused, Self::Exempt];

    /// What it is called in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Refused => "refused",
            Self::ShadowRefused => "shadow_refused",
            Self::Exempt => "exempt",
        }
    }
}

impl From<&Decision> for Outcome {
    #[inline]
    fn from(decision: &Decision) -> Self {
        match (decision.exempt, decision.shadowed, decision.allowed) {
            (true, ..) => Self::Exempt,
            (_, true, _) => Self::ShadowRefused,
            (.., true) => Self::Allowed,
            (.., false) => Self::Refused,
        }
    }
}

pub use striped::Tally;

#[cfg(feature = "metrics")]
mod striped {
    use std::{
        cell::Cell,
        sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    };

    use crossbeam_utils::CachePadded;

    use super::Outcome;

    /// Cache lines that threads share out among them, so that one does not wait for another to count.
    const STRIPES: usize = 8;

    /// The requests of one scope by outcome.
    #[derive(Debug, Default)]
    pub struct Tally {
        stripes: [CachePadded<[AtomicU64; Outcome::ALL.len()]>; STRIPES],
    }

    impl Tally {
        /// Counts one request.
        #[inline]
        pub fn count(&self, outcome: impl Into<Outcome>) {
            let stripe = &self.stripes[own_stripe()];
            // Relaxed: a count says nothing of anything else.
            stripe[outcome.into() as usize].fetch_add(1, Relaxed);
        }

        /// Requests so far, in the order of [`Outcome::ALL`].
        pub fn totals(&self) -> [u64; Outcome::ALL.len()] {
            let mut totals = [0; Outcome::ALL.len()];
            for stripe in &self.stripes {
                for (total, count) in totals.iter_mut().zip(stripe.iter()) {
                    *total += count.load(Relaxed);
                }
            }
            totals
        }
    }

    /// The stripe of this thread. Threads take them in turn.
    #[inline]
    fn own_stripe() -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
        }
        // Where a thread ends, its stripe may be gone before its last request.
        OWN.try_with(|own| {
            if own.get() == usize::MAX {
                own.set(NEXT.fetch_add(1, Relaxed) % STRIPES);
            }
            own.get()
        })
        .unwrap_or_default()
    }

    #[cfg(test)]
    mod tests {
        use std::{sync::Arc, thread};

        use super::*;

        #[test]
        fn no_request_is_lost_between_threads() {
            let tally = Arc::new(Tally::default());
            let count = |tally: Arc<Tally>| move || (0..10_000).for_each(|_| tally.count(Outcome::Refused));
            let threads: Vec<_> = (0..20).map(|_| thread::spawn(count(Arc::clone(&tally)))).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            tally.count(Outcome::Exempt);
            assert_eq!(tally.totals(), [0, 200_000, 0, 1]);
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod striped {
    use super::Outcome;

    /// Counts nothing.
    #[derive(Debug, Default)]
    pub struct Tally {}

    impl Tally {
        /// Counts nothing.
        #[inline(always)]
        pub fn count(&self, _: impl Into<Outcome>) {}
    }
}
