//! What an operator may set aside or watch: a quota that only watches, keys that are exempt or blocked, and the keys that
//! ask for most.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use parking_lot::{Mutex, RwLock};

use crate::{bucket::Decision, crdt::Digest};

use super::top_keys::{TopKey, TopKeys};

/// What is done to a key whatever its bucket says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Override {
    /// All its requests pass, and consume nothing.
    Exempt,
    /// All its requests are refused.
    Blocked,
}

/// The controls of one scope, on this node.
///
/// Most scopes have none in use, and a decision there reads one flag.
#[derive(Debug, Default)]
pub struct Controls {
    /// Whether any of the others is in use. Relaxed, like `shadow` and `tracks`: whoever sets them waits for nobody.
    in_use: AtomicBool,
    shadow: AtomicBool,
    tracks: AtomicBool,
    /// Whoever has it for writing may change the flags.
    overrides: RwLock<HashMap<Digest, Override>>,
    top_keys: Mutex<TopKeys>,
}

impl Controls {
    /// Whether anything but the quota decides, or somebody wants to know of requests.
    #[inline]
    pub fn in_use(&self) -> bool {
        self.in_use.load(Relaxed)
    }

    /// Whether requests pass that the quota refuses.
    pub fn is_shadow(&self) -> bool {
        self.shadow.load(Relaxed)
    }

    /// Lets requests pass that the quota refuses, or not.
    pub fn set_shadow(&self, shadow: bool) {
        let overrides = self.overrides.write();
        self.shadow.store(shadow, Relaxed);
        self.see_whether_in_use(&overrides);
    }

    /// What is done to a key, if anything.
    pub fn override_of(&self, digest: Digest) -> Option<Override> {
        self.overrides.read().get(&digest).copied()
    }

    /// Does that to a key from now on, or nothing.
    pub fn set_override(&self, digest: Digest, to: Option<Override>) {
        let mut overrides = self.overrides.write();
        match to {
            Some(to) => overrides.insert(digest, to),
            None => overrides.remove(&digest),
        };
        self.see_whether_in_use(&overrides);
    }

    /// Counts anew which keys ask for most, with room for so many; 0 for an end of it.
    pub fn track(&self, room: usize) {
        let overrides = self.overrides.write();
        self.top_keys.lock().restart(room);
        self.tracks.store(room != 0, Relaxed);
        self.see_whether_in_use(&overrides);
    }

    /// Counts a request, if requests are counted and nobody else is at it: no decision waits for a count.
    pub fn note(&self, digest: Digest, key: &[u8], cost: u64, decision: &Decision) {
        if self.tracks.load(Relaxed)
            && let Some(mut top_keys) = self.top_keys.try_lock()
        {
            top_keys.note(digest, key, cost, decision.allowed);
        }
    }

    /// At most `most` keys, those that asked for most first.
    pub fn top_keys(&self, most: usize) -> Vec<TopKey> {
        self.top_keys.lock().list(most)
    }

    fn see_whether_in_use(&self, overrides: &HashMap<Digest, Override>) {
        let in_use = self.is_shadow() || self.tracks.load(Relaxed) || !overrides.is_empty();
        self.in_use.store(in_use, Relaxed);
    }
}
