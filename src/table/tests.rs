//! What a table promises: single-threaded against a plain map, and with many threads at once.

mod cap;
mod cleanup;
mod clock;
mod concurrency;
mod corrections;
mod figures;
mod growth;
mod model;
mod quotas;
mod sweep;
mod together;
mod urgency;

use std::{sync::Arc, time::Duration};

use super::{Charge, ScopeSpec, SweepPosition, Table, TableOptions, TableStats};
use crate::{
    bucket::{Gcra, Missing, Quota, Tat, Timestamp},
    crdt::{Digest, DigestKey},
};

/// A table with one scope in it.
fn table_of(max_keys: usize, publish: bool, quota: Quota) -> (Table, Arc<ScopeSpec>) {
    let table = Table::new(TableOptions { max_keys, publish });
    let spec = table.scopes().get_or_add(&DigestKey::PUBLIC, "default", quota);
    (table, spec)
}

fn digest(spec: &ScopeSpec, key: u64) -> Digest {
    spec.hasher().digest(&key.to_le_bytes())
}

/// A whole round of the sweep.
fn sweep_all(table: &Table, idle: Duration, now: Timestamp) {
    let mut at = SweepPosition::default();
    loop {
        at = table.sweep(at, 64, idle, now);
        if at.is_start() {
            return;
        }
    }
}

/// A number generator with a seed, for what needs no shrinking.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
