//! One run's cells, by version.

use std::collections::BTreeMap;

use super::{Version, cells::CellId};

/// Cells by version, in blocks of eight versions.
///
/// A run numbers its publications one by one, so versions are dense where keys rest, and thin out as keys are published
/// anew. A block costs some 67 bytes: 8 a cell where all of its versions are in use, and 23 a cell in the long run of a run
/// that publishes its keys at random. A map from each version alone would take 25.
#[derive(Debug, Default)]
pub(super) struct Order {
    blocks: BTreeMap<u64, Block>,
    len: usize,
}

type Block = [Option<CellId>; BLOCK];

/// Versions of a block.
const BLOCK: usize = 8;

fn split(version: Version) -> (u64, usize) {
    let raw = version.raw();
    (raw / BLOCK as u64, (raw % BLOCK as u64) as usize)
}

impl Order {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn get(&self, version: Version) -> Option<CellId> {
        let (block, at) = split(version);
        self.blocks.get(&block)?[at]
    }

    /// Puts a cell at a version, which no other cell has.
    pub(super) fn insert(&mut self, version: Version, cell: CellId) {
        let (block, at) = split(version);
        let place = &mut self.blocks.entry(block).or_default()[at];
        debug_assert!(place.is_none(), "{version:?} is taken");
        self.len += usize::from(place.is_none());
        *place = Some(cell);
    }

    pub(super) fn remove(&mut self, version: Version) {
        let (number, at) = split(version);
        let Some(block) = self.blocks.get_mut(&number) else { return };
        self.len -= usize::from(block[at].take().is_some());
        if block.iter().all(Option::is_none) {
            self.blocks.remove(&number);
        }
    }

    /// The cell with the lowest version.
    pub(super) fn first(&self) -> Option<(Version, CellId)> {
        self.first_from(Version::NONE)
    }

    /// The cell with the lowest version from `from` on.
    pub(super) fn first_from(&self, from: Version) -> Option<(Version, CellId)> {
        let (first, _) = split(from);
        self.blocks
            .range(first..)
            .flat_map(|(number, block)| in_block(*number, block))
            .find(|(version, _)| *version >= from)
    }

    /// The cell with the highest version from `low` to below `below`.
    pub(super) fn last_between(&self, low: Version, below: Version) -> Option<(Version, CellId)> {
        let ((first, _), (last, _)) = (split(low), split(below));
        self.blocks
            .range(first..=last.max(first))
            .rev()
            .flat_map(|(number, block)| in_block(*number, block).rev())
            .find(|(version, _)| *version < below)
            .filter(|(version, _)| *version >= low)
    }

    /// All cells, from the highest version down.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = CellId> + '_ {
        self.blocks.values().rev().flat_map(|block| block.iter().rev().copied().flatten())
    }
}

/// The cells of one block with their versions, in order.
fn in_block(number: u64, block: &Block) -> impl DoubleEndedIterator<Item = (Version, CellId)> + '_ {
    let version = move |at: usize| Version::from_raw(number * BLOCK as u64 + at as u64);
    block.iter().enumerate().filter_map(move |(at, cell)| Some((version(at), (*cell)?)))
}
