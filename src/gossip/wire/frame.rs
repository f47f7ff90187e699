//! The envelope of everything.

use bytes::{BufMut, Bytes, BytesMut};

use crate::crdt::{DigestKey, RunId};

/// The wire format of this build.
pub const VERSION: u8 = 1;
/// Bytes before the body.
pub const HEADER_LEN: usize = 18;
/// Longest datagram, header included: fits the smallest MTU of IPv6 with room for tunnels, and is never fragmented.
pub const MAX_DATAGRAM: usize = 1200;
/// Kept free in each datagram for a seal.
pub(super) const SEAL_ROOM: usize = 40;
/// Longest SWIM message.
pub const MAX_SWIM: usize = MAX_DATAGRAM - HEADER_LEN - SEAL_ROOM;
/// Longest first frame on a stream that a peer opened, header included: nobody has proven anything yet.
pub const MAX_FIRST_FRAME: usize = 256;
/// Longest frame on a stream, header included.
pub const MAX_STREAM_FRAME: usize = 64 * 1024;

/// A cluster's label on the wire. Frames of another cluster are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterId(u64);

impl ClusterId {
    /// The wire form of `label`.
    pub fn new(key: &DigestKey, label: &str) -> Self {
        // A label is no scope, but needs the same thing: 64 keyed bits that outsiders do not hit by accident.
        Self(key.scope_id(label).raw())
    }

    /// Its wire form.
    pub(in super::super) fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

/// What a body is. Append-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    /// A SWIM message, as foca writes it. Datagrams only.
    Swim = 1,
    /// Deltas of the sender's own cells: [`super::DeltaFrame`]. Datagrams only.
    Deltas = 2,
    /// A step of anti-entropy: [`super::SyncMessage`]. Streams only.
    Sync = 3,
    /// The sender is about to leave on purpose. No body. Datagrams only.
    Leave = 4,
    /// A frame of another tag under a seal: [`super::Sealed`].
    Sealed = 5,
}

impl Tag {
    pub(super) fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            1 => Some(Self::Swim),
            2 => Some(Self::Deltas),
            3 => Some(Self::Sync),
            4 => Some(Self::Leave),
            5 => Some(Self::Sealed),
            _ => None,
        }
    }
}

/// A frame whose header was found good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Who sent it, by its own account.
    pub sender: RunId,
    /// What the body is.
    pub tag: Tag,
    /// Not looked at yet.
    pub body: &'a [u8],
}

/// Why bytes are no frame for us. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Shorter than a header.
    #[error("frame is shorter than {HEADER_LEN} bytes")]
    TooShort,
    /// Written in another wire format.
    #[error("frame has wire version {0}, this build speaks {VERSION}")]
    Version(u8),
    /// From another cluster.
    #[error("frame belongs to another cluster")]
    ForeignCluster,
    /// A newer build's tag.
    #[error("frame has the unknown tag {0}")]
    UnknownTag(u8),
    /// The body is not what its tag promises.
    #[error("frame body is malformed")]
    Malformed,
    /// In the clear, where only what is sealed is taken.
    #[error("frame is not sealed")]
    Unsealed,
    /// Sealed under a secret that this node does not have.
    #[error("frame is sealed under an unknown secret")]
    UnknownSecret,
    /// Sealed by somebody without the secret, or changed on its way.
    #[error("frame does not open")]
    NotAuthentic,
    /// Sealed, and seen before. No fault: what matters is said more than once.
    #[error("frame was seen before")]
    Duplicate,
    /// Sealed, and out of its place: too old to tell whether it was seen, our own, or not the next one of its stream.
    #[error("frame is out of its place")]
    Replayed,
    /// Of a run that never proved itself, while too many of those are being tried.
    #[error("frame is of one unknown sender too many")]
    Strangers,
}

impl<'a> Frame<'a> {
    /// Reads the header of `bytes`.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it.
    pub fn decode(bytes: &'a [u8], cluster: ClusterId) -> Result<Self, FrameError> {
        let (header, body) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(FrameError::TooShort)?;
        let [version, rest @ ..] = header;
        if *version != VERSION {
            return Err(FrameError::Version(*version));
        }
        let [c0, c1, c2, c3, c4, c5, c6, c7, r0, r1, r2, r3, r4, r5, r6, r7, tag] = *rest;
        if u64::from_le_bytes([c0, c1, c2, c3, c4, c5, c6, c7]) != cluster.0 {
            return Err(FrameError::ForeignCluster);
        }
        let sender = RunId::from_raw(u64::from_le_bytes([r0, r1, r2, r3, r4, r5, r6, r7]));
        let tag = Tag::from_raw(tag).ok_or(FrameError::UnknownTag(tag))?;
        Ok(Self { sender, tag, body })
    }
}

/// A whole frame around `body`.
pub fn encode_frame(cluster: ClusterId, sender: RunId, tag: Tag, body: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(HEADER_LEN + body.len());
    put_header(&mut bytes, cluster, sender, tag);
    bytes.put_slice(body);
    bytes.freeze()
}

pub(super) fn put_header(bytes: &mut BytesMut, cluster: ClusterId, sender: RunId, tag: Tag) {
    bytes.put_u8(VERSION);
    bytes.put_slice(&cluster.to_bytes());
    bytes.put_u64_le(sender.raw());
    bytes.put_u8(tag as u8);
}
