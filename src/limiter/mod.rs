//! The handles that users hold.

mod all;
mod builder;
mod check;
mod controls;
mod decide;
mod error;
mod health;
mod member;
#[cfg(feature = "metrics")]
mod metrics;
mod observed;
mod preset;
mod scope;
mod secrets;
mod stats;
mod together;
mod wait;

use std::{net::SocketAddr, sync::Arc};

use crate::{
    bucket::{Decision, Quota},
    crdt::DigestKey,
    gossip::Secrets,
    net::{Clock, Node, NodeStats, Turns, unguessable_u64},
    table::{ScopeSpec, Table, TableOptions},
};

pub use builder::Builder;
pub use error::StartError;
pub use health::{Health, PeerHealth};
pub use member::{Member, MemberState};
pub use preset::Preset;
pub use scope::Scope;
pub use stats::{Evictions, Stats};
pub use wait::{Wait, WaitError};

use builder::DEFAULT_MAX_KEYS;
use observed::Observed;

/// A rate limit shared by all replicas of a service.
///
/// Cheap to clone; clones share everything. Every decision reads this process's memory only: it never waits for the
/// network, and takes tens of nanoseconds. When the last clone, and the last [`Scope`], is dropped, all tasks end and
/// the port is free; call [`close`](Self::close) before, so that peers learn what was admitted last.
///
/// ```no_run
/// use peerlimit::{Limiter, Quota, StaticDiscoverer};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = Limiter::builder(Quota::per_second(100).burst(50))
///     .bind("0.0.0.0:7946".parse()?)
///     .discover(StaticDiscoverer::new(["10.0.0.2:7946", "peer-3.internal:7946"]))
///     .start()
///     .await?;
/// limiter.ready().await;
///
/// if limiter.allow("user:123") {
///     // do the work
/// }
/// limiter.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Limiter {
    default: Scope,
    shared: Arc<Shared>,
}

/// What all handles of one limiter share.
#[derive(Debug)]
pub(crate) struct Shared {
    table: Arc<Table>,
    clock: Clock,
    digest_key: DigestKey,
    turns: Turns,
    name: String,
    observed: Observed,
    /// `None` for a local limiter.
    node: Option<Node>,
}

impl Shared {
    fn new(table: Arc<Table>, clock: Clock, digest_key: DigestKey, name: &str, node: Option<Node>) -> Self {
        let (turns, observed) = (Turns::default(), Observed::default());
        Self { table, clock, digest_key, turns, name: name.to_owned(), observed, node }
    }
}

impl Limiter {
    /// Describes a limiter whose default scope has `quota`; [`Builder::start`] starts it.
    pub fn builder(quota: Quota) -> Builder {
        Builder::new(quota)
    }

    /// A limiter for one process: the same table, and no network. It needs no async runtime.
    ///
    /// It holds about a million keys, then recycles those that are full again; see [`Builder::max_keys`].
    ///
    /// ```
    /// use peerlimit::{Limiter, Quota};
    ///
    /// let limiter = Limiter::local(Quota::per_minute(2));
    /// assert!(limiter.allow("user:123"));
    /// assert!(limiter.allow("user:123"));
    /// assert!(!limiter.allow("user:123"));
    /// ```
    pub fn local(quota: Quota) -> Self {
        Self::local_with_clock(quota, Clock::system())
    }

    /// As [`Limiter::local`], with a clock of your own: a [`ManualClock`](crate::ManualClock) in tests.
    pub fn local_with_clock(quota: Quota, clock: impl Into<Clock>) -> Self {
        let table = Arc::new(Table::new(TableOptions { max_keys: DEFAULT_MAX_KEYS, publish: false }));
        let digest_key = DigestKey::private([unguessable_u64(), unguessable_u64()]);
        let spec = first_scope(&table, &digest_key, quota);
        Self::assemble(spec, Shared::new(table, clock.into(), digest_key, "local", None))
    }

    fn assemble(default: Arc<ScopeSpec>, shared: Shared) -> Self {
        let shared = Arc::new(shared);
        Self { default: Scope::from_spec(default, &shared), shared }
    }

    /// Whether a request of `key` may pass. Consumes one permit if so.
    #[inline]
    #[must_use = "a decision that nobody looks at limits nothing"]
    pub fn allow(&self, key: impl AsRef<[u8]>) -> bool {
        self.default.allow(key)
    }

    /// Decides on one permit of `key`, and consumes it if it passes.
    #[inline]
    pub fn check(&self, key: impl AsRef<[u8]>) -> Decision {
        self.default.check(key)
    }

    /// Decides on `cost` permits of `key`, all or none, and consumes them if they pass.
    ///
    /// A cost above the burst never passes; see [`Decision::is_impossible`]. A cost of 0 passes unless the key is in
    /// debt, and consumes nothing.
    #[inline]
    pub fn check_n(&self, key: impl AsRef<[u8]>, cost: u64) -> Decision {
        self.default.check_n(key, cost)
    }

