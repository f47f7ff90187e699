//! Other things that decide than this process's memory: servers that all replicas ask, and failover between two limiters.
//!
//! Each is a [`RateLimiter`](crate::RateLimiter), so the middleware and whatever else is written for one takes all of them.
//!
//! | module, feature | what decides |
//! |---|---|
//! | `redis` | a Redis server or cluster: an exact sliding window, or a token bucket |
//! | `memcached` | a memcached server: a fixed window |
//! | `hybrid` | a limiter, and another one while that fails |

#[cfg(any(feature = "redis", feature = "memcached"))]
mod key;

#[cfg(feature = "hybrid")]
pub mod hybrid;
#[cfg(feature = "memcached")]
pub mod memcached;
#[cfg(feature = "redis")]
pub mod redis;
