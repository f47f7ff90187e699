//! Where the bytes of a key are collected.

use std::fmt;

use smallvec::SmallVec;

/// Takes the bytes of a key. Up to 64 of them allocate nothing.
#[derive(Clone, Default)]
pub struct KeyWriter {
    bytes: SmallVec<[u8; Self::INLINE]>,
}

impl KeyWriter {
    const INLINE: usize = 64;
    /// Bytes of a length before a part.
    const LENGTH: usize = size_of::<u32>();

    /// An empty key.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends bytes as they are. Two writes may run into each other; see [`part`](Self::part).
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.bytes.extend_from_slice(bytes.as_ref());
    }

    /// Appends what `write` writes, and its length before it. Keys of several parts are told apart by that.
    ///
    /// # Errors
    ///
    /// Those of `write`.
    pub fn part<E>(&mut self, write: impl FnOnce(&mut Self) -> Result<(), E>) -> Result<(), E> {
        let start = self.bytes.len() + Self::LENGTH;
        self.write([0; Self::LENGTH]);
        write(self)?;
        // No header of four gigabytes reaches this.
        let length = (self.bytes.len() - start) as u32;
        self.bytes[start - Self::LENGTH..start].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    /// What was written.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Keys may be secrets, and are written nowhere.
impl fmt::Debug for KeyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyWriter").field("len", &self.bytes.len()).finish_non_exhaustive()
    }
}
