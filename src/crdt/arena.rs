//! Values of one type under short numbers.

/// Holds values under numbers that stay theirs until they are removed.
///
/// It grows by chunks, so that growth neither copies what is there nor holds two copies of it for a while. What is
/// removed leaves room for what comes next; the memory is not given back.
#[derive(Debug)]
pub(super) struct Arena<T> {
    /// All full, but for the last one. The first one grows like any other list, since most logs are small.
    chunks: Vec<Vec<Slot<T>>>,
    /// The first free place, which names the next one.
    free: u32,
    len: usize,
}

/// No larger than a value that has a bit pattern to spare.
#[derive(Debug)]
enum Slot<T> {
    Taken(T),
    /// Names the next free place, or [`NONE`].
    Free(u32),
}

/// Values of one chunk.
const CHUNK: usize = 1 << 10;
/// The number of no place.
const NONE: u32 = u32::MAX;

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: NONE, len: 0 }
    }
}

impl<T> Arena<T> {
    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, at: u32) -> Option<&T> {
        match self.chunks.get(at as usize / CHUNK)?.get(at as usize % CHUNK)? {
            Slot::Taken(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        match self.slot_mut(at)? {
            Slot::Taken(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    /// The number under which `value` is kept from now on, or `None` where there are no more numbers.
    pub(super) fn insert(&mut self, value: T) -> Option<u32> {
        let at = self.free;
        if let Some(slot) = self.slot_mut(at)
            && let Slot::Free(next) = *slot
        {
            *slot = Slot::Taken(value);
            self.free = next;
            self.len += 1;
            return Some(at);
        }
        // Nothing is free, so all places that there are hold values.
        let at = u32::try_from(self.len).ok().filter(|at| *at != NONE)?;
        match self.chunks.last_mut().filter(|last| last.len() < CHUNK) {
            Some(last) => last.push(Slot::Taken(value)),
            None => {
                let mut chunk = Vec::with_capacity(if self.chunks.is_empty() { 1 } else { CHUNK });
                chunk.push(Slot::Taken(value));
                self.chunks.push(chunk);
            }
        }
        self.len += 1;
        Some(at)
    }

    pub(super) fn remove(&mut self, at: u32) -> Option<T> {
        let free = self.free;
        let slot = self.slot_mut(at).filter(|slot| matches!(slot, Slot::Taken(_)))?;
        let Slot::Taken(value) = std::mem::replace(slot, Slot::Free(free)) else { return None };
        self.free = at;
        self.len -= 1;
        Some(value)
    }

    fn slot_mut(&mut self, at: u32) -> Option<&mut Slot<T>> {
        self.chunks.get_mut(at as usize / CHUNK)?.get_mut(at as usize % CHUNK)
    }
}
