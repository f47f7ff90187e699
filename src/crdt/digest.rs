//! Keys and scope names as they are stored and sent: as keyed digests.

use siphasher::sip128::{Hasher128, SipHasher13};
use std::{fmt, hash::Hasher};
use xxhash_rust::xxh3::xxh3_128_with_secret;

/// The 128-bit keyed digest of a key inside its scope.
///
/// Equal on every member and platform. Two keys of one scope collide with a probability of 2^-128 a pair. Who can aim for
/// a collision depends on the [`DigestKey`].
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

    /// From [`Digest::word`] and [`Digest::other_word`].
    pub(crate) const fn from_words(word: u64, other: u64) -> Self {
        Self([word, other])
    }

    /// 64 uniformly distributed bits, the hash under which a table files it.
    pub const fn word(self) -> u64 {
        self.0[0]
    }

    /// The digest under which refunds of this key are counted, and the other way around: a grow-only cell of their own, so that
    /// counts merge as ever. It is no key's digest, except by a collision.
    #[must_use]
    pub const fn of_refunds(self) -> Self {
        Self([self.0[0] ^ REFUNDS, self.0[1]])
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

/// What sets digests and scopes of refunds apart.
const REFUNDS: u64 = 0x7265_6675_6e64_7321;

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

impl ScopeId {
    /// The scope in which refunds of this one are counted, and the other way around. A node that knows of no refunds keeps
    /// and passes on their cells like those of any scope that it does not have.
    #[must_use]
    pub const fn of_refunds(self) -> Self {
        Self(self.0 ^ REFUNDS)
    }
}

impl fmt::Debug for ScopeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scope:{:016x}", self.0)
    }
}

/// The key of all digests of a cluster. Members with different keys share no bucket.
#[derive(Clone, Copy)]
pub struct DigestKey {
    words: [u64; 2],
    /// Whether digests withstand somebody who works at breaking them.
    is_secret: bool,
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey")
    }
}

impl DigestKey {
    /// The key of a cluster that has no secret. It is public, so it protects nobody from aimed collisions, and the digest may
    /// be a fast one: XXH3-128 (Collet), with a secret of its own for each scope.
    pub const PUBLIC: Self = Self { words: [0x7065_6572_6c69_6d69, 0x745f_6469_6765_7374], is_secret: false };

    /// A key of random bytes that outsiders do not know. Digests are SipHash-1-3-128 (Aumasson and Bernstein) then, which is made to
    /// withstand somebody who chooses the input and sees what comes of it.
    pub const fn secret(bytes: [u8; Self::LEN]) -> Self {
        let both = u128::from_le_bytes(bytes);
        Self { words: [both as u64, (both >> 64) as u64], is_secret: true }
    }

    /// A key for one process that tells no digest to anybody: fast, and nobody knows what to aim at.
    pub const fn private(words: [u64; 2]) -> Self {
        Self { words, is_secret: false }
    }

    /// Length in bytes.
    pub const LEN: usize = 16;

    /// The wire form of a scope's name.
    pub fn scope_id(&self, name: &str) -> ScopeId {
        ScopeId(self.derive(b"scope id", name).0[0])
    }

    /// The hasher for the keys of one scope.
    pub fn hasher(&self, scope: &str) -> KeyHasher {
        let seed = self.derive(b"key space", scope).0;
        if self.is_secret { KeyHasher::keyed(seed) } else { KeyHasher::fast(seed) }
    }

    fn derive(&self, purpose: &[u8], name: &str) -> Digest {
        let mut hasher = SipHasher13::new_with_keys(self.words[0], self.words[1]);
        hasher.write(purpose);
        hasher.write(&[0]);
        hasher.write(name.as_bytes());
        finish(&hasher)
    }
}

/// Turns the keys of one scope into digests. Digests of different scopes share no space, so equal keys never meet.
#[derive(Clone)]
pub struct KeyHasher(Algorithm);

#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "there is one for each scope, and a pointer would cost every decision")]
enum Algorithm {
    /// XXH3-128 with this secret.
    Fast([u8; SECRET_LEN]),
    Keyed(SipHasher13),
}

/// Length of XXH3's default secret.
const SECRET_LEN: usize = 192;

impl KeyHasher {
    fn keyed([k0, k1]: [u64; 2]) -> Self {
        Self(Algorithm::Keyed(SipHasher13::new_with_keys(k0, k1)))
    }

    /// The secret is SipHash-1-3-128 over the numbers from 0 on, as little-endian words.
    fn fast([k0, k1]: [u64; 2]) -> Self {
        let stretch = SipHasher13::new_with_keys(k0, k1);
        let mut secret = [0; SECRET_LEN];
        for (number, part) in secret.chunks_exact_mut(Digest::LEN).enumerate() {
            let (low, high) = stretch.hash(&(number as u64).to_le_bytes()).as_u64();
            part.copy_from_slice(&Digest([low, high]).to_bytes());
        }
        Self(Algorithm::Fast(secret))
    }

    /// The digest of `key`, which may be of any length, also empty.
    #[inline]
    pub fn digest(&self, key: &[u8]) -> Digest {
        match &self.0 {
            Algorithm::Fast(secret) => {
                let both = xxh3_128_with_secret(key, secret);
                Digest([both as u64, (both >> 64) as u64])
            }
            Algorithm::Keyed(keyed) => {
                let (low, high) = keyed.hash(key).as_u64();
                Digest([low, high])
            }
        }
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
