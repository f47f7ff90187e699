//! The scopes of one node: quotas under names.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::{
    bucket::{Gcra, Quota},
    crdt::{DigestKey, KeyHasher, ScopeId},
    names::permanent,
};

use super::{
    Controls, Rule, Tally,
    terms::{SharedTerms, Terms},
};

/// A scope's number on this node. It never crosses the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScopeIndex(u16);

/// A scope, and by which of its quotas a bucket is measured: the last two bits of the quota's generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure(u16);

impl Measure {
    const INDEX_BITS: u32 = 13;
    const INDEX: u16 = (1 << Self::INDEX_BITS) - 1;
    /// Bits that a measure takes in a bucket.
    pub(super) const BITS: u32 = Self::INDEX_BITS + Self::GENERATION_BITS;
    const GENERATION_BITS: u32 = 2;
    /// Quotas of a scope that buckets can be told to be measured by.
    const GENERATIONS: usize = 1 << Self::GENERATION_BITS;

    /// By the first quota of a scope.
    const fn first(scope: ScopeIndex) -> Self {
        Self(scope.0)
    }

    /// By the next quota of the same scope.
    fn next(self) -> Self {
        let generation = (self.generation() + 1) % Self::GENERATIONS;
        Self(self.scope().0 | (generation as u16) << Self::INDEX_BITS)
    }

    pub(super) const fn from_raw(raw: u16) -> Self {
        Self(raw)
    }

    pub(super) const fn raw(self) -> u16 {
        self.0
    }

    /// Which scope.
    pub const fn scope(self) -> ScopeIndex {
        ScopeIndex(self.0 & Self::INDEX)
    }

    fn generation(self) -> usize {
        usize::from(self.0 >> Self::INDEX_BITS) % Self::GENERATIONS
    }
}

/// A named quota with its own key space.
#[derive(Debug)]
pub struct ScopeSpec {
    index: ScopeIndex,
    id: ScopeId,
    name: &'static str,
    hasher: KeyHasher,
    terms: SharedTerms,
    /// Of its last quotas, by the generation that a [`Measure`] names: the time of one permit in ticks. Written before the
    /// terms of that generation; Relaxed, as whoever finds a bucket of it has its group's lock from whoever wrote that.
    intervals: [AtomicU64; Measure::GENERATIONS],
    /// As it was given, for those who ask.
    quota: Mutex<Quota>,
    controls: Controls,
    tally: Tally,
}

impl ScopeSpec {
    /// The scope's number on this node.
    pub fn index(&self) -> ScopeIndex {
        self.index
    }

    /// The scope on the wire.
    pub fn id(&self) -> ScopeId {
        self.id
    }

    /// The scope's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The quota of every key in it.
    pub fn quota(&self) -> Quota {
        *self.quota.lock()
    }

    /// The quota's arithmetic, at the share of it that this node may use now.
    pub fn gcra(&self) -> Gcra {
        self.terms.read().gcra
    }

    /// What digests its keys.
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// What an operator set aside in it.
    #[inline]
    pub fn controls(&self) -> &Controls {
        &self.controls
    }

    /// Its requests by outcome.
    #[inline]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What a decision in this scope needs.
    #[inline(always)]
    pub fn rule(&self) -> Rule {
        let Terms { gcra, push_weight, measure } = self.terms.read();
        Rule { measure, gcra, push_weight, name: self.name }
    }

    /// The time of one permit by which a bucket is measured, in ticks.
    pub(super) fn interval_of(&self, measure: Measure) -> u64 {
        self.intervals[measure.generation()].load(Relaxed)
    }
}

/// The scopes of one node. Scopes are only ever added, so an index stays good.
#[derive(Debug, Default)]
pub struct Scopes {
    /// Whoever has it for writing may change terms.
    inner: RwLock<Inner>,
    /// Whoever changes a quota, until all buckets are measured by it.
    changing: Mutex<()>,
}

#[derive(Debug)]
struct Inner {
    specs: Vec<Arc<ScopeSpec>>,
    by_id: HashMap<ScopeId, ScopeIndex>,
    peers: usize,
    /// The share of every quota that may be used: so many of so many.
    share: (u32, u32),
}

impl Default for Inner {
    fn default() -> Self {
        Self { specs: Vec::new(), by_id: HashMap::new(), peers: 0, share: (1, 1) }
    }
}

