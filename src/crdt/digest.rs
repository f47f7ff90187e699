//! Keys and scope names as they are stored and sent: as keyed digests.

use siphasher::sip128::{Hasher128, SipHasher13};
use std::{fmt, hash::Hasher};

/// The 128-bit keyed digest of a key inside its scope (SipHash-1-3-128, Aumasson and Bernstein).
///
/// Equal on every member and platform. Two keys of one scope collide with a probability of 2^-128 a pair, and whoever
/// does not know the [`DigestKey`] cannot aim for a collision.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u64; 2]);

impl Digest {
    /// Length of the wire form.
    pub const LEN: usize = 16;

    /// From the wire form: two little-endian words, the first of which is [`Digest::word`].
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let both = u128::from_le_bytes(bytes);
        Self([both as u64, (both >> 64) as u64])
    }

    /// The wire form.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        (u128::from(self.0[0]) | u128::from(self.0[1]) << 64).to_le_bytes()
    }

    /// 64 uniformly distributed bits, the hash under which a table files it.
    pub const fn word(self) -> u64 {
        self.0[0]
    }

    /// 64 other bits, independent of [`Digest::word`].
    pub const fn other_word(self) -> u64 {
        self.0[1]
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0[0], self.0[1])
    }
}

/// A scope on the wire: the 64-bit keyed digest of its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeId(u64);

impl ScopeId {
    /// From its wire form.
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// Its wire form.
    pub const fn raw(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for ScopeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scope:{:016x}", self.0)
    }
}

/// The key of all digests of a cluster. Members with different keys share no bucket.
#[derive(Clone, Copy)]
pub struct DigestKey([u64; 2]);

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey")
    }
}

impl DigestKey {
    /// The key of a cluster that has no secret. It is public, so it protects nobody from aimed collisions.
    pub const PUBLIC: Self = Self([0x7065_6572_6c69_6d69, 0x745f_6469_6765_7374]);

    /// Length in bytes.
    pub const LEN: usize = 16;

    /// A key of 16 random bytes.
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let both = u128::from_le_bytes(bytes);
        Self([both as u64, (both >> 64) as u64])
    }

    /// The wire form of a scope's name.
    pub fn scope_id(&self, name: &str) -> ScopeId {
        ScopeId(self.derive(b"scope id", name).0[0])
    }

    /// The hasher for the keys of one scope.
    pub fn hasher(&self, scope: &str) -> KeyHasher {
        let Digest([k0, k1]) = self.derive(b"key space", scope);
        KeyHasher { keyed: SipHasher13::new_with_keys(k0, k1) }
    }

    fn derive(&self, purpose: &[u8], name: &str) -> Digest {
        let mut hasher = SipHasher13::new_with_keys(self.0[0], self.0[1]);
        hasher.write(purpose);
        hasher.write(&[0]);
        hasher.write(name.as_bytes());
        finish(&hasher)
    }
}

/// Turns the keys of one scope into digests. Digests of different scopes share no space, so equal keys never meet.
#[derive(Clone, Copy)]
pub struct KeyHasher {
    keyed: SipHasher13,
}

impl KeyHasher {
    /// The digest of `key`, which may be of any length, also empty.
    #[inline]
    pub fn digest(&self, key: &[u8]) -> Digest {
        let (low, high) = self.keyed.hash(key).as_u64();
        Digest([low, high])
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHasher")
    }
}

fn finish(hasher: &SipHasher13) -> Digest {
    let (low, high) = hasher.finish128().as_u64();
    Digest([low, high])
}
