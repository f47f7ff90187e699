//! What the fallback admitted while the primary was away, and the primary does not know of.
//!
//! For each key it keeps how many permits this process admitted and that are not refilled yet. Where the fallback gossips, its
//! level holds what the other replicas admitted too, and refills for all; so a share shrinks by this process's part of what is
//! refilled. The shares of all replicas then sum up to the level, and each charges its own.

mod share;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    hash::BuildHasher,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

use crate::bucket::Timestamp;

pub(super) use share::{Level, Share};

/// Parts with a lock each, and a worker each when it comes to paying.
pub(super) const SHARDS: usize = 16;

/// Shares by key, at most so many.
#[derive(Debug)]
pub(super) struct Owed {
    shards: [Mutex<Shard>; SHARDS],
    /// Keys in all shards. Relaxed: a hint to look.
    keys: AtomicUsize,
    /// Unguessable, as strangers choose the keys.
    hasher: std::hash::RandomState,
    /// Most keys of a shard.
    max_keys: usize,
}

#[derive(Debug, Default)]
struct Shard {
    by_key: HashMap<Box<[u8]>, Entry>,
    /// Bytes of all keys.
    bytes: usize,
    /// When refilled ones were last looked for.
    swept: Timestamp,
}

#[derive(Debug)]
struct Entry {
    share: Share,
    /// Permits that are being charged at this moment.
    paying: u64,
    /// How often it was charged since it is here.
    rounds: u32,
    /// How often that failed.
    failures: u32,
}

/// A key and what is to be charged of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) key: Box<[u8]>,
    pub(super) share: Share,
}

impl Owed {
    /// Bytes that a key may have on average before fewer of them fit.
    const KEY_BYTES: usize = 64;
    /// Charges of a key after which it goes: else one that is used all the time never does. What is admitted during the last
    /// round trip is not charged.
    const MAX_ROUNDS: u32 = 3;
    /// Failures to charge a key after which it is given up: a primary that decides and cannot be charged.
    const MAX_FAILURES: u32 = 5;
    /// Least time between two searches for refilled keys.
    const SWEEP_PAUSE: Duration = Duration::from_secs(1);

    pub(super) fn new(max_keys: usize) -> Self {
        Self {
            shards: Default::default(),
            keys: AtomicUsize::new(0),
            hasher: std::hash::RandomState::new(),
            max_keys: max_keys.div_ceil(SHARDS),
        }
    }

    /// Keys that owe something.
    pub(super) fn len(&self) -> usize {
        self.keys.load(Relaxed)
    }

    pub(super) fn shard_of(&self, key: &[u8]) -> usize {
        // Modulo a power of two; the cast keeps the bits that are needed.
        self.hasher.hash_one(key) as usize % SHARDS
    }

    pub(super) fn is_empty(&self, shard: usize) -> bool {
        self.shards[shard].lock().by_key.is_empty()
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.len() > 0 && self.shards[self.shard_of(key)].lock().by_key.contains_key(key)
    }

    /// The fallback admitted `permits` and left `level` behind. `false` where there is no room for the key.
    pub(super) fn add(&self, key: &[u8], permits: u64, level: Level, now: Timestamp) -> bool {
        let mut shard = self.shards[self.shard_of(key)].lock();
        if let Some(entry) = shard.by_key.get_mut(key) {
            entry.share.admit(permits, level, now);
            return true;
        }
        if !self.has_room(&shard, key) {
            self.sweep(&mut shard, level, now);
            if !self.has_room(&shard, key) {
                return false;
            }
        }
        let share = Share::first(permits, level, now);
        shard.bytes += key.len();
        shard.by_key.insert(key.into(), Entry { share, paying: 0, rounds: 0, failures: 0 });
        self.keys.fetch_add(1, Relaxed);
        true
    }

    fn has_room(&self, shard: &Shard, key: &[u8]) -> bool {
        shard.by_key.len() < self.max_keys && shard.bytes + key.len() <= self.max_keys * Self::KEY_BYTES
    }

    /// Drops what is refilled if nobody else used its key.
    fn sweep(&self, shard: &mut Shard, level: Level, now: Timestamp) {
        if now.saturating_since(shard.swept) < Self::SWEEP_PAUSE {
            return;
        }
        shard.swept = now;
        let (before, mut bytes) = (shard.by_key.len(), 0);
        shard.by_key.retain(|key, entry| {
            let keeps = entry.paying > 0 || !entry.share.is_refilled(level, now);
            bytes += if keeps { key.len() } else { 0 };
            keeps
        });
        shard.bytes = bytes;
        self.keys.fetch_sub(before - shard.by_key.len(), Relaxed);
    }

    /// The fallback gave permits back.
    pub(super) fn give_back(&self, key: &[u8], permits: u64) {
        if self.len() == 0 {
            return;
        }
        if let Some(entry) = self.shards[self.shard_of(key)].lock().by_key.get_mut(key) {
            entry.share.give_back(permits);
        }
    }

    /// Some key of the shard. It stays until it is [paid](Self::paid).
    pub(super) fn next(&self, shard: usize) -> Option<Due> {
        let shard = self.shards[shard].lock();
        let (key, entry) = shard.by_key.iter().find(|(_, entry)| entry.paying == 0)?;
        Some(Due { key: key.clone(), share: entry.share })
    }

    /// Sets apart what is to be charged now, `most` at most, and returns it. Where that is nothing the key goes.
    pub(super) fn pay(&self, key: &[u8], level: Level, now: Timestamp, most: u64) -> u64 {
        let mut shard = self.shards[self.shard_of(key)].lock();
        let Some(entry) = shard.by_key.get_mut(key) else { return 0 };
        entry.share = entry.share.now(level, now);
        let permits = entry.share.permits().min(most);
        if permits == 0 {
            self.remove(&mut shard, key);
            return 0;
        }
        entry.paying = permits;
        entry.rounds += 1;
        entry.share.give_back(permits);
        permits
    }

    /// What was set apart is charged. The key goes, unless as much as a permit was admitted in between.
    pub(super) fn paid(&self, key: &[u8]) {
        let mut shard = self.shards[self.shard_of(key)].lock();
        let Some(entry) = shard.by_key.get_mut(key) else { return };
        entry.paying = 0;
        if entry.share.permits() == 0 || entry.rounds >= Self::MAX_ROUNDS {
            self.remove(&mut shard, key);
        }
    }

    /// What was set apart could not be charged. Returns whether the key is given up, after some such failures.
    pub(super) fn unpaid(&self, key: &[u8]) -> bool {
        let mut shard = self.shards[self.shard_of(key)].lock();
        let Some(entry) = shard.by_key.get_mut(key) else { return false };
        entry.share.take_back(std::mem::take(&mut entry.paying));
        entry.rounds -= 1;
        entry.failures += 1;
        let given_up = entry.failures >= Self::MAX_FAILURES;
        if given_up {
            self.remove(&mut shard, key);
        }
        given_up
    }

    fn remove(&self, shard: &mut Shard, key: &[u8]) {
        if shard.by_key.remove(key).is_some() {
            shard.bytes -= key.len();
            self.keys.fetch_sub(1, Relaxed);
        }
    }
}
