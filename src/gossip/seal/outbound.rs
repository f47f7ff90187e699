//! Datagrams and first frames of this run.

use bytes::Bytes;
use ring::aead::LessSafeKey;

use crate::crdt::RunId;

use super::super::wire::{ClusterId, KeyId, Sealed, Tag};

/// What this run has sealed so far.
#[derive(Default)]
pub(super) struct Outbound {
    key: Option<LessSafeKey>,
    /// The number of the next datagram.
    next: u64,
    /// The number of the next stream that this run opens or is called by.
    next_stream: u64,
}

impl Outbound {
    /// Numbers are refused from here on: half of what there is, far from any overflow.
    pub(super) const LAST: u64 = 1 << 63;

    pub(super) fn set_root(&mut self, key: Option<LessSafeKey>) {
        self.key = key;
    }

    pub(super) fn datagram(
        &mut self,
        cluster: ClusterId,
        own: RunId,
        id: KeyId,
        tag: Tag,
        body: &[u8],
    ) -> Option<Bytes> {
        let key = self.key.as_ref()?;
        let number = take(&mut self.next)?;
        Sealed { sender: own, key: id, number }.seal(cluster, key, number, tag, body)
    }

    pub(super) fn stream_number(&mut self) -> Option<u64> {
        take(&mut self.next_stream)
    }

    #[cfg(test)]
    pub(super) fn skip_to(&mut self, number: u64) {
        self.next = number;
    }
}

/// A number that is never given again.
fn take(next: &mut u64) -> Option<u64> {
    let number = *next;
    *next = number.checked_add(1).filter(|next| *next <= Outbound::LAST)?;
    Some(number)
}
