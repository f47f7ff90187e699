//! The engine and streams: who may open one, and what may come in on it.

use crate::bucket::Timestamp;

use super::{
    super::wire::{FrameError, MAX_FIRST_FRAME, SyncMessage, Tag},
    Engine, StreamId, find_subject,
    frames::count_drop,
};

impl Engine {
    /// A peer opened a stream. `None` if there are too many: close it.
    ///
    /// Where there are too many, the one gives way that has been silent for longest. A member says at once who it is,
    /// so whoever opens streams and keeps silent holds up nobody.
    pub fn accept_stream(&mut self, now: Timestamp) -> Option<StreamId> {
        let accepted = || self.exchanges.iter().filter(|(_, exchange)| !exchange.opened_here());
        if self.left || accepted().count() >= Self::MAX_ACCEPTED {
            self.stats.drops.streams_refused += 1;
            // Ids rise, so the first is the oldest.
            let silent = accepted().find(|(_, exchange)| !exchange.is_proven()).map(|(id, _)| *id);
            self.break_off(now, silent.filter(|_| !self.left)?);
        }
        Some(self.add_exchange(false, now))
    }

    /// A peer opened a stream, and the driver has no room for it.
    pub fn refuse_stream(&mut self) {
        self.stats.drops.streams_refused += 1;
    }

    /// A stream is connected, or has sent what it was given, and can take another frame.
    pub fn handle_stream_writable(&mut self, now: Timestamp, id: StreamId) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        let _in_exchange = exchange.span.clone().entered();
        let (table, scopes) = (&self.table, &mut self.scopes);
        let level = |scope, digest| {
            // Refunds have no bucket of their own.
            let subject = find_subject(scopes, table, scope).filter(|subject| !subject.is_refund)?;
            Some(table.missing(&subject.spec.rule(), digest, now))
        };
        if let Some(message) = exchange.next_piece(&self.log, now, level) {
            self.send_sync(id, &message);
        }
        self.end_if_over(now, id);
    }

    /// A frame arrived on a stream, without its length.
    pub fn handle_stream_frame(&mut self, now: Timestamp, id: StreamId, bytes: &[u8]) {
        self.notice_pause(now);
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        let _in_exchange = exchange.span.clone().entered();
        exchange.traffic.frames_in += 1;
        exchange.traffic.bytes_in += bytes.len() as u64;
        self.stats.frames_in += 1;
        self.stats.bytes_in += bytes.len() as u64;
        if !exchange.is_proven() && bytes.len() > MAX_FIRST_FRAME {
            self.stats.drops.bad_length += 1;
            return self.break_off(now, id);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let message = self.seal.open_stream(now, &mut exchange.channel, bytes, &mut scratch).and_then(|frame| {
            let message = (frame.tag == Tag::Sync).then(|| SyncMessage::decode(frame.body));
            Ok((frame.sender, message.transpose()?))
        });
        self.scratch = scratch;
        match message {
            Ok((_, None)) => self.stats.drops.unknown_tag += 1,
            Ok((sender, Some(message))) if self.peers.contains_key(&sender) => {
                exchange.prove(sender);
                self.handle_sync(now, id, sender, message);
            }
            Ok(_) => {
                self.stats.drops.not_a_member += 1;
                self.break_off(now, id);
            }
            Err(error) => {
                count_drop(&mut self.stats.drops, error);
                // A newer build's message is skipped; anything else leaves no common ground.
                if !matches!(error, FrameError::UnknownTag(_)) {
                    self.break_off(now, id);
                }
            }
        }
    }

    /// A stream could not be opened, or was closed by the peer.
    pub fn handle_stream_closed(&mut self, now: Timestamp, id: StreamId) {
        if let Some(exchange) = self.exchanges.remove(&id) {
            self.exchange_ended(now, &exchange, exchange.is_over());
        }
    }
}
