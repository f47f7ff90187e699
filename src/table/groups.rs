//! An array of groups that grows without moving any of them.

use std::sync::OnceLock;

use super::group::Group;

/// Groups by number, allocated in chunks when first asked for, and kept.
#[derive(Debug)]
pub(super) struct Groups {
    chunks: Box<[OnceLock<Box<Chunk>>]>,
}

type Chunk = [Group; Groups::CHUNK];

impl Groups {
    /// Groups allocated together: 64 kB, which takes microseconds.
    pub(super) const CHUNK: usize = 512;

    /// Room for `most` groups, none of them allocated.
    pub(super) fn new(most: usize) -> Self {
        Self { chunks: (0..most.div_ceil(Self::CHUNK)).map(|_| OnceLock::new()).collect() }
    }

    /// The group number `index`, which is below the most.
    #[inline]
    pub(super) fn at(&self, index: usize) -> &Group {
        &self.chunks[index / Self::CHUNK].get_or_init(Self::allocate)[index % Self::CHUNK]
    }

    #[cold]
    fn allocate() -> Box<Chunk> {
        Box::new(std::array::from_fn(|_| Group::default()))
    }
}
