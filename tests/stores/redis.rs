//! Redis: the two limiters against servers of this test.

#[path = "redis/bucket.rs"]
mod bucket;
#[path = "redis/cluster.rs"]
mod cluster;
#[path = "redis/expiry.rs"]
mod expiry;
#[path = "redis/failures.rs"]
mod failures;
#[path = "redis/load.rs"]
mod load;
#[path = "redis/log.rs"]
mod log;
#[path = "redis/replicas.rs"]
mod replicas;
#[path = "redis/settings.rs"]
mod settings;
#[path = "redis/shared.rs"]
mod shared;
#[path = "redis/support.rs"]
pub mod support;
