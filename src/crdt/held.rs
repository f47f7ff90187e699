//! Which versions of a run have arrived.

use smallvec::SmallVec;

use super::Version;

/// The versions of one run that this node holds: all up to `upto`, and some ranges beyond a gap.
///
/// A digest of versions speaks of `upto` only. With the highest version seen instead, a cell in the gap would be lost
/// until it changes again.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    upto: Version,
    /// Half-open ranges `(from, to]` with `from > upto`, in no order. Lost when there are too many: anti-entropy
    /// repairs it.
    ahead: SmallVec<[(Version, Version); 2]>,
}

impl Held {
    /// Ranges beyond gaps that are remembered.
    const MAX_AHEAD: usize = 32;

    pub(super) fn upto(&self) -> Version {
        self.upto
    }

    pub(super) fn has_gap(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Whether everything in `(from, to]` has arrived.
    pub(super) fn holds(&self, from: Version, to: Version) -> bool {
        to <= self.upto || self.ahead.iter().any(|range| range.0 <= from && to <= range.1)
    }

    /// Notes that everything in `(from, to]` has arrived. Returns whether that left no gap before it.
    pub(super) fn cover(&mut self, from: Version, to: Version) -> bool {
        if from > self.upto {
            if self.ahead.len() < Self::MAX_AHEAD {
                self.ahead.push((from, to));
            }
            return false;
        }
        self.upto = self.upto.max(to);
        while let Some(at) = self.ahead.iter().position(|range| range.0 <= self.upto) {
            let (_, to) = self.ahead.swap_remove(at);
            self.upto = self.upto.max(to);
        }
        true
    }
}
