//! Percentiles of many durations.

use std::time::Duration;

/// Counts durations in places of growing width: 64 for each power of two, so a percentile is off by 1.6 % at most.
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    worst: u64,
}

impl Histogram {
    const BITS: u32 = 6;
    /// Up to 2^40 ns, eighteen minutes.
    const PLACES: usize = (40 - Self::BITS as usize) << Self::BITS;

    pub fn new() -> Self {
        Self { counts: vec![0; Self::PLACES], total: 0, worst: 0 }
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn add(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.counts[Self::place(nanos).min(Self::PLACES - 1)] += 1;
        self.total += 1;
        self.worst = self.worst.max(nanos);
    }

    /// The nanoseconds that `share` of all durations do not exceed.
    pub fn percentile(&self, share: f64) -> f64 {
        let rank = (self.total as f64 * share).ceil() as u64;
        let mut below = 0;
        for (place, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank.max(1) {
                return Self::greatest(place).min(self.worst) as f64;
            }
        }
        self.worst as f64
    }

    pub fn worst(&self) -> f64 {
        self.worst as f64
    }

    fn place(nanos: u64) -> usize {
        // Below 2^7 each nanosecond has its place; from there on the leading seven bits tell.
        let shift = (u64::BITS - nanos.leading_zeros()).saturating_sub(Self::BITS + 1);
        ((shift as usize) << Self::BITS) + (nanos >> shift) as usize
    }

    /// The greatest number of nanoseconds in a place.
    fn greatest(place: usize) -> u64 {
        let shift = (place >> Self::BITS).saturating_sub(1);
        let leading = (place - (shift << Self::BITS)) as u64;
        ((leading + 1) << shift) - 1
    }
}