    /// Decides on one permit of each key, and consumes those that pass. The answers come in the order of the keys; a key that
    /// is there twice is decided twice.
    ///
    /// Each key is decided by itself: some may pass and others not. For keys that are not in the processor's caches this
    /// takes a fraction of the time that single calls take, because their memory is waited for together.
    ///
    /// ```
    /// use peerlimit::{Limiter, Quota};
    ///
    /// let limiter = Limiter::local(Quota::per_minute(1));
    /// let decisions = limiter.check_many(&["a", "b", "a"]);
    /// assert_eq!(decisions.iter().map(|d| d.allowed).collect::<Vec<_>>(), [true, true, false]);
    /// ```
    #[must_use = "a decision that nobody looks at limits nothing"]
    pub fn check_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Decision> {
        self.default.check_many(keys)
    }

    /// Decides on one permit of each key in its scope, at one instant: either all pass and are consumed, or nothing is charged
    /// anywhere.
    ///
    /// The answer is that of the tightest limit: of the one that has to wait longest if any refuses, else of the one with the
    /// fewest permits left. [`Decision::policy`] says which that is. Without any limit everything passes.
    ///
    /// ```
    /// use peerlimit::{Limiter, Quota};
    ///
    /// let limiter = Limiter::local(Quota::per_minute(100));
    /// let user = limiter.scope("user", Quota::per_minute(2));
    /// let tenant = limiter.default_scope();
    /// assert!(limiter.check_all(&[(tenant, "acme"), (&user, "ann")]).allowed);
    /// assert_eq!(limiter.check_all(&[(tenant, "acme"), (&user, "ann")]).remaining, 0);
    /// let refused = limiter.check_all(&[(tenant, "acme"), (&user, "ann")]);
    /// assert_eq!((refused.allowed, refused.policy), (false, "user"));
    /// assert_eq!(tenant.peek("acme").remaining, 98);
    /// ```
    ///
    /// # Panics
    ///
    /// Where a scope belongs to another limiter: two limiters cannot decide at one instant.
    pub fn check_all<K: AsRef<[u8]>>(&self, limits: &[(&Scope, K)]) -> Decision {
        all::check_all(&self.shared, limits.iter().map(|(scope, key)| (*scope, key.as_ref(), 1)))
    }

    /// As [`check_all`](Self::check_all), with a cost for each.
    ///
    /// # Panics
    ///
    /// As [`check_all`](Self::check_all).
    pub fn check_all_n<K: AsRef<[u8]>>(&self, limits: &[(&Scope, K, u64)]) -> Decision {
        all::check_all(&self.shared, limits.iter().map(|(scope, key, cost)| (*scope, key.as_ref(), *cost)))
    }

    /// What [`check`](Self::check) would say now. Changes nothing; `remaining` is what is there before any permit is
    /// taken.
    #[inline]
    pub fn peek(&self, key: impl AsRef<[u8]>) -> Decision {
        self.default.peek(key)
    }

    /// Waits until a request of `key` passes, and consumes its permit then: when this returns, not before.
    ///
    /// Those who wait for one key go in the order in which they came, on this node. Who calls [`check`](Self::check) meanwhile
    /// does not queue, nor do other nodes. A future that is dropped costs nothing and holds up nobody.
    ///
    /// ```
    /// # async fn run(limiter: peerlimit::Limiter) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// limiter.until_ready("api.example.com").await?;
    /// // Calls it. Or, for a cost of 5, and not later than in two seconds:
    /// limiter.until_ready_n("api.example.com", 5, Duration::from_secs(2)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`WaitError::Impossible`] where the quota refuses everything.
    ///
    /// # Panics
    ///
    /// Where it has to wait, outside of a tokio runtime with its timer enabled.
    pub async fn until_ready(&self, key: impl AsRef<[u8]>) -> Result<(), WaitError> {
        self.default.until_ready(key).await
    }

    /// Waits until a request of `key` for `cost` permits passes, and consumes them then. As [`until_ready`](Self::until_ready).
    ///
    /// `wait` is how long at most, as a `Duration`, or a [`Wait`]. A cost that is waited for keeps those behind it waiting, as
    /// otherwise a large one would never have its turn.
    ///
    /// # Errors
    ///
    /// [`WaitError::Impossible`] at once if the cost is above the burst, and [`WaitError::TooLong`] as soon as it is known that
    /// it would take too long. Nothing is consumed then.
    ///
    /// # Panics
    ///
    /// As [`until_ready`](Self::until_ready).
    pub async fn until_ready_n(
        &self,
        key: impl AsRef<[u8]>,
        cost: u64,
        wait: impl Into<Wait>,
    ) -> Result<(), WaitError> {
        self.default.until_ready_n(key, cost, wait).await
    }

