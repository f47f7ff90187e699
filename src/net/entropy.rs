//! Randomness of the operating system: run ids and seeds.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io,
};

/// 64 random bits.
///
/// # Errors
///
/// Where the operating system has none to give.
pub(crate) fn random_u64() -> io::Result<u64> {
    getrandom::u64().map_err(io::Error::from)
}

/// 64 bits that other processes do not guess. Unlike [`random_u64`] it cannot fail, and is not fit for what has to be
/// unique or secret among machines.
pub(crate) fn unguessable_u64() -> u64 {
    // The standard library seeds hash maps with it.
    RandomState::new().build_hasher().finish()
}
