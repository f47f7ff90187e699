//! Seals: every frame of a cluster with a secret is encrypted and authenticated.
//!
//! | thing | how |
//! |---|---|
//! | cipher | AES-256-GCM (RFC 5116), by `ring` |
//! | keys | HKDF-SHA256 (RFC 5869) of a secret, salted with the wire version and the cluster's label |
//! | one for | the datagrams of a run; the first frames of streams that a run opens; each direction of each stream |
//! | nonce | a number that the sender raises by one with each frame of that key |
//! | associated data | everything that goes in the clear: version, label, sender, tag, id of the secret, number |
//!
//! A run id is drawn at random at each start, so no two runs share a key, and a number never repeats within one. That
//! takes no randomness: the engine needs none to seal, and a stream is told from all others by the numbers of both
//! ends.
//!
//! What is sealed in which form is in [`wire`](super::wire); this module has the [`Secrets`] of a node, the keys that
//! they lead to, and what has to be remembered of senders so that nothing counts twice.

mod channel;
mod derive;
mod inbound;
mod outbound;
mod secrets;
mod text;
mod window;

#[cfg(test)]
mod tests;

use crate::{
    bucket::Timestamp,
    crdt::{DigestKey, RunId},
};

use super::wire::{ClusterId, Frame, FrameError, KeyId, Tag, encode_frame};

pub use secrets::{MAX_SECRETS, SECRET_LEN, Sealing, SecretError, Secrets};

pub use channel::Channel;

use bytes::Bytes;
use derive::Root;
use inbound::Inbound;
use outbound::Outbound;

/// The digest key of a cluster whose members all have `secret`: HKDF-SHA256 of it.
///
/// It is no part of the [`Secrets`], because those change while the cluster lives, and a digest must not.
pub fn digest_key(secret: &[u8]) -> DigestKey {
    derive::digest_key(secret)
}

/// One node's seal: what it sends under, and what it takes.
pub struct Seal {
    cluster: ClusterId,
    own: RunId,
    /// Where it stands between no secret and nothing but sealed frames.
    sealing: Sealing,
    /// One for each secret, in the order of the ring. Empty without a secret.
    roots: Vec<Root>,
    outbound: Outbound,
    inbound: Inbound,
}

impl Seal {
    /// A seal of the run `own`, which takes and sends everything in the clear where there are no secrets.
    pub fn new(cluster: ClusterId, own: RunId, secrets: Option<&Secrets>) -> Self {
        let mut seal = Self {
            cluster,
            own,
            sealing: Sealing::Prepared,
            roots: Vec::new(),
            outbound: Outbound::default(),
            inbound: Inbound::default(),
        };
        if let Some(secrets) = secrets {
            seal.set_secrets(secrets);
        }
        seal
    }

    /// Takes other secrets from now on. Numbers go on, and what was seen stays seen: neither depends on a secret.
    pub fn set_secrets(&mut self, secrets: &Secrets) {
        self.sealing = secrets.sealing();
        self.roots = secrets.keys().map(|secret| Root::new(self.cluster, secret)).collect();
        self.outbound.set_root(self.root().and_then(|root| root.datagrams(self.own)));
        self.inbound.forget_keys();
    }

    /// A datagram, sealed if the node seals. `None` if there are no numbers left, which takes longer than any machine
    /// lives.
    pub fn datagram(&mut self, tag: Tag, body: &[u8]) -> Option<Bytes> {
        match self.root() {
            Some(root) => {
                let id = root.id();
                self.outbound.datagram(self.cluster, self.own, id, tag, body)
            }
            None => Some(encode_frame(self.cluster, self.own, tag, body)),
        }
    }

    /// Reads a datagram, which is opened into `scratch` if it is sealed.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it. Nothing is remembered of a frame that does not open, and
    /// [`FrameError::Duplicate`] is what a healthy cluster sees of everything that is said twice.
    pub fn open<'a>(
        &mut self,
        now: Timestamp,
        bytes: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Result<Frame<'a>, FrameError> {
        let frame = Frame::decode(bytes, self.cluster)?;
        if frame.tag != Tag::Sealed {
            return if self.takes_plain() { Ok(frame) } else { Err(FrameError::Unsealed) };
        }
        if frame.sender == self.own {
            return Err(FrameError::Replayed);
        }
        self.inbound.datagram(now, &self.roots, bytes, &frame, scratch)
    }

    /// Says who is a member: what is remembered of others goes first where there is too much.
    pub(super) fn set_member(&mut self, run: RunId, is_member: bool) {
        self.inbound.set_member(run, is_member);
    }

    /// Runs that are remembered.
    pub fn senders(&self) -> usize {
        self.inbound.len()
    }

    fn takes_plain(&self) -> bool {
        self.sealing != Sealing::Required
    }

    /// What to seal with, if this node seals.
    fn root(&self) -> Option<&Root> {
        self.roots.first().filter(|_| self.sealing != Sealing::Prepared)
    }

    fn root_of(&self, id: KeyId) -> Option<&Root> {
        self.roots.iter().find(|root| root.id() == id)
    }
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seal").field("sealing", &self.sealing).field("secrets", &self.roots.len()).finish()
    }
}
