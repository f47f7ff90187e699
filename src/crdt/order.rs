//! The cells of one run in the order of their versions.

use std::collections::BTreeMap;

use super::Version;

/// Numbers of cells by version.
///
/// Most versions come in order and leave from anywhere, as cells are published anew. So this keeps sorted blocks, which
/// new versions fill up to the last place and which join when they have emptied: some 9 bytes for each version in a log
/// that only grew, 12 in one that is in use. A map that halves its full nodes, as the standard library's, takes 25.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// By base. None is empty, and all versions of a block lie from its base on and below the next one's.
    blocks: BTreeMap<Version, Block>,
    len: usize,
    /// No version here is higher. Most that are asked for or come are, and need no search.
    highest: Version,
}

/// Sorted by version.
type Block = Vec<Place>;

#[derive(Clone, Copy, Debug)]
struct Place {
    /// Of the version, from its block's base.
    offset: u32,
    cell: u32,
}

/// Most places of a block.
const FULL: usize = 64;
/// Most places of two neighbours that join. Below a full block, or the next version would part them again.
const JOINED: usize = FULL - FULL / 8;

impl Order {
    /// How many versions there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[cfg(test)]
    pub(super) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The cell at `version`.
    pub(super) fn get(&self, version: Version) -> Option<u32> {
        if version > self.highest {
            return None;
        }
        let (base, block) = self.blocks.range(..=version).next_back()?;
        let at = find(*base, block, version).ok()?;
        block.get(at).map(|place| place.cell)
    }

    /// The first version from `from` on.
    pub(super) fn first_from(&self, from: Version) -> Option<(Version, u32)> {
        let around = self.blocks.range(..=from).next_back();
        // The block around `from` may end before it.
        around.into_iter().chain(self.blocks.range(from..)).find_map(|(base, block)| {
            let place = block.get(find(*base, block, from).unwrap_or_else(|at| at))?;
            Some((version_of(*base, place), place.cell))
        })
    }

    /// The last version below `below`.
    pub(super) fn last_below(&self, below: Version) -> Option<(Version, u32)> {
        // The block around `below` may begin after it.
        self.blocks.range(..below).rev().find_map(|(base, block)| {
            let at = find(*base, block, below).unwrap_or_else(|at| at);
            let place = block.get(at.checked_sub(1)?)?;
            Some((version_of(*base, place), place.cell))
        })
    }

    /// All cells, those with the highest versions first.
    pub(super) fn newest(&self) -> impl Iterator<Item = u32> {
        self.blocks.values().rev().flat_map(|block| block.iter().rev().map(|place| place.cell))
    }

    /// Puts a cell at a version at which there is none.
    pub(super) fn insert(&mut self, version: Version, cell: u32) {
        self.len += 1;
        let around = if version > self.highest {
            self.highest = version;
            self.blocks.iter_mut().next_back()
        } else {
            self.blocks.range_mut(..=version).next_back()
        };
        let Some((&base, block)) = around else { return self.add(version, cell, Version::NONE, 1) };
        let at = find(base, block, version).unwrap_or_else(|at| at);
        let Some(offset) = offset(base, version) else {
            let floor = last_of(base, block).next();
            return self.add(version, cell, floor, 1);
        };
        if block.len() < FULL {
            reserve(block, 1);
            return block.insert(at, Place { offset, cell });
        }
        if at == block.len() {
            let floor = last_of(base, block).next();
            return self.add(version, cell, floor, FULL);
        }
        // Parted where the new one comes: if it is one of a row, up or down, the next ones come there too.
        let rest_base = block.get(at).map_or(version, |place| version_of(base, place));
        let mut rest = Block::new();
        follow(rest_base, &mut rest, base, block.drain(at..));
        block.push(Place { offset, cell });
        self.blocks.insert(rest_base, rest);
        // Else a row that comes down would leave a block of one place at each step.
        self.join_next(rest_base, FULL);
    }

    /// Adds a version before which nothing is kept from `floor` on: to the next block, or else as one that has `room`.
    fn add(&mut self, version: Version, cell: u32, floor: Version, room: usize) {
        // Lower than need be, so that the next ones of a row that comes down need no lower one.
        let base = floor.max(Version::from_raw(version.raw().saturating_sub(FULL as u64)));
        let mut block = Block::with_capacity(room);
        block.extend(offset(base, version).map(|offset| Place { offset, cell }));
        self.blocks.insert(base, block);
        self.join_next(base, FULL);
    }

    /// Takes the cell from `version`.
    pub(super) fn remove(&mut self, version: Version) -> Option<u32> {
        let (&base, block) = self.blocks.range_mut(..=version).next_back()?;
        let at = find(base, block, version).ok()?;
        let place = block.remove(at);
        let left = block.len();
        self.len -= 1;
        if left == 0 {
            self.blocks.remove(&base);
        } else if left.is_multiple_of(FULL / 8) && !self.join_next(base, JOINED) {
            // Now and then is enough, and spares most removals a look at the neighbours.
            let before = self.blocks.range(..base).next_back().map(|(before, _)| *before);
            if let Some(before) = before {
                self.join_next(before, JOINED);
            }
        }
        Some(place.cell)
    }

    /// Joins a block with the next one, if they have no more than `most` places together. Returns whether it did.
    fn join_next(&mut self, base: Version, most: usize) -> bool {
        let mut blocks = self.blocks.range_mut(base..);
        let (Some((_, block)), Some((&next_base, next))) = (blocks.next(), blocks.next()) else { return false };
        if block.len() + next.len() > most || offset(base, last_of(next_base, next)).is_none() {
            return false;
        }
        follow(base, block, next_base, next.drain(..));
        self.blocks.remove(&next_base);
        true
    }
}

/// The offset of `version` from `base`, or `None` if it is too far.
fn offset(base: Version, version: Version) -> Option<u32> {
    version.raw().checked_sub(base.raw()).and_then(|offset| u32::try_from(offset).ok())
}

fn version_of(base: Version, place: &Place) -> Version {
    Version::from_raw(base.raw().saturating_add(place.offset.into()))
}

fn last_of(base: Version, block: &Block) -> Version {
    block.last().map_or(base, |place| version_of(base, place))
}

/// Where `version` is in a block, or else where it would be.
fn find(base: Version, block: &Block, version: Version) -> Result<usize, usize> {
    let Some(offset) = version.raw().checked_sub(base.raw()) else { return Err(0) };
    // Most often it is the newest.
    match block.last() {
        Some(last) if offset > last.offset.into() => Err(block.len()),
        _ => block.binary_search_by(|place| u64::from(place.offset).cmp(&offset)),
    }
}

/// Appends the places of a block that came after this one. All of them are in reach of its base.
fn follow(base: Version, block: &mut Block, from: Version, places: std::vec::Drain<'_, Place>) {
    reserve(block, places.len());
    block.extend(places.filter_map(|place| {
        let offset = offset(base, version_of(from, &place));
        offset.map(|offset| Place { offset, ..place })
    }));
}

/// Doubles, but never beyond what a full block takes.
fn reserve(block: &mut Block, more: usize) {
    let needed = block.len() + more;
    if needed > block.capacity() {
        block.reserve_exact(needed.next_power_of_two().min(FULL).max(needed) - block.len());
    }
}
