//! What crosses the network.
//!
//! Datagrams and streams carry the same [`Frame`]s; on a stream each is preceded by its length as a little-endian
//! `u32`.
//!
//! | offset | length | what |
//! |--:|--:|---|
//! | 0 | 1 | wire version, [`VERSION`] |
//! | 1 | 8 | cluster label, as a keyed 64-bit digest, little-endian |
//! | 9 | 8 | run id of the sender, little-endian |
//! | 17 | 1 | tag: what the body is |
//! | 18 | | body |
//!
//! Where the sender has a secret, the tag is [`Tag::Sealed`], and tag and body proper are encrypted: see [`Sealed`].
//!
//! Tags are append-only. An unknown tag is skipped and counted, and so are bytes after the last field that a reader
//! knows: new fields go to the end of a body. Every number is bounded where it is read, and nothing is allocated by a
//! length that the bytes at hand do not back.

mod codec;
mod deltas;
mod frame;
mod identity;
mod sealed;
mod sync;

#[cfg(test)]
mod tests;

pub use codec::{SwimCodec, read_swim_header};
pub use deltas::{DeltaFrame, DeltaWriter};
pub use frame::{
    ClusterId, Frame, FrameError, HEADER_LEN, MAX_DATAGRAM, MAX_FIRST_FRAME, MAX_STREAM_FRAME, MAX_SWIM, Tag, VERSION,
    encode_frame,
};
pub use identity::{Identity, MAX_NAME_LEN, NameError, NodeName};
pub use sealed::{KeyId, Opened, SEAL_LEN, SEALED_HEADER_LEN, Sealed};
pub use sync::{Covered, HeldRun, MAX_RUNS, RecordBatch, SyncMessage};
