//! The one place that knows bincode: variable-length integers, little-endian, bounded.
//!
//! bincode is no longer developed. Golden bytes pin what it writes (see the tests beside this module), so that
//! another encoder could take its place without a break on the wire.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bytes::{Buf, BufMut};
use serde::{Serialize, de::DeserializeOwned};

use super::{FrameError, Identity, frame::MAX_STREAM_FRAME};

const CONFIG: Configuration<LittleEndian, Varint, Limit<MAX_STREAM_FRAME>> =
    bincode::config::standard().with_limit::<MAX_STREAM_FRAME>();

/// Appends the encoding of `value`.
///
/// # Errors
///
/// If it is longer than a frame may be. `into` then holds a part of it.
pub(super) fn encode(value: impl Serialize, into: &mut Vec<u8>) -> Result<(), EncodeError> {
    match bincode::serde::encode_into_std_write(value, into, CONFIG) {
        Ok(_) => Ok(()),
        Err(error) => Err(EncodeError(error)),
    }
}

/// Takes one value off the front of `bytes`.
///
/// # Errors
///
/// If there is none. `bytes` is left as it was.
pub(super) fn decode<T: DeserializeOwned>(bytes: &mut &[u8]) -> Result<T, FrameError> {
    let (value, length) = bincode::serde::decode_from_slice(bytes, CONFIG).map_err(|_| FrameError::Malformed)?;
    *bytes = bytes.get(length..).ok_or(FrameError::Malformed)?;
    Ok(value)
}

/// Takes `N` bytes off the front of `bytes` as they are.
///
/// # Errors
///
/// If there are not so many. `bytes` is left as it was.
pub(super) fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], FrameError> {
    let (taken, rest) = bytes.split_first_chunk::<N>().ok_or(FrameError::Malformed)?;
    *bytes = rest;
    Ok(*taken)
}

/// A value cannot be encoded.
#[derive(Debug, thiserror::Error)]
#[error("value cannot be encoded")]
pub struct EncodeError(#[source] bincode::error::EncodeError);

/// foca's messages over the same encoder.
#[derive(Debug, Default)]
pub struct SwimCodec {
    scratch: Vec<u8>,
}

/// A SWIM message cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SwimError {
    /// It cannot be encoded at all.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// It does not fit into what is left of the packet, which is as it was.
    #[error("{needed} bytes do not fit into {left}")]
    Full {
        /// How long it is.
        needed: usize,
        /// How much room there was.
        left: usize,
    },
    /// The bytes hold no such thing.
    #[error("SWIM message is malformed")]
    Malformed,
}

/// What a SWIM message says of its sender and of itself, if it is one.
pub fn read_swim_header(body: &[u8]) -> Option<foca::Header<Identity>> {
    SwimCodec::read(body).ok()
}

impl SwimCodec {
    fn write(&mut self, value: impl Serialize, mut buf: impl BufMut) -> Result<(), SwimError> {
        self.scratch.clear();
        encode(value, &mut self.scratch)?;
        let (needed, left) = (self.scratch.len(), buf.remaining_mut());
        if needed > left {
            return Err(SwimError::Full { needed, left });
        }
        buf.put_slice(&self.scratch);
        Ok(())
    }

    fn read<T: DeserializeOwned>(mut buf: impl Buf) -> Result<T, SwimError> {
        let mut bytes = buf.chunk();
        let before = bytes.len();
        let value = decode(&mut bytes).map_err(|_| SwimError::Malformed)?;
        let read = before - bytes.len();
        buf.advance(read);
        Ok(value)
    }
}

impl foca::Codec<Identity> for SwimCodec {
    type Error = SwimError;

    fn encode_header(&mut self, header: &foca::Header<Identity>, buf: impl BufMut) -> Result<(), SwimError> {
        self.write(header, buf)
    }

    fn decode_header(&mut self, buf: impl Buf) -> Result<foca::Header<Identity>, SwimError> {
        Self::read(buf)
    }

    fn encode_member(&mut self, member: &foca::Member<Identity>, buf: impl BufMut) -> Result<(), SwimError> {
        self.write(member, buf)
    }

    fn decode_member(&mut self, buf: impl Buf) -> Result<foca::Member<Identity>, SwimError> {
        Self::read(buf)
    }
}
