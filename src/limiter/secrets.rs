//! Secrets from a file.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use zeroize::Zeroizing;

use crate::gossip::{SecretError, Secrets};

/// Longest file of secrets, in bytes: 8 of them with room for what is written beside.
const MAX_FILE: usize = 16 * 1024;

impl Secrets {
    /// Secrets from a file, as [`Secrets::parse`] reads them: one a line, the first of which seals. It is read once;
    /// give what it holds later to [`Limiter::set_secrets`](crate::Limiter::set_secrets).
    ///
    /// # Errors
    ///
    /// If it cannot be read, is longer than 16 KiB, or a line holds no secret; the error names the line.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, SecretError> {
        // Room for all of it, since a buffer that grows leaves a copy behind.
        let mut text = Zeroizing::new(String::with_capacity(MAX_FILE + 1));
        let file = File::open(path).map_err(SecretError::Read)?;
        file.take(MAX_FILE as u64 + 1).read_to_string(&mut text).map_err(SecretError::Read)?;
        if text.len() > MAX_FILE {
            return Err(SecretError::Read(io::Error::new(io::ErrorKind::FileTooLarge, "longer than 16 KiB")));
        }
        Self::parse(&text)
    }
}
