//! What goes wrong with a memcached server.

use std::{io, sync::Arc, time::Duration};

/// Why there is no decision. It is no refusal: nobody knows whether the request is within its limit.
///
/// Each variant says what became of the counter. Nothing is asked twice: what may have been counted would be counted
/// again.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemcachedError {
    /// There is no connection, and the last try to make one is so recent that there is none yet. Nothing was counted.
    #[error("memcached server {server} cannot be reached")]
    Unreachable {
        /// The server, as it was given to the builder.
        server: Arc<str>,
        /// Why it could not be reached last.
        source: Arc<io::Error>,
    },
    /// No answer in time. It may have been counted, or still be.
    #[error("memcached server {server} did not answer within {timeout:?}")]
    Timeout {
        /// The server, as it was given to the builder.
        server: Arc<str>,
        /// [`Builder::timeout`](super::Builder::timeout).
        timeout: Duration,
    },
    /// The connection broke before the answer came. It may have been counted.
    #[error("the connection to memcached server {server} broke")]
    Disconnected {
        /// The server, as it was given to the builder.
        server: Arc<str>,
        /// How it broke.
        source: Arc<io::Error>,
    },
    /// As many requests as are held wait for an answer already. Nothing was counted.
    #[error("{most} requests wait for memcached server {server} already")]
    Busy {
        /// The server, as it was given to the builder.
        server: Arc<str>,
        /// How many are held.
        most: usize,
    },
    /// The server answers that it does not do this: it is older than the meta protocol, out of memory, or somebody
    /// keeps something else than a counter under the key. Nothing was counted.
    #[error("memcached server {server} says {message:?}")]
    Refused {
        /// The server, as it was given to the builder.
        server: Arc<str>,
        /// Its own words, at most a line of graphic ASCII.
        message: String,
    },
    /// What came back is no answer of memcached's meta protocol. The connection was given up.
    #[error("memcached server {server} does not speak the meta protocol: {what}")]
    Garbled {
        /// The server, as it was given to the builder.
        server: Arc<str>,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The window ends when servers cannot express it: after January 2038, or, by a server whose clock differs from
    /// ours by more than the window, in the past. Only windows beyond 30 days depend on clocks. Nothing limits until it
    /// is put right.
    #[error("memcached server {server} cannot express the end of a window of {window:?} that begins now")]
    Expiry {
        /// The server, as it was given to the builder.
        server: Arc<str>,
        /// The window.
        window: Duration,
    },
    /// The tokio runtime in which the limiter was built is gone. Nothing was counted.
    #[error("the runtime of the memcached limiter is gone")]
    Closed,
}

/// Why a [`FixedWindow`](super::FixedWindow) cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A fixed window counts up to the quota's count. A burst that differs from it would be left aside.
    #[error("quota burst is {burst}, must be {count}, the quota's count, as a fixed window has no other")]
    Burst {
        /// The quota's burst.
        burst: u64,
        /// The quota's count.
        count: u64,
    },
    /// Counters on a memcached server last for whole seconds.
    #[error("quota period is {period:?}, must be whole seconds, from 1 s to {most:?}")]
    Period {
        /// The quota's period.
        period: Duration,
        /// The longest that servers can express now.
        most: Duration,
    },
    /// A text that becomes a part of each key is malformed.
    #[error("{field} is {value:?}, must be 1 to {most} graphic ASCII characters without braces{}", besides(field))]
    Text {
        /// What it is: `name` or `prefix`.
        field: &'static str,
        /// What it was set to.
        value: String,
        /// The most bytes that it may have.
        most: usize,
    },
    /// A server's address is not of the form `host:port`.
    #[error("server is {value:?}, must be host:port, as in cache.internal:11211 or [2001:db8::1]:11211")]
    Server {
        /// What was given.
        value: String,
    },
    /// No server was given, or too many.
    #[error("{count} servers were given, must be from 1 to {most}")]
    Servers {
        /// How many were given.
        count: usize,
        /// The bound.
        most: usize,
    },
    /// A time is outside its bounds.
    #[error("{field} is {value:?}, must be from {least:?} to {most:?}")]
    Duration {
        /// The builder method that set it.
        field: &'static str,
        /// What it was set to.
        value: Duration,
        /// The shortest that makes sense.
        least: Duration,
        /// The longest that makes sense.
        most: Duration,
    },
    /// A number is outside its bounds.
    #[error("{field} is {value}, must be from {least} to {most}")]
    Number {
        /// The builder method that set it.
        field: &'static str,
        /// What it was set to.
        value: usize,
        /// The least that makes sense.
        least: usize,
        /// The most that makes sense.
        most: usize,
    },
    /// Called outside a tokio runtime.
    #[error("a memcached limiter can only be built inside a tokio runtime with I/O and time enabled")]
    NoRuntime,
}

fn besides(field: &str) -> &'static str {
    if field == "name" { " or colons" } else { "" }
}