impl Inner {
    fn terms(&self, quota: &Quota, measure: Measure) -> Terms {
        let (seen, all) = self.share;
        let gcra = Gcra::new(quota).with_share(seen, all);
        // Countdown rule: a key is urgent once its unsent permits reach `max(1, eps * remaining / peers)` with `eps` =
        // 1/2, that is once `unsent * 2 * peers * T >= slack`.
        let push_weight = (self.peers as u64).saturating_mul(2).saturating_mul(gcra.interval());
        Terms { gcra, push_weight, measure }
    }

    /// Lets every scope see how things stand.
    fn publish(&self) {
        for spec in &self.specs {
            let measure = spec.terms.read().measure;
            spec.terms.write(&self.terms(&spec.quota.lock(), measure));
        }
    }
}

impl Scopes {
    /// Most scopes of one node: a bucket has 13 bits for its scope's number.
    pub const MAX: usize = 1 << Measure::INDEX_BITS;

    /// The scope of that name, added with `quota` if it is new. A scope that is there keeps its quota.
    ///
    /// # Panics
    ///
    /// Beyond [`Scopes::MAX`] different names.
    #[allow(clippy::panic, reason = "documented up to the public API: whoever names scopes without end means keys")]
    pub fn get_or_add(&self, key: &DigestKey, name: &str, quota: Quota) -> Arc<ScopeSpec> {
        let id = key.scope_id(name);
        let mut inner = self.inner.write();
        if let Some(index) = inner.by_id.get(&id) {
            return Arc::clone(&inner.specs[usize::from(index.0)]);
        }
        let Some(index) = u16::try_from(inner.specs.len()).ok().filter(|index| usize::from(*index) < Self::MAX) else {
            panic!("a limiter has at most {} scopes; use keys for what is many", Self::MAX);
        };
        let terms = inner.terms(&quota, Measure::first(ScopeIndex(index)));
        let spec = Arc::new(ScopeSpec {
            index: ScopeIndex(index),
            id,
            name: permanent(name),
            hasher: key.hasher(name),
            terms: SharedTerms::new(terms),
            intervals: [const { AtomicU64::new(0) }; Measure::GENERATIONS],
            quota: Mutex::new(quota),
            controls: Controls::default(),
            tally: Tally::default(),
        });
        spec.intervals[0].store(terms.gcra.interval(), Relaxed);
        inner.specs.push(Arc::clone(&spec));
        inner.by_id.insert(id, spec.index);
        spec
    }

    /// The scope at `index`.
    pub fn get(&self, index: ScopeIndex) -> Option<Arc<ScopeSpec>> {
        self.inner.read().specs.get(usize::from(index.0)).cloned()
    }

    /// The scope that peers call `id`, if this node has it.
    pub fn find(&self, id: ScopeId) -> Option<Arc<ScopeSpec>> {
        let inner = self.inner.read();
        let index = inner.by_id.get(&id)?;
        inner.specs.get(usize::from(index.0)).cloned()
    }

    /// All scopes, in the order in which they were added.
    pub fn all(&self) -> Vec<Arc<ScopeSpec>> {
        self.inner.read().specs.clone()
    }

    /// How many scopes there are.
    #[allow(clippy::len_without_is_empty, reason = "a limiter is never without its default scope")]
    pub fn len(&self) -> usize {
        self.inner.read().specs.len()
    }

    /// Decides by another quota from now on. Returns what keeps others from changing one until all buckets are measured
    /// by it, or `None` if it is the quota that the scope has.
    pub(super) fn set_quota(&self, spec: &ScopeSpec, quota: Quota) -> Option<MutexGuard<'_, ()>> {
        let changing = self.changing.lock();
        let inner = self.inner.write();
        if *spec.quota.lock() == quota {
            return None;
        }
        let measure = spec.terms.read().measure.next();
        let terms = inner.terms(&quota, measure);
        spec.intervals[measure.generation()].store(terms.gcra.interval(), Relaxed);
        *spec.quota.lock() = quota;
        spec.terms.write(&terms);
        Some(changing)
    }

    /// Tells every scope, also those still to come, how many peers wait for its news.
    pub fn set_peers(&self, peers: usize) {
        let mut inner = self.inner.write();
        inner.peers = peers;
        inner.publish();
    }

    /// Lets every scope, also those still to come, use `seen / all` of its quota.
    pub fn set_share(&self, seen: u32, all: u32) {
        let mut inner = self.inner.write();
        inner.share = (seen, all);
        inner.publish();
    }
}
