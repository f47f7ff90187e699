//! What stores cost: throughput beside the bare client of the server, latency beside limiters without one, allocations.
//!
//! `cargo bench --all-features --bench stores`; see `support` for the options. The servers are started here, on loopback.
//! Loopback is the best that a network can be: what a store adds to it is what is measured. The client has one thread, so on two
//! cores each side has its own; throughput is measured with two as well, as a service has them.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a benchmark that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(unreachable_pub, reason = "modules of a benchmark are private by nature")]

mod allocations;
mod latency;
mod load;
mod redis;
#[path = "../../tests/stores/servers.rs"]
mod servers;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "other benchmarks need more of it")]
mod support;

use support::options::Options;

fn main() {
    let options = Options::read();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let redis = redis::Subject::start(&runtime);
    if let Some(redis) = &redis {
        redis.throughput("one thread", &options, &runtime);
        allocations::run(&options, &runtime, redis);
    }
    latency::run(&options, &runtime, redis.as_ref());
    drop(redis);

    // Connections belong to the runtime that made them.
    let two = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    if let Some(redis) = redis::Subject::start(&two) {
        redis.throughput("two threads", &options, &two);
    }
}
