//! Randomness of the operating system: run ids and seeds.

use std::io;

/// 64 random bits.
///
/// # Errors
///
/// Where the operating system has none to give.
pub(crate) fn random_u64() -> io::Result<u64> {
    getrandom::u64().map_err(io::Error::from)
}
