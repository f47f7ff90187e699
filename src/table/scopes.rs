//! The scopes of one node: quotas under names.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::RwLock;

use crate::{
    bucket::{Gcra, Quota},
    crdt::{DigestKey, KeyHasher, ScopeId},
};

use super::Rule;

/// A scope's number on this node. It never crosses the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScopeIndex(u16);

impl ScopeIndex {
    pub(super) const fn from_raw(raw: u16) -> Self {
        Self(raw)
    }

    pub(super) const fn raw(self) -> u16 {
        self.0
    }
}

/// A named quota with its own key space.
#[derive(Debug)]
pub struct ScopeSpec {
    index: ScopeIndex,
    id: ScopeId,
    name: Box<str>,
    quota: Quota,
    gcra: Gcra,
    hasher: KeyHasher,
    /// See [`Rule::push_weight`]. Written by the gossip task when membership changes, read by every decision; a stale
    /// value only moves a push by one step, so Relaxed.
    push_weight: AtomicU64,
    /// What a permit costs; see [`Gcra::with_share`]. Written and read like `push_weight`.
    price: AtomicU64,
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
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The quota of every key in it.
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// The quota's arithmetic.
    pub fn gcra(&self) -> &Gcra {
        &self.gcra
    }

    /// The quota's arithmetic at the share of it that this node may use now.
    #[inline]
    pub fn shared_gcra(&self) -> Gcra {
        self.gcra.with_price(self.price.load(Ordering::Relaxed))
    }

    /// What digests its keys.
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// What a decision in this scope needs.
    #[inline]
    pub fn rule(&self) -> Rule {
        Rule { scope: self.index, gcra: self.shared_gcra(), push_weight: self.push_weight.load(Ordering::Relaxed) }
    }

    /// Countdown rule: a key is urgent once its unsent permits reach `max(1, eps * remaining / peers)` with `eps` =
    /// 1/2, that is once `unsent * 2 * peers * T >= slack`.
    fn set_peers(&self, peers: usize) {
        let weight = (peers as u64).saturating_mul(2).saturating_mul(self.gcra.interval());
        self.push_weight.store(weight, Ordering::Relaxed);
    }
}

/// The scopes of one node. Scopes are only ever added, so an index stays good.
#[derive(Debug, Default)]
pub struct Scopes {
    inner: RwLock<Inner>,
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

impl Scopes {
    /// Most scopes of one node: a bucket has 15 bits for its scope's number.
    pub const MAX: usize = 1 << 15;

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
        let gcra = Gcra::new(&quota);
        let spec = Arc::new(ScopeSpec {
            index: ScopeIndex(index),
            id,
            name: name.into(),
            quota,
            gcra,
            hasher: key.hasher(name),
            push_weight: AtomicU64::new(0),
            price: AtomicU64::new(gcra.price_of(inner.share.0, inner.share.1)),
        });
        spec.set_peers(inner.peers);
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

    /// How many scopes there are.
    #[allow(clippy::len_without_is_empty, reason = "a limiter is never without its default scope")]
    pub fn len(&self) -> usize {
        self.inner.read().specs.len()
    }

    /// Tells every scope, also those still to come, how many peers wait for its news.
    pub fn set_peers(&self, peers: usize) {
        let mut inner = self.inner.write();
        inner.peers = peers;
        for spec in &inner.specs {
            spec.set_peers(peers);
        }
    }

    /// Lets every scope, also those still to come, use `seen / all` of its quota.
    pub fn set_share(&self, seen: u32, all: u32) {
        let mut inner = self.inner.write();
        inner.share = (seen, all);
        for spec in &inner.specs {
            spec.price.store(spec.gcra.price_of(seen, all), Ordering::Relaxed);
        }
    }
}
