//! The figures of a scope, which change while decisions read them.

use std::sync::atomic::{
    AtomicU16, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

use crate::bucket::Gcra;

use super::Measure;

/// A scope's arithmetic, and what goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) gcra: Gcra,
    /// See [`Rule::push_weight`](super::Rule::push_weight).
    pub(super) push_weight: u64,
    /// Which scope this is of, and by which of its quotas.
    pub(super) measure: Measure,
}

/// Terms that one writer at a time changes and that any number of readers see whole.
///
/// There are two places. The one that readers are sent to is never written: a writer fills the other one, then sends them
/// there. So no reader waits for a writer that was interrupted; one that two changes overtook reads again.
#[derive(Debug)]
pub(super) struct SharedTerms {
    /// Its lowest bit says which place.
    version: AtomicU64,
    places: [Place; 2],
}

#[derive(Debug, Default)]
struct Place {
    interval: AtomicU64,
    price: AtomicU64,
    tolerance: AtomicU64,
    burst: AtomicU64,
    push_weight: AtomicU64,
    measure: AtomicU16,
}

impl SharedTerms {
    pub(super) fn new(terms: Terms) -> Self {
        let shared = Self { version: AtomicU64::new(0), places: Default::default() };
        shared.places[0].write(&terms);
        shared
    }

    /// The terms as they are.
    #[inline(always)]
    pub(super) fn read(&self) -> Terms {
        loop {
            // Acquire pairs with the Release in `write`: the place was filled before readers were sent there.
            let version = self.version.load(Acquire);
            let terms = self.places[(version & 1) as usize].read();
            // Pairs with the fence in `write`: whoever has read a word of a later change sees a later version here.
            fence(Acquire);
            if self.version.load(Relaxed) == version {
                return terms;
            }
        }
    }

    /// Puts other terms in their place. The caller lets nobody else write meanwhile.
    pub(super) fn write(&self, terms: &Terms) {
        let next = self.version.load(Relaxed).wrapping_add(1);
        fence(Release);
        self.places[(next & 1) as usize].write(terms);
        self.version.store(next, Release);
    }
}

impl Place {
    #[inline(always)]
    fn read(&self) -> Terms {
        let Self { interval, price, tolerance, burst, push_weight, measure } = self;
        Terms {
            gcra: Gcra::from_parts(
                interval.load(Relaxed),
                price.load(Relaxed),
                tolerance.load(Relaxed),
                burst.load(Relaxed),
            ),
            push_weight: push_weight.load(Relaxed),
            measure: Measure::from_raw(measure.load(Relaxed)),
        }
    }

    fn write(&self, terms: &Terms) {
        let [interval, price, tolerance, burst] = terms.gcra.parts();
        self.interval.store(interval, Relaxed);
        self.price.store(price, Relaxed);
        self.tolerance.store(tolerance, Relaxed);
        self.burst.store(burst, Relaxed);
        self.push_weight.store(terms.push_weight, Relaxed);
        self.measure.store(terms.measure.raw(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::bucket::Quota;

    #[test]
    fn readers_see_terms_whole_while_they_change() {
        let terms = |change: u64| Terms {
            gcra: Gcra::new(&Quota::per_second(1 + change % 1000)),
            push_weight: change,
            measure: Measure::from_raw((change % 8_192) as u16),
        };
        let shared = SharedTerms::new(terms(0));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    while last < 200_000 {
                        let read = shared.read();
                        assert_eq!(read, terms(read.push_weight));
                        assert!(read.push_weight >= last, "terms went back");
                        last = read.push_weight;
                    }
                });
            }
            for change in 1..=200_000 {
                shared.write(&terms(change));
            }
        });
    }
}
