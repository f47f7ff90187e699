//! All cells of a replica log, by key and run.

use hashbrown::HashTable;

use crate::bucket::Timestamp;

use super::{Cell, Count, Digest, Epoch, RunId, ScopeId, Version, arena::Arena, runs::RunSlot};

/// A cell as it is kept. The run's number has a value to spare, so a place in the arena takes no more than this.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) digest: Digest,
    /// The same in all cells of a key.
    pub(super) scope: ScopeId,
    pub(super) permits: u64,
    pub(super) version: Version,
    pub(super) heard: Timestamp,
    pub(super) epoch: Epoch,
    pub(super) run: RunSlot,
}

impl Node {
    pub(super) fn count(&self) -> Count {
        Count { epoch: self.epoch, permits: self.permits }
    }

    /// A cell of the run that `run` stands for.
    pub(super) fn new(run: RunSlot, scope: ScopeId, digest: Digest, cell: &Cell) -> Self {
        let Cell { count: Count { epoch, permits }, version, heard, .. } = *cell;
        Self { digest, scope, permits, version, heard, epoch, run }
    }

    /// Takes over what `cell` says, of the same run.
    pub(super) fn set(&mut self, cell: &Cell) {
        self.set_count(cell.count);
        (self.version, self.heard) = (cell.version, cell.heard);
    }

    pub(super) fn set_count(&mut self, count: Count) {
        (self.epoch, self.permits) = (count.epoch, count.permits);
    }

    /// As others see it, where it is known that its run is `run`.
    pub(super) fn cell(&self, run: RunId) -> Cell {
        Cell { run, count: self.count(), version: self.version, heard: self.heard }
    }
}

/// Cells under short numbers, which the order of each run's versions names too.
#[derive(Debug)]
pub(super) struct Cells {
    arena: Arena<Node>,
    /// Numbers of cells by key and run, parted by the key. A table that grows is copied, so each is a small part of
    /// all.
    parts: Box<[HashTable<u32>]>,
}

/// Into how many tables the numbers are parted.
const PARTS: usize = 64;

impl Default for Cells {
    fn default() -> Self {
        Self { arena: Arena::default(), parts: (0..PARTS).map(|_| HashTable::new()).collect() }
    }
}

impl Cells {
    pub(super) fn len(&self) -> usize {
        self.arena.len()
    }

    pub(super) fn get(&self, at: u32) -> Option<&Node> {
        self.arena.get(at)
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Node> {
        self.arena.get_mut(at)
    }

    /// The number of a run's cell of a key.
    pub(super) fn find(&self, run: RunSlot, digest: Digest) -> Option<u32> {
        let is_it = |at: &u32| self.arena.get(*at).is_some_and(|node| node.digest == digest && node.run == run);
        self.parts.get(part_of(digest))?.find(hash(run, digest), is_it).copied()
    }

    /// Adds a cell of which [`Cells::find`] finds none. `None` if there is no room for it.
    pub(super) fn insert(&mut self, node: Node) -> Option<u32> {
        let part = self.parts.get_mut(part_of(node.digest))?;
        let at = self.arena.insert(node)?;
        let arena = &self.arena;
        let hash_at = |at: &u32| arena.get(*at).map_or(0, |node| hash(node.run, node.digest));
        part.insert_unique(hash(node.run, node.digest), at, hash_at);
        Some(at)
    }

    pub(super) fn remove(&mut self, at: u32) -> Option<Node> {
        let node = self.arena.remove(at)?;
        let part = self.parts.get_mut(part_of(node.digest))?;
        if let Ok(entry) = part.find_entry(hash(node.run, node.digest), |of| *of == at) {
            entry.remove();
        }
        Some(node)
    }
}

/// By other bits than those that choose a place inside a table.
fn part_of(digest: Digest) -> usize {
    digest.other_word() as usize % PARTS
}

/// All cells of a key lie close to each other, so that whoever looks for all of them waits for memory once: the low
/// bits choose the place and know nothing of the run. The run is in the top seven, which the table compares before
/// anything else, so that whoever looks for one cell does not look at the others of its key.
fn hash(run: RunSlot, digest: Digest) -> u64 {
    digest.word() ^ u64::from(run.raw()) << 57
}
