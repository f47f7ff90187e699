//! What other runs have sealed, and which of it was seen.

use std::collections::{BTreeMap, BTreeSet};

use ring::aead::LessSafeKey;
use smallvec::SmallVec;

use crate::{bucket::Timestamp, crdt::RunId};

use super::{
    super::{
        allowance::Allowance,
        wire::{Frame, FrameError, KeyId, MAX_RUNS, Opened, Sealed},
    },
    derive::Root,
    window::{Seen, Window},
};

/// Senders that have proven themselves.
///
/// Only a frame that opens brings a run in here. At the bound of [`MAX_RUNS`] the one that was silent for longest goes,
/// members last. What was recorded of it could then be played again: see DESIGN.md for how little that does.
#[derive(Debug)]
pub(super) struct Inbound {
    senders: BTreeMap<RunId, Sender>,
    members: BTreeSet<RunId>,
    strangers: Allowance,
}

struct Sender {
    /// Of its datagrams, by secret: as many as the ring has, at most.
    keys: SmallVec<[(KeyId, LessSafeKey); 1]>,
    datagrams: Window<DATAGRAM_WORDS>,
    hellos: Window<HELLO_WORDS>,
    heard: Timestamp,
}

/// Datagrams that may overtake one: 2,048, a second of everything that a node sends by default.
const DATAGRAM_WORDS: usize = 33;
/// Streams that may overtake one: 64, about a minute.
const HELLO_WORDS: usize = 2;
/// Runs that nobody has heard of whose frames are tried in a second. Deriving a key takes some microseconds, so a flood
/// of made-up runs costs less than a hundredth of a core. A thousand nodes that start together have room.
const STRANGERS_PER_SECOND: u32 = 4_096;

impl Default for Inbound {
    fn default() -> Self {
        let strangers = Allowance::new(STRANGERS_PER_SECOND, STRANGERS_PER_SECOND);
        Self { senders: BTreeMap::new(), members: BTreeSet::new(), strangers }
    }
}

impl Inbound {
    pub(super) fn len(&self) -> usize {
        self.senders.len()
    }

    pub(super) fn set_member(&mut self, run: RunId, is_member: bool) {
        if is_member {
            self.members.insert(run);
        } else {
            self.members.remove(&run);
        }
    }

    /// Keys of secrets that may be gone. What was seen stays.
    pub(super) fn forget_keys(&mut self) {
        self.senders.values_mut().for_each(|sender| sender.keys.clear());
    }

    /// Opens a datagram into `scratch`. `frame` is what its header said.
    pub(super) fn datagram<'a>(
        &mut self,
        now: Timestamp,
        roots: &[Root],
        bytes: &[u8],
        frame: &Frame<'_>,
        scratch: &'a mut Vec<u8>,
    ) -> Result<Frame<'a>, FrameError> {
        let sealed = Sealed::decode(frame)?;
        let known = self.senders.get_mut(&sealed.sender);
        if let Some(sender) = &known {
            match sender.datagrams.look(sealed.number) {
                Seen::No => {}
                Seen::Yes => return Err(FrameError::Duplicate),
                Seen::TooOld => return Err(FrameError::Replayed),
            }
        }
        let derive = || {
            let root = roots.iter().find(|root| root.id() == sealed.key).ok_or(FrameError::UnknownSecret)?;
            root.datagrams(sealed.sender).ok_or(FrameError::NotAuthentic)
        };
        let Some(sender) = known else {
            // Whoever makes up runs has to know the id of a secret, and pays for being tried.
            if !roots.iter().any(|root| root.id() == sealed.key) {
                return Err(FrameError::UnknownSecret);
            }
            if !self.strangers.take(now) {
                return Err(FrameError::Strangers);
            }
            let key = derive()?;
            let opened = sealed.open(&key, sealed.number, bytes, scratch)?;
            let sender = self.admit(sealed.sender, now);
            sender.keys.push((sealed.key, key));
            sender.datagrams.note(sealed.number);
            return opened.known();
        };
        let at = match sender.keys.iter().position(|(id, _)| *id == sealed.key) {
            Some(at) => at,
            None => {
                sender.keys.push((sealed.key, derive()?));
                sender.keys.len() - 1
            }
        };
        let (_, key) = sender.keys.get(at).ok_or(FrameError::NotAuthentic)?;
        let opened = sealed.open(key, sealed.number, bytes, scratch)?;
        sender.datagrams.note(sealed.number);
        sender.heard = now;
        opened.known()
    }

    /// Opens the first frame of a stream into `scratch`, with the secret `root` that it names.
    pub(super) fn hello<'a>(
        &mut self,
        now: Timestamp,
        root: &Root,
        bytes: &[u8],
        sealed: &Sealed,
        scratch: &'a mut Vec<u8>,
    ) -> Result<Opened<'a>, FrameError> {
        match self.senders.get(&sealed.sender) {
            Some(sender) if sender.hellos.look(sealed.number) != Seen::No => return Err(FrameError::Replayed),
            Some(_) => {}
            None if self.strangers.take(now) => {}
            None => return Err(FrameError::Strangers),
        }
        let key = root.hellos(sealed.sender).ok_or(FrameError::NotAuthentic)?;
        let opened = sealed.open(&key, sealed.number, bytes, scratch)?;
        self.admit(sealed.sender, now).hellos.note(sealed.number);
        Ok(opened)
    }

    fn admit(&mut self, run: RunId, now: Timestamp) -> &mut Sender {
        if !self.senders.contains_key(&run) && self.senders.len() >= MAX_RUNS {
            let members = &self.members;
            let silent = self.senders.iter().min_by_key(|(run, sender)| (members.contains(run), sender.heard));
            if let Some(run) = silent.map(|(run, _)| *run) {
                self.senders.remove(&run);
            }
        }
        let sender = self.senders.entry(run).or_insert_with(|| Sender {
            keys: SmallVec::new(),
            datagrams: Window::default(),
            hellos: Window::default(),
            heard: now,
        });
        sender.heard = now;
        sender
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("heard", &self.heard).finish_non_exhaustive()
    }
}
