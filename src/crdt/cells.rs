//! Where the cells of all runs are kept: one node a cell, in chunks that never move.

use std::num::NonZeroU32;

use hashbrown::{HashTable, hash_table::Entry};

use crate::bucket::Timestamp;

use super::{Count, Digest, Epoch, ScopeId, Version};

/// The place of a cell, as long as the cell is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CellId(NonZeroU32);

/// A run's number in a node: it stands for a [`RunId`](super::RunId), in a quarter of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunSlot(pub(super) u16);

/// One cell: 56 bytes. The cells of a key are linked, in no order.
#[derive(Debug)]
struct Node {
    digest: Digest,
    scope: ScopeId,
    permits: u64,
    version: Version,
    /// When it was heard, and whose it is.
    stamp: Stamp,
    epoch: Epoch,
    /// The next cell of the key; of a free node the next free one.
    next: Option<CellId>,
}

/// A time in units of four microseconds, which last for 35 years, above a run's slot of 16 bits.
#[derive(Clone, Copy, Debug)]
struct Stamp(u64);

impl Stamp {
    const UNIT_NANOS: u64 = 4_000;
    const SLOT_BITS: u32 = 16;
    const MAX_TIME: u64 = (1 << (u64::BITS - Self::SLOT_BITS)) - 1;

    /// Rounded down: what is believed of how fresh a cell is never errs on the fresh side.
    fn new(heard: Timestamp, run: RunSlot) -> Self {
        let time = (heard.as_nanos() / Self::UNIT_NANOS).min(Self::MAX_TIME);
        Self(time << Self::SLOT_BITS | u64::from(run.0))
    }

    fn heard(self) -> Timestamp {
        Timestamp::from_nanos((self.0 >> Self::SLOT_BITS).saturating_mul(Self::UNIT_NANOS))
    }

    fn run(self) -> RunSlot {
        RunSlot(self.0 as u16)
    }
}

/// What a node says besides its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) run: RunSlot,
    pub(super) count: Count,
    pub(super) version: Version,
    pub(super) heard: Timestamp,
}

/// All cells, by key.
#[derive(Debug, Default)]
pub(super) struct Cells {
    /// Each is full but for the last, and allocated at its full length: growth copies nothing.
    chunks: Vec<Vec<Node>>,
    /// The first of the nodes that are free.
    free: Option<CellId>,
    /// The first cell of each key.
    first: HashTable<CellId>,
    len: usize,
}

impl Cells {
    /// Nodes of a chunk: 224 kB.
    const CHUNK: usize = 1 << 12;

    /// Cells held.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Keys with at least one cell.
    pub(super) fn keys(&self) -> usize {
        self.first.len()
    }

    /// The first cell of a key, from which [`Cells::linked`] goes on.
    pub(super) fn first_of(&self, digest: Digest) -> Option<CellId> {
        self.first.find(digest.word(), |id| self.node(*id).digest == digest).copied()
    }

    /// This cell of a key and those that follow it.
    pub(super) fn linked(&self, first: Option<CellId>) -> impl Iterator<Item = CellId> + '_ {
        std::iter::successors(first, |id| self.node(*id).next)
    }

    pub(super) fn get(&self, id: CellId) -> Stored {
        let node = self.node(id);
        let count = Count { epoch: node.epoch, permits: node.permits };
        Stored { run: node.stamp.run(), count, version: node.version, heard: node.stamp.heard() }
    }

    /// The key of a cell, and its scope.
    pub(super) fn key(&self, id: CellId) -> (ScopeId, Digest) {
        let node = self.node(id);
        (node.scope, node.digest)
    }

    /// Replaces what a cell says.
    pub(super) fn set(&mut self, id: CellId, stored: Stored) {
        let node = self.node_mut(id);
        node.permits = stored.count.permits;
        node.epoch = stored.count.epoch;
        node.version = stored.version;
        node.stamp = Stamp::new(stored.heard, stored.run);
    }

    /// Adds a cell. The key has none of that run, and keeps the scope that it has. `None` at 2^32 - 1 cells.
    pub(super) fn insert(&mut self, scope: ScopeId, digest: Digest, stored: Stored) -> Option<CellId> {
        let id = self.take_node()?;
        let Stored { run, count, version, heard } = stored;
        let stamp = Stamp::new(heard, run);
        let node = Node { digest, scope, permits: count.permits, version, stamp, epoch: count.epoch, next: None };
        let Self { chunks, first, .. } = self;
        *node_of(chunks, id) = node;
        let entry = first.entry(
            digest.word(),
            |other| node_at(chunks, *other).digest == digest,
            |other| node_at(chunks, *other).digest.word(),
        );
        match entry {
            Entry::Occupied(occupied) => {
                // Second, so that the index needs no change.
                let first = *occupied.get();
                let (scope, next) = (node_at(chunks, first).scope, node_at(chunks, first).next);
                let node = node_of(chunks, id);
                (node.scope, node.next) = (scope, next);
                node_of(chunks, first).next = Some(id);
            }
            Entry::Vacant(vacant) => {
                vacant.insert(id);
            }
        }
        self.len += 1;
        Some(id)
    }

    /// Removes a cell.
    pub(super) fn remove(&mut self, id: CellId) {
        let (digest, next) = (self.node(id).digest, self.node(id).next);
        let Some(first) = self.first_of(digest) else { return };
        let before = self.linked(Some(first)).find(|other| self.node(*other).next == Some(id));
        if let Some(before) = before {
            self.node_mut(before).next = next;
        } else if let Ok(mut entry) = self.first.find_entry(digest.word(), |other| *other == id) {
            match next {
                Some(next) => *entry.get_mut() = next,
                None => {
                    entry.remove();
                }
            }
        }
        self.node_mut(id).next = self.free;
        self.free = Some(id);
        self.len -= 1;
    }

    fn take_node(&mut self) -> Option<CellId> {
        if let Some(id) = self.free {
            self.free = self.node(id).next;
            return Some(id);
        }
        let fresh = match self.chunks.last() {
            Some(last) => (self.chunks.len() - 1) * Self::CHUNK + last.len(),
            None => 0,
        };
        let id = CellId(NonZeroU32::new(u32::try_from(fresh).ok()?.checked_add(1)?)?);
        if fresh % Self::CHUNK == 0 {
            self.chunks.push(Vec::with_capacity(Self::CHUNK));
        }
        let free = Node {
            digest: Digest::from_words(0, 0),
            scope: ScopeId::from_raw(0),
            permits: 0,
            version: Version::NONE,
            stamp: Stamp(0),
            epoch: Epoch::default(),
            next: None,
        };
        self.chunks.last_mut()?.push(free);
        Some(id)
    }

    fn node(&self, id: CellId) -> &Node {
        node_at(&self.chunks, id)
    }

    fn node_mut(&mut self, id: CellId) -> &mut Node {
        node_of(&mut self.chunks, id)
    }
}

fn place(id: CellId) -> (usize, usize) {
    let number = id.0.get() as usize - 1;
    (number / Cells::CHUNK, number % Cells::CHUNK)
}

fn node_at(chunks: &[Vec<Node>], id: CellId) -> &Node {
    let (chunk, at) = place(id);
    &chunks[chunk][at]
}

fn node_of(chunks: &mut [Vec<Node>], id: CellId) -> &mut Node {
    let (chunk, at) = place(id);
    &mut chunks[chunk][at]
}
