//! Which groups have something to tell.

use std::sync::atomic::{AtomicU64, Ordering};

/// One bit a group, set by whoever leaves something to tell under the group's lock, taken before that lock by whoever
/// comes to collect it. So nothing is left behind without its mark.
#[derive(Debug)]
pub(super) struct Marks {
    words: Box<[AtomicU64]>,
}

impl Marks {
    /// Groups that share a word.
    pub(super) const PER_WORD: usize = u64::BITS as usize;

    /// No marks, with room for `groups` of them.
    pub(super) fn new(groups: usize) -> Self {
        Self { words: (0..groups.div_ceil(Self::PER_WORD)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Marks a group, whose lock the caller holds.
    #[inline]
    pub(super) fn set(&self, group: usize) {
        let Some(word) = self.words.get(group / Self::PER_WORD) else { return };
        let bit = 1 << (group % Self::PER_WORD);
        // Relaxed: a collector takes the mark before it takes the lock. If the mark that is seen here has been taken
        // meanwhile, the collector has yet to get the lock, and finds what the caller leaves.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// The marks of the 64 groups from `64 * word` on, as bits.
    pub(super) fn look(&self, word: usize) -> u64 {
        self.words.get(word).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Takes the marks of the 64 groups from `64 * word` on, as bits.
    pub(super) fn take(&self, word: usize) -> u64 {
        let Some(word) = self.words.get(word) else { return 0 };
        // Nearly all words are empty, and a look costs less than a swap. Relaxed: see `set`.
        if word.load(Ordering::Relaxed) == 0 { 0 } else { word.swap(0, Ordering::Relaxed) }
    }
}
