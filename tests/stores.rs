//! The stores against real servers, which the tests start and stop themselves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "tests"
)]

#[path = "stores/conformance.rs"]
mod conformance;
#[cfg(feature = "tower")]
#[path = "stores/headers.rs"]
mod headers;
#[path = "stores/memcached/mod.rs"]
mod memcached;
#[path = "stores/punctual.rs"]
mod punctual;
#[path = "stores/redis.rs"]
mod redis;
#[path = "stores/servers.rs"]
mod servers;

#[path = "stores/hybrid/mod.rs"]
mod hybrid;
