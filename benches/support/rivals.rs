//! What is measured beside the library: other limiters, parts of the library, and what no limiter can go below.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use peerlimit::{
    Clock, Limiter, Quota,
    bucket::{Gcra, Tat},
    crdt::{Digest, DigestKey, KeyHasher},
    table::{Rule, ScopeSpec, Table, TableOptions},
};

/// Keys that [`Limiter::local`] holds; tables beside it are made for as many.
pub const MAX_KEYS: usize = 1 << 20;

/// Something that says whether a request may pass.
pub trait Rival: Sync {
    /// Whether a request of `key` on the thread of that number may pass.
    #[allow(clippy::ptr_arg, reason = "governor looks its owned keys up by reference to one")]
    fn allow(&self, thread: usize, key: &String) -> bool;
}

impl Rival for Limiter {
    #[inline]
    fn allow(&self, _thread: usize, key: &String) -> bool {
        self.check(key).allowed
    }
}

/// The table as [`Limiter::check`] uses it, without the handles: digest, clock, decision.
pub struct BareTable {
    pub table: Table,
    pub clock: Clock,
    spec: Arc<ScopeSpec>,
}

impl BareTable {
    pub fn new(quota: Quota, options: TableOptions) -> Self {
        let table = Table::new(options);
        let spec = table.scopes().get_or_add(&DigestKey::PUBLIC, "", quota);
        Self { table, clock: Clock::system(), spec }
    }

    /// One that nobody collects news from, as in [`Limiter::local`].
    pub fn local(quota: Quota) -> Self {
        Self::new(quota, TableOptions { max_keys: MAX_KEYS, publish: false })
    }

    pub fn rule(&self) -> Rule {
        self.spec.rule()
    }

    pub fn digest(&self, key: &str) -> Digest {
        self.spec.hasher().digest(key.as_bytes())
    }
}

impl Rival for BareTable {
    #[inline]
    fn allow(&self, _thread: usize, key: &String) -> bool {
        let place = self.table.place(self.digest(key));
        let now = self.clock.now();
        self.table.decide_at(&place, &self.rule(), 1, now).allowed
    }
}

/// governor with owned keys in its default store, which is a `DashMap`.
pub type Governor = governor::DefaultKeyedRateLimiter<String>;

pub fn governor(quota: Quota) -> Governor {
    let number = |number| u32::try_from(number).ok().and_then(NonZeroU32::new).expect("what we allow, it allows");
    let interval = quota.period() / number(quota.count()).get();
    let same = governor::Quota::with_period(interval).expect("an interval is not zero");
    Governor::dashmap(same.allow_burst(number(quota.burst_size())))
}

impl Rival for Governor {
    #[inline]
    fn allow(&self, _thread: usize, key: &String) -> bool {
        self.check_key(key).is_ok()
    }
}

/// One hash map of owned keys behind one lock, as the limiters of other languages have it.
pub struct MutexMap {
    map: Mutex<HashMap<String, Tat>>,
    gcra: Gcra,
    clock: Clock,
}

impl MutexMap {
    pub fn new(quota: Quota) -> Self {
        Self { map: Mutex::default(), gcra: Gcra::new(&quota), clock: Clock::system() }
    }
}

impl Rival for MutexMap {
    #[inline]
    fn allow(&self, _thread: usize, key: &String) -> bool {
        let now = self.clock.now();
        let mut map = self.map.lock();
        let Some(tat) = map.get_mut(key) else {
            let first = self.gcra.admit(Tat::FULL, now, 1);
            map.extend(first.map(|tat| (key.clone(), tat)));
            return first.is_some();
        };
        let after = self.gcra.admit(*tat, now, 1);
        *tat = after.unwrap_or(*tat);
        after.is_some()
    }
}

/// What every limiter of this kind has to do, and nothing else: digest, clock, one compare-and-swap.
///
/// All threads meet at one word where there is one key; where there are more, each has its own.
pub struct Floor {
    words: Vec<CachePadded<AtomicU64>>,
    hasher: KeyHasher,
    clock: Clock,
}

impl Floor {
    pub fn new(keys: usize, threads: usize) -> Self {
        let words = (0..keys.clamp(1, threads)).map(|_| CachePadded::default()).collect();
        Self { words, hasher: DigestKey::PUBLIC.hasher(""), clock: Clock::system() }
    }
}

impl Rival for Floor {
    #[inline]
    fn allow(&self, thread: usize, key: &String) -> bool {
        let digest = self.hasher.digest(key.as_bytes());
        let now = self.clock.now().as_nanos();
        let word = &self.words[thread % self.words.len()];
        // Relaxed: the word stands for nothing.
        let seen = word.load(Ordering::Relaxed);
        let swapped = word.compare_exchange_weak(seen, now ^ digest.word(), Ordering::Relaxed, Ordering::Relaxed);
        // Both outcomes are one attempt; a loop would measure how threads meet.
        std::hint::black_box(swapped).is_ok() || seen != 0
    }
}
