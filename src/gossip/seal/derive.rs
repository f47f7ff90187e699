//! The keys that a secret leads to: HKDF-SHA256 (RFC 5869).

use ring::{
    aead::{AES_256_GCM, LessSafeKey, UnboundKey},
    hkdf::{HKDF_SHA256, KeyType, Prk, Salt},
};

use crate::crdt::{DigestKey, RunId};

use super::{
    super::wire::{ClusterId, KeyId, VERSION},
    SECRET_LEN,
};

/// A secret of one cluster, from which keys are derived.
#[derive(Clone)]
pub(super) struct Root {
    prk: Prk,
    id: KeyId,
}

/// A stream, as both ends know it: which run opened it and by what number, and who was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamName {
    pub(super) opener: (RunId, u64),
    pub(super) called: (RunId, u64),
}

/// Which way a frame goes on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    FromOpener,
    FromCalled,
}

impl Root {
    pub(super) fn new(cluster: ClusterId, secret: &[u8; SECRET_LEN]) -> Self {
        let mut salt = [0; 9];
        salt[0] = VERSION;
        salt[1..].copy_from_slice(&cluster.to_bytes());
        let prk = Salt::new(HKDF_SHA256, &salt).extract(secret);
        let mut id = [0; KeyId::LEN];
        expand(&prk, &[b"key id"], &mut id);
        Self { prk, id: KeyId::from_bytes(id) }
    }

    /// What a frame calls it.
    pub(super) fn id(&self) -> KeyId {
        self.id
    }

    /// For the datagrams of `run`.
    pub(super) fn datagrams(&self, run: RunId) -> Option<LessSafeKey> {
        self.key(&[b"datagram", &run.raw().to_le_bytes()])
    }

    /// For the first frames of the streams that `run` opens.
    pub(super) fn hellos(&self, run: RunId) -> Option<LessSafeKey> {
        self.key(&[b"hello", &run.raw().to_le_bytes()])
    }

    /// For all other frames of a stream, those of one direction.
    pub(super) fn stream(&self, name: &StreamName, direction: Direction) -> Option<LessSafeKey> {
        let way: &[u8] = match direction {
            Direction::FromOpener => b"from opener",
            Direction::FromCalled => b"from called",
        };
        let StreamName { opener, called } = name;
        self.key(&[
            way,
            &opener.0.raw().to_le_bytes(),
            &opener.1.to_le_bytes(),
            &called.0.raw().to_le_bytes(),
            &called.1.to_le_bytes(),
        ])
    }

    /// `None` never: a key is no longer than HKDF may give. A node that could not derive would drop what it cannot
    /// seal or open.
    fn key(&self, info: &[&[u8]]) -> Option<LessSafeKey> {
        let okm = self.prk.expand(info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(okm)))
    }
}

/// See [`super::digest_key`].
pub(super) fn digest_key(secret: &[u8]) -> DigestKey {
    let mut key = [0; DigestKey::LEN];
    let prk = Salt::new(HKDF_SHA256, b"peerlimit digest").extract(secret);
    expand(&prk, &[b"digest key"], &mut key);
    DigestKey::secret(key)
}

fn expand(prk: &Prk, info: &[&[u8]], into: &mut [u8]) {
    struct Length(usize);
    impl KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let done = prk.expand(info, Length(into.len())).and_then(|okm| okm.fill(into));
    debug_assert!(done.is_ok(), "fewer bytes than HKDF may give");
}
