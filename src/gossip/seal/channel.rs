//! Streams: a key for each direction of each.

use bytes::Bytes;
use ring::aead::LessSafeKey;

use crate::{bucket::Timestamp, crdt::RunId};

use super::{
    super::wire::{Frame, FrameError, KeyId, Sealed, Tag, encode_frame},
    Seal,
    derive::{Direction, Root, StreamName},
};

/// The seal of one stream, at one of its ends.
///
/// Whoever opens a stream decides whether it is sealed. Its first frame is sealed under a key of its run, with a number
/// that it gives to no other stream; the answer has a number of the other end, and from there on each direction has a
/// key that follows from both. So only the first frame of a recording means anything elsewhere, once at each node.
///
/// A stream keeps the secrets that it began with; it does not last long.
#[derive(Default)]
pub struct Channel(State);

#[derive(Default)]
enum State {
    /// Nothing went either way.
    #[default]
    Fresh,
    Plain,
    /// We opened it under that number and that secret, and nothing came back yet.
    Calling(u64, Root),
    Sealed(Box<Ends>),
}

struct Ends {
    peer: RunId,
    send: End,
    receive: End,
}

/// One direction.
struct End {
    key: LessSafeKey,
    id: KeyId,
    /// How many frames came before the next one.
    next: u64,
    /// Of the answer to a first frame: our number of the stream, which the other end has to learn.
    number: Option<u64>,
}

impl End {
    fn new(root: &Root, name: &StreamName, direction: Direction, next: u64) -> Option<Self> {
        Some(Self { key: root.stream(name, direction)?, id: root.id(), next, number: None })
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            State::Fresh => "Fresh",
            State::Plain => "Plain",
            State::Calling(..) => "Calling",
            State::Sealed(_) => "Sealed",
        })
    }
}

impl Seal {
    /// The next frame of a stream. `None` if it is not our turn: whoever opens a stream waits for the answer to its
    /// first frame.
    pub fn stream_frame(&mut self, channel: &mut Channel, tag: Tag, body: &[u8]) -> Option<Bytes> {
        match &mut channel.0 {
            State::Fresh => match self.root().cloned() {
                Some(root) => {
                    let number = self.outbound.stream_number()?;
                    let sealed = Sealed { sender: self.own, key: root.id(), number };
                    let frame = sealed.seal(self.cluster, &root.hellos(self.own)?, number, tag, body);
                    channel.0 = State::Calling(number, root);
                    frame
                }
                None => {
                    channel.0 = State::Plain;
                    Some(encode_frame(self.cluster, self.own, tag, body))
                }
            },
            State::Plain => Some(encode_frame(self.cluster, self.own, tag, body)),
            State::Calling(..) => None,
            State::Sealed(ends) => {
                let End { key, id, next, number } = &mut ends.send;
                let sealed = Sealed { sender: self.own, key: *id, number: number.take().unwrap_or(*next) };
                let frame = sealed.seal(self.cluster, key, *next, tag, body);
                *next += 1;
                frame
            }
        }
    }

    /// Reads a frame of a stream, which is opened into `scratch` if it is sealed.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it. After anything but an unknown tag the stream is of no use.
    pub fn open_stream<'a>(
        &mut self,
        now: Timestamp,
        channel: &mut Channel,
        bytes: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Result<Frame<'a>, FrameError> {
        let frame = Frame::decode(bytes, self.cluster)?;
        if frame.tag != Tag::Sealed {
            if matches!(channel.0, State::Calling(..) | State::Sealed(_)) || !self.takes_plain() {
                return Err(FrameError::Unsealed);
            }
            channel.0 = State::Plain;
            return Ok(frame);
        }
        if frame.sender == self.own {
            return Err(FrameError::Replayed);
        }
        let sealed = Sealed::decode(&frame)?;
        match &mut channel.0 {
            State::Fresh => self.open_hello(now, channel, &sealed, bytes, scratch),
            State::Plain => Err(FrameError::NotAuthentic),
            State::Calling(number, root) => {
                let name = StreamName { opener: (self.own, *number), called: (sealed.sender, sealed.number) };
                let send = End::new(root, &name, Direction::FromOpener, 1).ok_or(FrameError::NotAuthentic)?;
                let theirs = self.root_of(sealed.key).ok_or(FrameError::UnknownSecret)?;
                let receive = End::new(theirs, &name, Direction::FromCalled, 1).ok_or(FrameError::NotAuthentic)?;
                let opened = sealed.open(&receive.key, 0, bytes, scratch)?;
                channel.0 = State::Sealed(Box::new(Ends { peer: sealed.sender, send, receive }));
                opened.known()
            }
            State::Sealed(ends) => {
                let End { key, id, next, .. } = &mut ends.receive;
                // A stream keeps its order, so anything else was played in.
                if sealed.sender != ends.peer || sealed.key != *id || sealed.number != *next {
                    return Err(FrameError::Replayed);
                }
                let opened = sealed.open(key, *next, bytes, scratch)?;
                *next += 1;
                opened.known()
            }
        }
    }

    /// The first frame of a stream that somebody opened here.
    fn open_hello<'a>(
        &mut self,
        now: Timestamp,
        channel: &mut Channel,
        sealed: &Sealed,
        bytes: &[u8],
        scratch: &'a mut Vec<u8>,
    ) -> Result<Frame<'a>, FrameError> {
        let theirs = self.root_of(sealed.key).cloned().ok_or(FrameError::UnknownSecret)?;
        let opened = self.inbound.hello(now, &theirs, bytes, sealed, scratch)?;
        let number = self.outbound.stream_number().ok_or(FrameError::NotAuthentic)?;
        let name = StreamName { opener: (sealed.sender, sealed.number), called: (self.own, number) };
        // Also a node that does not seal by itself yet answers what is sealed in kind.
        let ours = self.roots.first().unwrap_or(&theirs);
        let send = End::new(ours, &name, Direction::FromCalled, 0).ok_or(FrameError::NotAuthentic)?;
        let receive = End::new(&theirs, &name, Direction::FromOpener, 1).ok_or(FrameError::NotAuthentic)?;
        let send = End { number: Some(number), ..send };
        channel.0 = State::Sealed(Box::new(Ends { peer: sealed.sender, send, receive }));
        opened.known()
    }
}
