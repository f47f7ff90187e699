//! Deltas: what the sender admitted, key by key.

use std::time::Duration;

use crate::crdt::{Delta, Digest, Epoch, ScopeId, Version};

use super::{
    FrameError,
    codec::{decode, encode, take},
    frame::{HEADER_LEN, MAX_DATAGRAM, SEAL_ROOM},
};

/// A body of [`Tag::Deltas`](super::Tag::Deltas): all that the sender published in a range of its versions.
///
/// | field | form |
/// |---|---|
/// | age in milliseconds: each first permit had been admitted before that | 2 bytes |
/// | version before the first delta | varint |
/// | then groups until the end | |
/// | – scope | 8 bytes |
/// | – number of deltas | 1 byte, not 0 |
/// | – each: digest | 16 bytes |
/// | – each: epoch, count after, count gained | 3 varints |
///
/// Groups go on to the end, so there is no room for further fields: those take a new tag.
///
/// The deltas have successive versions in their order here, so the frame says which versions it covers, and a gap
/// shows a frame that was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeltaFrame {
    /// The version before the first delta.
    pub from: Version,
    /// The version of the last delta.
    pub to: Version,
    /// Of each delta, the first permit was admitted at least that long before the frame was written. Whole
    /// milliseconds, at most 65,535.
    pub age: Duration,
    /// In the order of their versions.
    pub deltas: Vec<Delta>,
}

impl DeltaFrame {
    /// Reads a body.
    ///
    /// # Errors
    ///
    /// Where it is not as described above, where a count gained is more than the count, or where versions run over.
    pub fn decode(mut body: &[u8]) -> Result<Self, FrameError> {
        let age = Duration::from_millis(u16::from_le_bytes(take(&mut body)?).into());
        let from = Version::from_raw(decode(&mut body)?);
        let mut to = from;
        let mut deltas = Vec::with_capacity(body.len() / (Digest::LEN + 3));
        while !body.is_empty() {
            let scope = ScopeId::from_raw(u64::from_le_bytes(take(&mut body)?));
            let [count] = take(&mut body)?;
            if count == 0 {
                return Err(FrameError::Malformed);
            }
            for _ in 0..count {
                let digest = Digest::from_bytes(take(&mut body)?);
                let (epoch, after, gained): (u32, u64, u64) = decode(&mut body)?;
                let before = after.checked_sub(gained).ok_or(FrameError::Malformed)?;
                let version = to.checked_add(1).ok_or(FrameError::Malformed)?;
                to = version;
                deltas.push(Delta { scope, digest, epoch: Epoch::from_raw(epoch), from: before, to: after, version });
            }
        }
        Ok(Self { from, to, age, deltas })
    }
}

/// Packs deltas into bodies of datagrams. It knows its limit, and starts a new body before one would not fit.
#[derive(Debug, Default)]
pub struct DeltaWriter {
    done: Vec<Vec<u8>>,
    body: Vec<u8>,
    /// Of the body: the least age of its deltas.
    age: Duration,
    last: Option<Last>,
    scratch: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    version: Version,
    scope: ScopeId,
    /// Where the group's number of deltas stands.
    count_at: usize,
}

impl DeltaWriter {
    const LIMIT: usize = MAX_DATAGRAM - HEADER_LEN - SEAL_ROOM;
    const GROUP_HEADER: usize = 9;
    /// Length of the age, with which a body begins.
    const AGE: usize = 2;

    /// Adds one delta, whose first permit was admitted `age` ago. Deltas come in the order of their versions, and
    /// best in that of their ages, since a body has one age for all.
    pub fn push(&mut self, delta: &Delta, age: Duration) {
        self.scratch.clear();
        self.scratch.extend_from_slice(&delta.digest.to_bytes());
        let written = encode((delta.epoch.raw(), delta.to, delta.to - delta.from), &mut self.scratch);
        debug_assert!(written.is_ok(), "three integers are shorter than a frame");

        let follows = self.last.filter(|last| last.version.checked_add(1) == Some(delta.version));
        let fits = self.body.len() + Self::GROUP_HEADER + self.scratch.len() <= Self::LIMIT;
        let last = match follows {
            Some(last) if fits => last,
            _ => self.begin_body(delta),
        };
        let last = match self.body.get_mut(last.count_at) {
            Some(count) if last.scope == delta.scope && *count < u8::MAX => {
                *count += 1;
                last
            }
            _ => {
                self.body.extend_from_slice(&delta.scope.raw().to_le_bytes());
                let count_at = self.body.len();
                self.body.push(1);
                Last { scope: delta.scope, count_at, ..last }
            }
        };
        self.body.extend_from_slice(&self.scratch);
        self.age = self.age.min(age);
        self.last = Some(Last { version: delta.version, ..last });
    }

    /// All bodies, in the order of their versions.
    pub fn finish(mut self) -> Vec<Vec<u8>> {
        self.end_body();
        self.done
    }

    fn begin_body(&mut self, first: &Delta) -> Last {
        self.end_body();
        let before = Version::from_raw(first.version.raw().saturating_sub(1));
        self.age = Duration::MAX;
        self.body.extend_from_slice(&[0; Self::AGE]);
        let written = encode(before.raw(), &mut self.body);
        debug_assert!(written.is_ok(), "an integer is shorter than a frame");
        Last { version: before, scope: first.scope, count_at: usize::MAX }
    }

    fn end_body(&mut self) {
        if let Some(age) = self.body.first_chunk_mut::<{ Self::AGE }>() {
            *age = u16::try_from(self.age.as_millis()).unwrap_or(u16::MAX).to_le_bytes();
            self.done.push(std::mem::take(&mut self.body));
        }
    }
}
