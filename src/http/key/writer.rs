//! Where the bytes of a key are collected.

use std::fmt;

/// Takes the bytes of a key. Up to 64 of them allocate nothing.
#[derive(Clone)]
pub struct KeyWriter {
    /// The key, in its first `len` bytes, unless it is in `long`.
    short: [u8; Self::INLINE],
    len: usize,
    /// The whole key where it is too long for `short`; else empty.
    long: Vec<u8>,
}

impl Default for KeyWriter {
    fn default() -> Self {
        Self { short: [0; Self::INLINE], len: 0, long: Vec::new() }
    }
}

impl KeyWriter {
    const INLINE: usize = 64;
    /// Bytes of a length before a part.
    const LENGTH: usize = size_of::<u32>();

    /// An empty key.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends bytes as they are. Two writes may run into each other; see [`part`](Self::part).
    #[inline]
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let room = self.short.get_mut(self.len..).and_then(|rest| rest.get_mut(..bytes.len()));
        match room {
            Some(room) if self.long.is_empty() => {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            _ => self.write_long(bytes),
        }
    }

    #[cold]
    fn write_long(&mut self, bytes: &[u8]) {
        if self.long.is_empty() {
            self.long.extend_from_slice(&self.short[..self.len]);
        }
        self.long.extend_from_slice(bytes);
    }

    /// Appends what `write` writes, and its length before it. Keys of several parts are told apart by that.
    ///
    /// # Errors
    ///
    /// Those of `write`.
    pub fn part<E>(&mut self, write: impl FnOnce(&mut Self) -> Result<(), E>) -> Result<(), E> {
        let start = self.as_bytes().len() + Self::LENGTH;
        self.write([0; Self::LENGTH]);
        write(self)?;
        let bytes = if self.long.is_empty() { &mut self.short[..self.len] } else { &mut *self.long };
        // No header of four gigabytes reaches this.
        let length = (bytes.len() - start) as u32;
        bytes[start - Self::LENGTH..start].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    /// What was written.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        if self.long.is_empty() { &self.short[..self.len] } else { &self.long }
    }
}

/// Keys may be secrets, and are written nowhere.
impl fmt::Debug for KeyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyWriter").field("len", &self.as_bytes().len()).finish_non_exhaustive()
    }
}
