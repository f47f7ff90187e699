//! One rate limit shared by all replicas of a service, with no server between them.
//!
//! Each replica holds a [`Limiter`]. It decides from its own memory, tells its peers what it admitted, and finds them
//! by a [static list](StaticDiscoverer), by [DNS](DnsDiscoverer) or by a [`Discoverer`] of yours.
//!
//! ```no_run
//! use peerlimit::{DnsDiscoverer, Limiter, Quota};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::builder(Quota::per_second(100).burst(50))
//!     .bind("0.0.0.0:7946".parse()?)
//!     .discover(DnsDiscoverer::new("peerlimit.default.svc.cluster.local", 7946))
//!     .start()
//!     .await?;
//! limiter.ready().await;
//!
//! let decision = limiter.check("user:123");
//! if !decision.allowed {
//!     println!("try again in {:?}", decision.retry_after);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Guide
//!
//! - **Quotas.** A [`Quota`] is a rate and a burst. It can only be built valid: in a constant, nonsense does not
//!   compile.
//! - **Keys** are anything that is bytes. They are stored and sent as keyed 128-bit digests, never as they are.
//! - **Scopes.** [`Limiter::scope`] gives a second limit, with its own keys and quota, on the same node and port.
//! - **Decisions.** [`Limiter::allow`] answers yes or no, [`Limiter::check`] says how much is left and how long to
//!   wait, [`Limiter::check_n`] costs more than one permit, [`Limiter::peek`] changes nothing. None of them blocks or
//!   awaits.
//! - **Afterwards.** [`Limiter::charge`] consumes what a request turned out to cost, [`Limiter::refund`] gives back what it did
//!   not. [`Limiter::check_all`] decides on several limits, all or nothing. [`Limiter::until_ready`] waits in turn.
//! - **In use.** [`Scope::set_quota`] changes a quota and keeps what was used. [`Scope::set_shadow`] only watches,
//!   [`Scope::exempt`] and [`Scope::block`] set a quota aside for one key.
//! - **Generic code** takes a [`RateLimiter`], or a [`DynRateLimiter`] where types differ.
//! - **Life.** [`Limiter::ready`] resolves when the node enforces what the cluster knows; [`Limiter::close`] tells
//!   the peers the rest and says good-bye.
//! - **Seeing it.** [`Limiter::health`] says whether the cluster agrees, [`Limiter::stats`] what was counted,
//!   [`Scope::top_keys`] who asks for most. Events go to `tracing`.
//! - **Encryption.** [`Builder::secret`] seals everything between members; without it whoever reaches the port can
//!   join. [`Limiter::set_secrets`] replaces the [`Secrets`] of a live node.
//! - **Tests.** [`Limiter::local`] needs no network, and a [`ManualClock`] no sleeping.
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `tower` | the module `http`: middleware for axum, hyper, tonic, clients |
//! | `redis`, `memcached`, `hybrid` | the module `stores`: limits that a server keeps, and failover |
//! | `metrics` | `Limiter::record_metrics`: figures through the crate `metrics` |
//! | `config` | the module `config`: settings from TOML, YAML and the environment |
//!
//! How it works, what it promises and what it does not is told in `DESIGN.md` of the repository.

#![cfg_attr(docsrs, feature(doc_cfg))]

// Public for the simulator and the benchmarks of this repository. No promise of stability.
#[doc(hidden)]
pub mod bucket;
#[doc(hidden)]
pub mod crdt;
#[doc(hidden)]
pub mod gossip;
#[doc(hidden)]
pub mod table;

mod backend;
#[cfg(feature = "config")]
pub mod config;
mod discovery;
#[cfg(feature = "tower")]
pub mod http;
mod limiter;
mod names;
mod net;
#[cfg(any(feature = "redis", feature = "memcached", feature = "hybrid"))]
pub mod stores;

pub use backend::{Ask, DynDeciding, DynError, DynRateLimiter, Policy, RateLimiter, Refill};
pub use bucket::{Decision, ParseQuotaError, Quota, QuotaError};
pub use discovery::{DiscoverError, Discoverer, DnsDiscoverer, StaticDiscoverer};
pub use gossip::{Drops, PartitionPolicy, Sealing, SecretError, Secrets};
pub use limiter::{
    Builder, Evictions, Health, Limiter, Member, MemberState, PeerHealth, Preset, Scope, StartError, Stats, Wait,
    WaitError,
};
pub use net::{Clock, ManualClock};
pub use table::TopKey;

/// The examples of the README compile and hold: with all features, as some of them need some.
#[cfg(all(
    doctest,
    feature = "hybrid",
    feature = "memcached",
    feature = "metrics",
    feature = "redis",
    feature = "tower"
))]
#[doc = include_str!("../README.md")]
struct Readme;
