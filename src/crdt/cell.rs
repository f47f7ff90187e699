//! Cells and the forms in which they travel.

use std::fmt;

use smallvec::SmallVec;

use crate::bucket::{Missing, Timestamp};

use super::{Digest, ScopeId};

/// One life of one process. Every start draws a new one at random, so a restarted node is a new run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(u64);

impl RunId {
    /// From its wire form.
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// Its wire form.
    pub const fn raw(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Orders the publications of one run's cells. The first publication of a run has version 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// Before the first publication.
    pub const NONE: Self = Self(0);

    /// From its wire form.
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// Its wire form.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The version `by` publications later, or `None` beyond the last one.
    #[must_use]
    pub fn checked_add(self, by: u64) -> Option<Self> {
        self.0.checked_add(by).map(Self)
    }

    /// The next version. A run does not live to see 2^64 of them.
    #[must_use]
    pub(super) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Distinguishes the lives of one cell. A cell that its run dropped and started again has a higher one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u32);

impl Epoch {
    /// From its wire form.
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// Its wire form.
    pub const fn raw(self) -> u32 {
        self.0
    }

    #[must_use]
    pub(super) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The value of a cell: permits admitted since its epoch began.
///
/// The order is lexicographic and merge is the greater of two, so it is idempotent, commutative and associative: a
/// later epoch replaces an earlier one whatever its permits, else the peers' maximum would hide a cell that starts
/// again from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count {
    /// Which life of the cell.
    pub epoch: Epoch,
    /// Permits admitted in this life.
    pub permits: u64,
}

impl Count {
    /// The merge of two counts of one cell.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        self.max(other)
    }
}

/// One run's slot of a key's G-Counter, as a node holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Whose admissions these are. Only this run raises the cell.
    pub run: RunId,
    /// The highest count heard of.
    pub count: Count,
    /// When that count was published, in the order of its run.
    pub version: Version,
    /// When it was published, as far as this node can tell by its own clock.
    pub heard: Timestamp,
}

/// "This run raised this key's cell from `from` to `to` permits", published at `version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The key's scope.
    pub scope: ScopeId,
    /// The key.
    pub digest: Digest,
    /// Which life of the cell.
    pub epoch: Epoch,
    /// Permits before. Not above `to`.
    pub from: u64,
    /// Permits after.
    pub to: u64,
    /// When it was published.
    pub version: Version,
}

/// One cell in a [`KeyRecord`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunCell {
    /// Whose cell.
    pub run: RunId,
    /// Its count.
    pub count: Count,
    /// Its version.
    pub version: Version,
    /// Whole seconds since its publication, rounded up. It ages on the way like everywhere else, so that a cell which
    /// is about to be dropped is not revived by being passed on.
    pub age_secs: u32,
}

/// What anti-entropy says of one key: cells that the reader may lack, and the bucket's level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// The key's scope.
    pub scope: ScopeId,
    /// The key.
    pub digest: Digest,
    /// What the sender sees missing, its own unsent permits left out; `None` where it does not know the scope.
    pub missing: Option<Missing>,
    /// The cells.
    pub cells: SmallVec<[RunCell; 2]>,
}
