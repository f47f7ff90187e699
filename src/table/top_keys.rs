//! The keys that ask for most, in bounded memory.

use std::collections::{BTreeSet, HashMap};

use crate::crdt::Digest;

/// A key that asks for much, and how much.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopKey {
    /// The key, cut to its first 256 bytes.
    pub key: Vec<u8>,
    /// Permits that its requests asked for: at least `asked - uncertain`, and not more than `asked`.
    pub asked: u64,
    /// Those of them that passed, since it is counted.
    pub admitted: u64,
    /// What others may have asked for that held its place before: 0 as long as there was room for all keys.
    pub uncertain: u64,
}

/// Counts the keys that ask for most.
///
/// Space-Saving (Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in data streams",
/// 2005): a new key takes the place of the least one, and its count. With room for `n` keys, each that asks for more
/// than an `n`th of all is there.
#[derive(Debug, Default)]
pub(super) struct TopKeys {
    room: usize,
    by_digest: HashMap<Digest, TopKey>,
    /// The same keys, the least first.
    by_asked: BTreeSet<(u64, Digest)>,
}

impl TopKeys {
    /// Bytes of a key that are kept.
    const LONGEST_KEY: usize = 256;

    /// Forgets all, and has room for so many keys.
    pub(super) fn restart(&mut self, room: usize) {
        *self = Self { room, ..Self::default() };
    }

    /// A request of `key` asked for `cost` permits.
    pub(super) fn note(&mut self, digest: Digest, key: &[u8], cost: u64, passed: bool) {
        if self.room == 0 || cost == 0 {
            return;
        }
        let admitted = if passed { cost } else { 0 };
        let known = self.by_digest.len();
        if let Some(entry) = self.by_digest.get_mut(&digest) {
            self.by_asked.remove(&(entry.asked, digest));
            entry.asked = entry.asked.saturating_add(cost);
            entry.admitted = entry.admitted.saturating_add(admitted);
            self.by_asked.insert((entry.asked, digest));
            return;
        }
        let least = if known < self.room { None } else { self.by_asked.pop_first() };
        let uncertain = least.map_or(0, |(asked, gone)| {
            self.by_digest.remove(&gone);
            asked
        });
        let asked = uncertain.saturating_add(cost);
        let key = key[..key.len().min(Self::LONGEST_KEY)].to_vec();
        self.by_digest.insert(digest, TopKey { key, asked, admitted, uncertain });
        self.by_asked.insert((asked, digest));
    }

    /// At most `most` keys, those that asked for most first.
    pub(super) fn list(&self, most: usize) -> Vec<TopKey> {
        let descending = self.by_asked.iter().rev().take(most);
        descending.filter_map(|(_, digest)| self.by_digest.get(digest).cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(key: u64) -> Digest {
        crate::crdt::DigestKey::PUBLIC.hasher("").digest(&key.to_le_bytes())
    }

    fn note(top: &mut TopKeys, key: u64, cost: u64, passed: bool) {
        top.note(digest(key), &key.to_le_bytes(), cost, passed);
    }

    #[test]
    fn counts_are_exact_while_there_is_room() {
        let mut top = TopKeys::default();
        top.restart(3);
        note(&mut top, 1, 5, true);
        note(&mut top, 2, 1, true);
        note(&mut top, 2, 7, false);
        note(&mut top, 3, 0, true);
        let entry =
            |key: u64, asked, admitted| TopKey { key: key.to_le_bytes().to_vec(), asked, admitted, uncertain: 0 };
        assert_eq!(top.list(9), [entry(2, 8, 1), entry(1, 5, 5)]);
        assert_eq!(top.list(1), [entry(2, 8, 1)]);
        top.restart(0);
        note(&mut top, 1, 5, true);
        assert!(top.list(9).is_empty());
    }

    #[test]
    fn heavy_keys_stay_through_a_flood_of_others_and_the_bounds_hold() {
        let mut top = TopKeys::default();
        top.restart(20);
        // Three keys ask for a tenth each, and a hundred thousand others once.
        for other in 0..100_000 {
            note(&mut top, 1_000 + other, 1, true);
            if other % 7 == 0 {
                (1..=3).for_each(|heavy| note(&mut top, heavy, 1, true));
            }
        }
        let listed = top.list(3);
        for heavy in 1..=3_u64 {
            let entry = listed.iter().find(|entry| entry.key == heavy.to_le_bytes()).unwrap();
            assert!((entry.asked - entry.uncertain..=entry.asked).contains(&14_286), "{entry:?}");
        }
        assert_eq!((top.by_digest.len(), top.by_asked.len()), (20, 20));
    }

    #[test]
    fn a_long_key_is_cut() {
        let mut top = TopKeys::default();
        top.restart(1);
        top.note(digest(1), &[b'k'; 10_000], 1, true);
        assert_eq!(top.list(1)[0].key, [b'k'; 256]);
    }
}