    /// Consumes `permits` of `key` for something that has passed already, whether they are there or not: for a cost that is known
    /// only afterwards.
    ///
    /// It may drive the bucket into debt, to one more burst at most; requests are refused until that is paid back.
    ///
    /// ```
    /// use peerlimit::{Limiter, Quota};
    ///
    /// let tokens = Limiter::local(Quota::per_minute(1000));
    /// assert!(tokens.check_n("user:123", 1).allowed);
    /// // The answer was long.
    /// tokens.charge("user:123", 1400);
    /// assert!(!tokens.allow("user:123"));
    /// ```
    pub fn charge(&self, key: impl AsRef<[u8]>, permits: u64) {
        self.default.charge(key, permits);
    }

    /// Gives back `permits` of `key` that were consumed for nothing, at most until its bucket is full. Peers hear of it with the
    /// next flush. A key that is not known has a full bucket.
    ///
    /// ```
    /// use peerlimit::{Limiter, Quota};
    ///
    /// let limiter = Limiter::local(Quota::per_hour(10));
    /// assert_eq!(limiter.check_n("user:123", 4).remaining, 6);
    /// limiter.refund("user:123", 3);
    /// assert_eq!(limiter.peek("user:123").remaining, 9);
    /// ```
    pub fn refund(&self, key: impl AsRef<[u8]>, permits: u64) {
        self.default.refund(key, permits);
    }

    /// The scope `name`: a quota with its own key space, on the same node and port. The same name is the same scope
    /// on all members.
    ///
    /// The first call of a name sets its quota. A later one with another quota gets the scope as it is, and a warning
    /// is logged.
    ///
    /// # Panics
    ///
    /// At the 8,193rd different name. Scopes are for kinds of limits; a tenant or user is a key.
    #[must_use]
    pub fn scope(&self, name: &str, quota: Quota) -> Scope {
        Scope::new(&self.shared, name, quota)
    }

    /// The default scope, which [`allow`](Self::allow), [`check`](Self::check) and their kin use.
    #[must_use]
    pub fn default_scope(&self) -> &Scope {
        &self.default
    }

    /// Resolves once this node enforces what the cluster knows: after its first state transfer, or when discovery
    /// finds nobody. Use it for a readiness probe. A local limiter is ready at once.
    ///
    /// Before, decisions are made as by a node alone, so each key gets a fresh burst. Where peers are found and none
    /// answers, it resolves after about two seconds; where a transfer does not come to its end, or discovery fails
    /// altogether, after about ten.
    pub async fn ready(&self) {
        if let Some(node) = &self.shared.node {
            node.ready().await;
        }
    }

    /// Whether [`ready`](Self::ready) has resolved.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.node.as_ref().is_none_or(Node::is_ready)
    }

    /// The members that this node holds alive, itself included and first. At most half a second old.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        let Some(node) = &self.shared.node else { return Vec::new() };
        let this =
            Member { name: self.shared.name.clone(), addr: node.advertise(), state: MemberState::Alive, is_self: true };
        let others = node.peers().into_iter().map(|peer| Member::from(peer.member));
        std::iter::once(this).chain(others).collect()
    }

    /// The address that UDP and TCP are bound to, with the real port; `None` for a local limiter.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.shared.node.as_ref().map(Node::local_addr)
    }

    /// The address at which peers reach this node; `None` for a local limiter.
    #[must_use]
    pub fn advertised_addr(&self) -> Option<SocketAddr> {
        self.shared.node.as_ref().map(Node::advertise)
    }

    /// Counters since the start, and sizes as they are now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let table = self.shared.table.stats();
        match &self.shared.node {
            Some(node) => Stats::new(table, node.stats(), node.stats().gossip.peers + 1),
            None => Stats::new(table, NodeStats::default(), 0),
        }
    }

    /// Seals with other secrets from now on, and opens with them. Returns when that is so.
    ///
    /// To replace a secret, let all members have `[old, new]`, then all `[new, old]`, then all `[new]`; to give a live
    /// cluster its first one, see [`Sealing`](crate::Sealing). Each step may go from node to node under load, once the one
    /// before has reached all. A restarted node begins with what its builder was given.
    ///
    /// Does nothing on a local limiter, or after [`close`](Self::close).
    pub async fn set_secrets(&self, secrets: Secrets) {
        if let Some(node) = &self.shared.node {
            node.set_secrets(secrets).await;
        }
    }

    /// Tells the peers what was admitted last, says good-bye, and stops all tasks. Returns when the port is free, or
    /// after three seconds.
    ///
    /// Decisions go on being made, by this node alone. Calling it again does nothing.
    pub async fn close(&self) {
        if let Some(node) = &self.shared.node {
            node.close().await;
        }
    }
}

/// The name of the default scope.
const DEFAULT_SCOPE: &str = "";

/// The default scope of a table that has none yet. It has to be there before the first delta for it arrives.
fn first_scope(table: &Table, key: &DigestKey, quota: Quota) -> Arc<ScopeSpec> {
    table.scopes().get_or_add(key, DEFAULT_SCOPE, quota)
}
