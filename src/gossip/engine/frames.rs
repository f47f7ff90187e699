//! The engine and datagrams: what may come in at all.

use crate::bucket::Timestamp;

use super::{
    super::{
        Drops,
        wire::{DeltaFrame, Frame, FrameError, MAX_DATAGRAM, Tag},
    },
    Engine,
};

impl Engine {
    /// A datagram arrived. Whatever is wrong with it is counted.
    pub fn handle_datagram(&mut self, now: Timestamp, bytes: &[u8]) {
        self.stats.frames_in += 1;
        self.stats.bytes_in += bytes.len() as u64;
        self.notice_pause(now);
        if bytes.len() > MAX_DATAGRAM {
            self.stats.drops.bad_length += 1;
            return;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        match self.seal.open(now, bytes, &mut scratch) {
            Ok(frame) => self.handle_frame(now, &frame),
            Err(FrameError::Duplicate) => self.stats.duplicates += 1,
            Err(error) => count_drop(&mut self.stats.drops, error),
        }
        self.scratch = scratch;
    }

    fn handle_frame(&mut self, now: Timestamp, frame: &Frame<'_>) {
        match frame.tag {
            Tag::Swim => self.handle_swim(now, frame.body),
            Tag::Deltas => match DeltaFrame::decode(frame.body) {
                Ok(deltas) => self.handle_deltas(now, frame.sender, &deltas),
                Err(error) => count_drop(&mut self.stats.drops, error),
            },
            Tag::Leave if self.peers.contains_key(&frame.sender) => self.absence.leaves(frame.sender),
            Tag::Leave => self.stats.drops.not_a_member += 1,
            Tag::Sync | Tag::Sealed => self.stats.drops.unknown_tag += 1,
        }
    }
}

pub(super) fn count_drop(drops: &mut Drops, error: FrameError) {
    let counter = match error {
        FrameError::TooShort => &mut drops.bad_length,
        FrameError::Version(_) => &mut drops.version,
        FrameError::ForeignCluster => &mut drops.foreign_cluster,
        FrameError::UnknownTag(_) => &mut drops.unknown_tag,
        FrameError::Malformed => &mut drops.malformed,
        FrameError::Unsealed => &mut drops.unsealed,
        FrameError::UnknownSecret => &mut drops.unknown_secret,
        FrameError::NotAuthentic => &mut drops.not_authentic,
        FrameError::Replayed | FrameError::Duplicate => &mut drops.replayed,
        FrameError::Strangers => &mut drops.strangers,
    };
    *counter += 1;
}
