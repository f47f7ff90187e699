//! Frames under a seal.

use bytes::{BufMut, Bytes, BytesMut};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce};

use crate::crdt::RunId;

use super::{
    Frame, FrameError, HEADER_LEN, Tag,
    frame::{ClusterId, SEAL_ROOM, put_header},
};

/// Which secret a frame is sealed under: 32 bits that follow from it and from the cluster's label.
///
/// It spares readers from trying all that they have, and tells a secret that they lack from a frame that is forged. It
/// tells everybody else which frames are under one secret, and nothing about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyId([u8; Self::LEN]);

impl KeyId {
    /// Length of the wire form.
    pub const LEN: usize = 4;

    /// From its wire form.
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }
}

/// What goes in the clear of a sealed frame: [`Tag::Sealed`]'s header. All of it is authenticated.
///
/// | offset | length | what |
/// |--:|--:|---|
/// | 0 | 18 | the header of a frame, with tag 5 |
/// | 18 | 4 | id of the secret |
/// | 22 | 8 | number, little-endian |
/// | 30 | | sealed by AES-256-GCM: the frame's own tag, then its body; and 16 bytes that authenticate |
///
/// The nonce is four zero bytes and a number, little-endian. That number stands in the frame, but for the frames of a
/// stream after the first of its direction, where it is how many came before. In the answer to a first frame the field
/// holds the answering end's number of the stream instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Who sealed it.
    pub sender: RunId,
    /// Under which secret.
    pub key: KeyId,
    /// The field at offset 22.
    pub number: u64,
}

/// Bytes before what is encrypted.
pub const SEALED_HEADER_LEN: usize = HEADER_LEN + KeyId::LEN + 8;
/// Bytes by which a sealed frame is longer than a plain one.
pub const SEAL_LEN: usize = KeyId::LEN + 8 + 1 + 16;
const _: () = assert!(SEAL_LEN <= SEAL_ROOM);

/// A frame that opened: what it is may still be unknown to this build.
pub struct Opened<'a> {
    sender: RunId,
    tag: u8,
    body: &'a [u8],
}

impl<'a> Opened<'a> {
    /// The frame.
    ///
    /// # Errors
    ///
    /// Where its tag is a newer build's, or a seal inside a seal.
    pub fn known(self) -> Result<Frame<'a>, FrameError> {
        match Tag::from_raw(self.tag) {
            Some(tag) if tag != Tag::Sealed => Ok(Frame { sender: self.sender, tag, body: self.body }),
            _ => Err(FrameError::UnknownTag(self.tag)),
        }
    }
}

impl Sealed {
    /// Reads what a frame with [`Tag::Sealed`] has in the clear.
    ///
    /// # Errors
    ///
    /// If it is too short to hold a frame.
    pub fn decode(frame: &Frame<'_>) -> Result<Self, FrameError> {
        let (key, rest) = frame.body.split_first_chunk::<{ KeyId::LEN }>().ok_or(FrameError::Malformed)?;
        let (number, text) = rest.split_first_chunk::<8>().ok_or(FrameError::Malformed)?;
        if text.len() < 1 + AES_256_GCM.tag_len() {
            return Err(FrameError::Malformed);
        }
        Ok(Self { sender: frame.sender, key: KeyId(*key), number: u64::from_le_bytes(*number) })
    }

    /// The whole frame. `None` never: a frame is shorter than the cipher may take.
    pub fn seal(&self, cluster: ClusterId, key: &LessSafeKey, nonce: u64, tag: Tag, body: &[u8]) -> Option<Bytes> {
        let mut bytes = BytesMut::with_capacity(HEADER_LEN + body.len() + SEAL_LEN);
        put_header(&mut bytes, cluster, self.sender, Tag::Sealed);
        bytes.put_slice(&self.key.0);
        bytes.put_u64_le(self.number);
        bytes.put_u8(tag as u8);
        bytes.put_slice(body);
        let (clear, text) = bytes.split_at_mut(SEALED_HEADER_LEN);
        let authenticator = key.seal_in_place_separate_tag(as_nonce(nonce), Aad::from(clear), text).ok()?;
        bytes.put_slice(authenticator.as_ref());
        Some(bytes.freeze())
    }

    /// Opens the frame `bytes` into `scratch`, whose contents are lost.
    ///
    /// # Errors
    ///
    /// [`FrameError::NotAuthentic`], whatever the reason.
    pub fn open<'a>(
        &self,
        key: &LessSafeKey,
        nonce: u64,
        bytes: &[u8],
        scratch: &'a mut Vec<u8>,
    ) -> Result<Opened<'a>, FrameError> {
        let (clear, text) = bytes.split_at_checked(SEALED_HEADER_LEN).ok_or(FrameError::NotAuthentic)?;
        scratch.clear();
        scratch.extend_from_slice(text);
        let opened = key.open_in_place(as_nonce(nonce), Aad::from(clear), scratch);
        match opened.map_err(|_| FrameError::NotAuthentic)? {
            [tag, body @ ..] => Ok(Opened { sender: self.sender, tag: *tag, body }),
            [] => Err(FrameError::NotAuthentic),
        }
    }
}

fn as_nonce(number: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[4..].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}
