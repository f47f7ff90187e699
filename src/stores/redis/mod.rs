//! A Redis server or cluster that all replicas ask.
//!
//! ```no_run
//! use peerlimit::{Quota, RateLimiter as _, stores::redis::Redis};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let redis = Redis::builder("redis://127.0.0.1/").prefix("shop").build()?;
//! let logins = redis.sliding_log("login", Quota::per_minute(5));
//! let api = redis.token_bucket("api", Quota::per_second(1_000).burst(200));
//!
//! let decision = api.decide(b"user:123", 1).await?;
//! if !decision.allowed {
//!     println!("try again in {:?}", decision.retry_after);
//! }
//! logins.reset("user:123").await?;
//! # Ok(())
//! # }
//! ```
//!
//! - **One round trip** and one atomic script a decision. The scripts are called by their digests; a server that has
//!   forgotten them is told them anew with the same request. Decisions of a limiter that are asked for at the same time share a
//!   call, which is about several keys then; see [`Builder::shared_calls`]. Nobody waits for others to come, and everybody has an
//!   answer, or an error, of their own.
//! - **Time** is the server's. The clocks of clients do not matter. If the server's clock goes back, what was used counts that
//!   much longer, in a token bucket at most for two bursts.
//! - **One connection** carries all requests at the same time. It is made when it is first needed, and anew when it is lost,
//!   silent for a second, or leads to a replica that cannot be written to; see [`Builder`] for how long all that may take.
//! - **Keys** are called `prefix:{key}:kind:name`. A key stays readable if it is short and plain, else a digest of it is
//!   written, so none is longer than 220 bytes. All of one key is in one slot of a cluster.
//! - **Memory**: every key expires when it says nothing any more. Keys must not be evicted before: a bucket that is gone is a
//!   full one. With `maxmemory`, set `maxmemory-policy` to `noeviction` or `volatile-ttl`.
//! - **Failures** are a [`RedisError`] a decision, never a refusal. If an answer was lost with its connection, the request is
//!   sent again while there is time, so its permits may be consumed twice; so may those of a call that was shared and ended half
//!   way, as it does where somebody else wrote into the middle of a long log. A refund is not sent again to a single server;
//!   the client of a cluster sends again by itself what was lost, whatever it is, so there a refund may be given twice.
//!
//! Needs Redis 5 or later, or a server that speaks and scripts as it does, and a tokio runtime.

mod backoff;
mod batch;
mod builder;
mod deciding;
mod error;
mod fault;
mod keys;
mod limiter;
mod link;
mod script;
mod servers;
mod sliding_log;
mod token_bucket;

use std::sync::Arc;

use ::redis::Cmd;

use crate::bucket::Quota;

pub use builder::Builder;
pub use deciding::Deciding;
pub use error::{BuildError, Cause, RedisError};
pub use sliding_log::SlidingLog;
pub use token_bucket::TokenBucket;

use keys::check_prefix;
use link::{Link, Request};

/// A connection to a Redis server or cluster, from which limiters are made. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Redis {
    link: Arc<Link>,
    prefix: Arc<str>,
}

impl Redis {
    /// To one server, as `redis://user:password@host:port/database` or `redis+unix:///path`.
    pub fn builder(url: impl Into<String>) -> Builder {
        Builder::single(url.into())
    }

    /// To a cluster, of which at least one of these servers has to answer at first.
    pub fn cluster<U: Into<String>>(urls: impl IntoIterator<Item = U>) -> Builder {
        Builder::cluster(urls.into_iter().map(Into::into).collect())
    }

    /// The same connection for limiters of another prefix; see [`Builder::prefix`].
    ///
    /// # Errors
    ///
    /// [`BuildError::Prefix`].
    pub fn with_prefix(&self, prefix: impl AsRef<str>) -> Result<Self, BuildError> {
        check_prefix(prefix.as_ref())?;
        Ok(Self { link: Arc::clone(&self.link), prefix: prefix.as_ref().into() })
    }

    /// A limiter that counts exactly, in a window that slides.
    #[must_use]
    pub fn sliding_log(&self, name: &str, quota: Quota) -> SlidingLog {
        SlidingLog::new(self, name, quota)
    }

    /// A limiter that keeps one number a key.
    #[must_use]
    pub fn token_bucket(&self, name: &str, quota: Quota) -> TokenBucket {
        TokenBucket::new(self, name, quota)
    }

    /// Asks the server for nothing but an answer, and connects if need be. A service that must not start without its Redis
    /// asks this first.
    ///
    /// # Errors
    ///
    /// As a decision has.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn ping(&self) -> Result<(), RedisError> {
        let mut cmd = Cmd::new();
        cmd.arg("PING");
        self.link.ask(Request { cmd, script: None, repeatable: true }, self.link.deadline()).await.map(drop)
    }
}
