//! Memcached servers that all replicas ask: a fixed window of each key.
//!
//! ```no_run
//! use peerlimit::{Quota, stores::memcached::FixedWindow};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let logins = FixedWindow::builder("login", Quota::per_minute(5)).server("cache.internal:11211").build()?;
//! let decision = logins.check("user:123").await?;
//! if !decision.allowed {
//!     println!("try again in {:?}", decision.retry_after);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What it lets through
//!
//! - A key's window begins with its first request and ends by itself. In between the counter only rises, by what is
//!   refused as well: once something was refused, nothing passes until the window ends.
//! - **Up to twice the limit** within one period: all of it at the end of a window and all of the next one at its
//!   beginning. Never more, and one limit for each period in the long run. Where that is too much, a sliding window or
//!   a bucket is the right limit.
//! - Servers keep time in **whole seconds** and look at their clock once in each. A window is cut off at such a look,
//!   so it lasts up to a second less than its period; for a period of one second the first window may be short indeed.
//!   Periods are whole seconds, from one up. [`Decision::retry_after`](crate::Decision::retry_after) and `reset_after`
//!   are bounds: waiting that long is always enough, and may be up to two seconds more than needed.
//! - A window of more than 30 days ends at a time of the wall clock, which the client's and the server's have to agree
//!   on.
//! - Memcached is a cache. A server that is **short of memory evicts** counters, and one that restarts has lost all of
//!   them: their windows begin anew early, and what was used of them is forgotten. Give it room enough that `stats`
//!   shows no evictions.
//!
//! # How it asks
//!
//! One round trip a decision: memcached's meta protocol increments a counter or makes one with its expiry in a single
//! step, so there is no moment in which a hit could be lost or a counter be without an end. That takes memcached 1.6
//! (or a service that speaks its meta protocol) over TCP, without TLS or SASL; it was tested with 1.6.18. All callers
//! share one connection to each server, and nobody waits for the answers of others.
//!
//! Where no answer comes there is a [`MemcachedError`], within the [timeout](Builder::timeout): not a refusal, and not
//! a yes. Let the request pass, refuse it, or ask another limiter. The module `hybrid` does that.

mod backoff;
mod builder;
mod client;
mod command;
mod deciding;
mod dial;
mod error;
mod link;
mod pipeline;
mod reply;
mod rule;
mod window;

pub use builder::Builder;
pub use deciding::Deciding;
pub use error::{BuildError, MemcachedError};
pub use window::FixedWindow;
