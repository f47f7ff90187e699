//! How long one decision takes by each kind of limiter, when nothing else is asked: the table of the README.

use std::time::{Duration, Instant};

use peerlimit::{
    Limiter, Quota, RateLimiter,
    stores::{
        hybrid::{Hybrid, State},
        memcached::FixedWindow,
        redis::Redis,
    },
};
use tokio::runtime::Runtime;

use crate::{
    load,
    redis::{Subject, pass},
    servers::{Server, free_port, is_installed},
    support::{histogram::Histogram, options::Options},
};

const QUOTA: Quota = Quota::per_second(100_000).burst(1_000_000);
/// Windows have no burst of their own.
const WINDOW: Quota = Quota::per_second(100_000);
/// Longer than any pause of the host: what fails over would be counted as what it is not.
const PATIENCE: Duration = Duration::from_secs(10);

pub fn run(options: &Options, runtime: &Runtime, redis: Option<&Subject>) {
    if !options.wants("latency") {
        return;
    }
    let requests = options.size(50_000, 5_000);
    let gossip = runtime.block_on(Limiter::builder(QUOTA).bind("127.0.0.1:0".parse().unwrap()).start()).unwrap();
    println!("latency of a decision, one at a time: median, 99th percentile");
    row(runtime, "gossip", &gossip, requests);
    row(runtime, "local", &Limiter::local(QUOTA), requests);
    if let Some(redis) = redis {
        row(runtime, "Redis log", &redis.log, requests);
        row(runtime, "Redis bucket", &redis.bucket, requests);
    }
    memcached(runtime, requests);
    hybrids(runtime, redis, requests);
}

fn memcached(runtime: &Runtime, requests: usize) {
    if !is_installed("memcached") {
        return;
    }
    let port = free_port();
    let text = port.to_string();
    let server = Server::start("memcached", ["-l", "127.0.0.1", "-p", &text, "-U", "0", "-u", "nobody"], port);
    let _inside = runtime.enter();
    let window =
        FixedWindow::builder("window", WINDOW).server(server.addr()).timeout(PATIENCE).connect_timeout(PATIENCE);
    row(runtime, "memcached", &window.build().unwrap(), requests);
}

/// Redis buckets, and limiters without a network to fall back to.
fn hybrids(runtime: &Runtime, redis: Option<&Subject>, requests: usize) {
    if let Some(redis) = redis {
        let hybrid = Hybrid::builder(redis.bucket.clone(), Limiter::local(QUOTA)).timeout(PATIENCE).build().unwrap();
        row(runtime, "hybrid", &hybrid, requests);
        assert_eq!((hybrid.state(), hybrid.stats().by_fallback), (State::Closed, 0), "its Redis decided");
    }
    // Nobody listens at the port of a listener that is gone.
    let nobody = Redis::builder(format!("redis://127.0.0.1:{}/", free_port())).build().unwrap();
    let hybrid = Hybrid::builder(nobody.token_bucket("bucket", QUOTA), Limiter::local(QUOTA))
        .timeout(PATIENCE)
        .cool_off(Duration::from_secs(3_600))
        .build()
        .unwrap();
    while hybrid.state() != State::Open {
        runtime.block_on(pass(&hybrid, "opens"));
    }
    row(runtime, "hybrid, failed", &hybrid, requests);
}

fn row<R: RateLimiter>(runtime: &Runtime, name: &str, limiter: &R, requests: usize) {
    let keys = load::keys();
    let mut took = Histogram::new();
    runtime.block_on(async {
        for index in 0..requests + load::KEYS {
            let begin = Instant::now();
            pass(limiter, &keys[index % load::KEYS]).await;
            // Not of a key's first request.
            if index >= load::KEYS {
                took.add(begin.elapsed());
            }
        }
    });
    println!("  {name:14} {:>9.2} us {:>9.2} us", took.percentile(0.5) / 1e3, took.percentile(0.99) / 1e3);
}
